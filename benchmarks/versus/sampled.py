"""The places in the code that use our broker's CPU: `python -m benchmarks.versus.sampled OUTPUT firearrow-words...`.

Runs a `firearrow` command and looks at its stack at every millisecond of CPU that it has used (SIGPROF). When the
process ends in order, OUTPUT holds the functions by their own time and by their time with all that they call. What a C
function takes counts for the Python line that called it; the loop itself has no Python frame and is shown as such.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from firearrow.cli import main

PERIOD_S = 0.001
SHOWN = 60

own: Counter[str] = Counter()
lines: Counter[str] = Counter()
whole: Counter[str] = Counter()


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{Path(code.co_filename).parent.name}/{Path(code.co_filename).name}:{code.co_name}"


def _look(_number: int, frame: FrameType | None) -> None:
    if frame is None:
        return
    own[_name(frame)] += 1
    lines[f"{_name(frame)}:{frame.f_lineno}"] += 1
    seen = set()
    walk: FrameType | None = frame
    while walk is not None:
        seen.add(_name(walk))
        walk = walk.f_back
    whole.update(seen)


def write(path: Path) -> None:
    """The profile as text."""
    total = max(sum(own.values()), 1)
    with path.open("w") as out:
        for title, counts in (("own", own), ("with calls", whole), ("lines", lines)):
            out.write(f"{title}, {total} samples\n")
            out.writelines(f"{count / total:7.1%} {name}\n" for name, count in counts.most_common(SHOWN))


if __name__ == "__main__":
    output = Path(sys.argv[1])
    sys.argv[1:] = sys.argv[2:]
    signal.signal(signal.SIGPROF, _look)
    signal.setitimer(signal.ITIMER_PROF, PERIOD_S, PERIOD_S)
    try:
        main()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        write(output)

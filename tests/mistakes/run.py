"""Makes mistakes and looks at what is said. A line must come within `LIMIT_S`.

A machine that is busy may take longer to start Python at all. So a line that is late is looked for again, beside
a start of the same modules without a mistake, and may come later by as much as that takes.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from string import Template
from typing import Final

from msgspec import Struct

from tests.mistakes.case import Case
from tests.mistakes.commands import COMMANDS
from tests.mistakes.places import can_run
from tests.mistakes.programs import BEGIN, PROGRAMS
from tests.mistakes.terminal import Seen, look

LIMIT_S: Final = 2.0
SLACK: Final = 2
"""On a busy machine a line may come so many starts of Python later."""
TRIES: Final = 3
"""A line may be late because the machine is busy, but not every time."""
LOAD: Final = "import sys; from firearrow.cli.app import load_command; load_command(sys.argv[1]); print('ready')"
MAIN: Final = "import sys; from firearrow.cli import main; sys.argv[0] = 'firearrow'; sys.exit(main())"


class Outcome(Struct, frozen=True):
    """The outcome of a mistake."""

    case: Case
    line: str
    """With places written as people write them."""
    seconds: float
    """From the start of the process; where that was too long, beyond what a start took at that moment."""
    faults: list[str]
    screen: str


USUAL: Final = {
    "held": "/srv/store",
    "root": "/srv",
    "address": "127.0.0.1:9876",
    "broker": "127.0.0.1:10911",
    "tls": "127.0.0.1:9876",
    "early": "127.0.0.1:9876",
    "taken": "10911",
    "http": "8080",
    "web": "8080",
}
"""The words of the page for a place of the run."""

VARIES: Final = re.compile(
    r" at 0x[0-9a-f]+|[0-9-]{10} [0-9:,]{12} |\b[0-9A-F]{32}\b|(?<=serves on )[0-9.:]+|(?<=broker )\S+(?= serves)"
)
CASES: Final = [*COMMANDS, *PROGRAMS]
AT_ONCE: Final = 3


def run_all(cases: Sequence[Case], places: Mapping[str, str]) -> Iterator[Outcome | None]:
    """Make mistakes, a few at once; their outcomes in order."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(lambda case: run(case, places), cases)


def run(case: Case, places: Mapping[str, str]) -> Outcome | None:
    """Make a mistake, again if its line was late or another; None where this machine does not allow it."""
    wraps = _filled(case.wraps, places)
    if not can_run(wraps):
        return None
    outcome = _once(case, places, wraps, 0.0)
    for _ in range(TRIES - 1):
        if not outcome.faults:
            break
        outcome = _once(case, places, wraps, _start_seconds(case, places))
    return outcome


def _once(case: Case, places: Mapping[str, str], wraps: str, start_s: float) -> Outcome:
    words = shlex.split(_filled(case.words, places))
    program = [sys.executable, "-c", MAIN, *words]
    if not case.is_command:
        program = [sys.executable, "-c", _filled(BEGIN + case.code, places)]
    seen = look([*shlex.split(wraps), *program], _environment(case, places), case.stdin.encode())
    late_s = max(0.0, seen.seconds - SLACK * start_s)
    return Outcome(case, _general(seen.line, places), late_s, _faults(case, seen, late_s, places), seen.screen)


def _start_seconds(case: Case, places: Mapping[str, str]) -> float:
    """The time of the same command without the mistake, at this moment: a start of Python with the modules that are
    needed."""
    words = ["-c", LOAD, case.words.split()[0]] if case.is_command else ["-c", BEGIN + "print('ready')"]
    return look([sys.executable, *words], _environment(case, places)).seconds


def _environment(case: Case, places: Mapping[str, str]) -> dict[str, str]:
    hidden = ("FIREARROW_", "COLUMNS", "LINES", "NAMESRV_ADDR")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    given = {name: _filled(value, places) for name, value in case.environment}
    return {**ours, "HOME": f"{places['root']}/home", "TERM": "xterm-256color", **given}


def _filled(text: str, places: Mapping[str, str]) -> str:
    return Template(text).safe_substitute(places)


def _general(line: str, places: Mapping[str, str]) -> str:
    """The line as the page has it: what differs from run to run is written as people have it."""
    for name, usual in USUAL.items():
        line = line.replace(places[name], usual)
    return VARIES.sub("...", line)


def _faults(case: Case, seen: Seen, late_s: float, places: Mapping[str, str]) -> list[str]:
    wanted = {"name": case.names, "give the reason": case.because, "say what to do": case.do}
    said = seen.line.lower()
    faults = [
        f"does not {what}: {_filled(word, places)!r} is missing"
        for what, word in wanted.items()
        if _filled(word, places).lower() not in said
    ]
    if late_s > LIMIT_S:
        faults.append(f"comes after {late_s:.1f} s")
    if "Traceback" in seen.screen and case.is_command:
        faults.append("shows a traceback")
    return faults

"""Every fuzz target in turn: ``python -m fuzz --seconds 60`` shares the time among them and prints one line for each.

Names of targets limit the run to those: ``python -m fuzz fuzz_record fuzz_batch --seconds 600``.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> int:
    targets = sorted(path.stem for path in Path(__file__).parent.glob("fuzz_*.py"))
    arguments = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    arguments.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(targets))
    arguments.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    options = arguments.parse_args()
    chosen = options.targets or targets
    unknown = sorted(set(chosen) - set(targets))
    if unknown:
        arguments.error(f"no such target: {', '.join(unknown)}; there are {', '.join(targets)}")
    share = options.seconds / len(chosen)
    failed = [name for name in chosen if not _passes(name, share)]
    if failed:
        print(f"breached: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _passes(name: str, seconds: float) -> bool:
    command = [sys.executable, "-m", f"fuzz.{name}", "--seconds", f"{seconds:.1f}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    print(ended.stdout, end="", flush=True)
    if ended.returncode:
        print(ended.stderr, file=sys.stderr, end="")
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes mistakes and looks at what is said. A line must come within `LIMIT_S` of what a start of Python takes."""

import os
import shlex
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final

from msgspec import Struct

from tests.mistakes.case import Case
from tests.mistakes.places import can_run
from tests.mistakes.programs import BEGIN
from tests.mistakes.terminal import Seen, look

LIMIT_S: Final = 2.0
TRIES: Final = 3
"""A line may be late because the machine is busy, but not every time."""
MAIN: Final = "import sys; from firearrow.cli import main; sys.argv[0] = 'firearrow'; sys.exit(main())"
STARTS: Final = {
    True: [sys.executable, "-c", MAIN, "--version"],
    False: [sys.executable, "-c", "import firearrow; firearrow.Producer; print('ready')"],
}
"""What a start takes, for commands and for programs."""


class Outcome(Struct, frozen=True):
    """What came of a mistake."""

    case: Case
    line: str
    """With places written as people write them."""
    seconds: float
    """Beyond the start of Python."""
    faults: list[str]
    screen: str


def run(case: Case, places: Mapping[str, str]) -> Outcome | None:
    """Make a mistake, again if its line was late; None where this machine does not allow it."""
    wraps = _filled(case.wraps, places)
    if not can_run(wraps):
        return None
    outcome = _once(case, places, wraps)
    for _ in range(TRIES - 1):
        if outcome.seconds <= LIMIT_S:
            break
        outcome = _once(case, places, wraps)
    return outcome


def _once(case: Case, places: Mapping[str, str], wraps: str) -> Outcome:
    start_s = _start_seconds(case, places)
    words = shlex.split(_filled(case.words, places))
    program = [sys.executable, "-c", MAIN, *words]
    if not case.is_command:
        program = [sys.executable, "-c", _filled(BEGIN + case.code, places)]
    seen = look([*shlex.split(wraps), *program], _environment(case, places), case.stdin.encode())
    late_s = seen.seconds - start_s
    return Outcome(case, _general(seen.line, places), late_s, _faults(case, seen, late_s, places), seen.screen)


def _start_seconds(case: Case, places: Mapping[str, str]) -> float:
    return statistics.median(look(STARTS[case.is_command], _environment(case, places)).seconds for _ in range(1))


def _environment(case: Case, places: Mapping[str, str]) -> dict[str, str]:
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("FIREARROW_", "COLUMNS", "LINES"))
    }
    given = {name: _filled(value, places) for name, value in case.environment}
    return {**ours, "HOME": f"{places['root']}/home", "TERM": "xterm-256color", **given}


def _filled(text: str, places: Mapping[str, str]) -> str:
    return Template(text).safe_substitute(places)


def _general(line: str, places: Mapping[str, str]) -> str:
    """The line as it stands in the page: the same in every run."""
    return line


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

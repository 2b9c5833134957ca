"""The page of the documentation: every mistake and the first line that is said about it."""

from collections.abc import Iterable
from typing import Final

from tests.mistakes.run import Outcome

PATH: Final = "docs/reference/mistakes.md"

HEAD: Final = """# Mistakes, and what is said

What people do wrong, and the first line that they see: within two seconds it names the thing and the reason, and says
what to do. Commands are run at a terminal, programs as they stand; addresses and paths are written as they usually are.

Written by `python -m tests.mistakes --page`, which makes all of them for real; `tests/mistakes` has the programs. Each
run of the tests makes some of them again and fails if a line is late or lacks one of the three.
"""


def page(outcomes: Iterable[Outcome]) -> str:
    """The whole page."""
    listed = list(outcomes)
    commands = [each for each in listed if each.case.is_command]
    programs = [each for each in listed if not each.case.is_command]
    parts = [HEAD, *_section("At the shell", commands), *_section("In programs", programs)]
    return "\n".join(parts)


def _section(title: str, outcomes: list[Outcome]) -> list[str]:
    rows = [f"| {each.case.mistake} | `{_cell(each.line)}` |" for each in outcomes]
    return [f"## {title}", "", "| mistake | first line |", "|---|---|", *rows, ""]


def _cell(line: str) -> str:
    return line.replace("|", "\\|").replace("`", "'")

"""Second runs of tests of real processes: which tests may need one, and the table of those that did.

``.ci/twice`` runs tests with ``--failures FILE``, runs what failed once more, alone, and asks ``judge`` here. A test
that does not pass then fails the run, also one that was skipped. A test that fails only the first time is unsteady: it
passes if ``tests/unsteady.toml`` lists each of its failures with a cause, of setup and teardown too, and fails
the run otherwise. Every second run is a row of the file that ``SECOND_RUNS`` names, and ``table`` prints those rows at
the end of ``.ci/run``, with the words of the first failures.
"""

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

LIST = Path(__file__).parent.parent / "tests" / "unsteady.toml"
MOST_WORDS = 300
BETWEEN = "; and "
Failures = Mapping[str, Sequence[str]]
"""The tests that failed in a run, with the words of each failure."""


@dataclass(frozen=True, slots=True)
class SecondRun:
    """A test that failed at first."""

    test: str
    words: str
    """Of its failures in the first run."""
    outcome: str
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Unsteady:
    """Tests that may need a second run."""

    name: str
    """A test without its parameters, a file or a folder."""
    cause: str
    words: str
    """A pattern that a failure must hold."""
    example: str
    """The words of such a failure, as the test runner writes them."""

    def covers(self, test: str, words: str) -> bool:
        """Whether a failure of a test with these words is known."""
        name = test.partition("[")[0]
        is_below = name == self.name or name.startswith((f"{self.name}/", f"{self.name}::"))
        return is_below and re.search(self.words, words) is not None


def listed(path: Path = LIST) -> list[Unsteady]:
    """The tests that may need a second run."""
    return [Unsteady(**row) for row in tomllib.loads(path.read_text())["test"]]


def judged(first: Failures, second: Failures, passed: Collection[str], known: Sequence[Unsteady]) -> list[SecondRun]:
    """The result of the second runs of the tests that failed in the first; ``passed`` are those that passed then."""
    return [_judged(test, words, second.get(test), test in passed, known) for test, words in sorted(first.items())]


def _judged(
    test: str, words: Sequence[str], again: Sequence[str] | None, is_passed: bool, known: Sequence[Unsteady]
) -> SecondRun:
    causes = [next((row.cause for row in known if row.covers(test, one)), None) for one in words]
    told = BETWEEN.join(words)
    if again is not None:
        return SecondRun(test, told, f"FAILED AGAIN: {BETWEEN.join(again)}", is_accepted=False)
    if not is_passed:
        return SecondRun(test, told, "DID NOT RUN AGAIN: it was skipped or not found", is_accepted=False)
    listed_causes = [cause for cause in causes if cause is not None]
    if len(listed_causes) < len(words):
        return SecondRun(test, told, f"passed, BUT IS NOT LISTED in {LIST.name}", is_accepted=False)
    return SecondRun(test, told, f"passed; known: {BETWEEN.join(dict.fromkeys(listed_causes))}", is_accepted=True)


def lines(rows: list[SecondRun]) -> list[str]:
    """The closing table."""
    if not rows:
        return ["no test needed a second run"]
    text = [f"{len(rows)} tests were run a second time:"]
    for row in rows:
        words = " ".join(row.words.split())[:MOST_WORDS]
        text += [f"  {row.test}", f"      first: {words}", f"      then:  {' '.join(row.outcome.split())[:MOST_WORDS]}"]
    return text


def main() -> int:
    """Judge the second runs of a suite, or print the table of all of them."""
    arguments = argparse.ArgumentParser(prog="python -m campaigns.second_runs", description=__doc__)
    commands = arguments.add_subparsers(dest="command", required=True)
    judge = commands.add_parser("judge", help="judge the failures of a first and a second run")
    judge.add_argument("first", type=Path)
    judge.add_argument("second", type=Path)
    commands.add_parser("table", help="print the rows of the file that SECOND_RUNS names").add_argument(
        "rows", type=Path
    )
    given = arguments.parse_args()
    if given.command == "table":
        written = given.rows.read_text().splitlines() if given.rows.exists() else []
        print(*lines([SecondRun(**json.loads(line)) for line in written]), sep="\n")  # noqa: T201
        return 0
    first, second = json.loads(given.first.read_text()), json.loads(given.second.read_text())
    rows = judged(first["failed"], second["failed"], second["passed"], listed())
    print(*lines(rows), sep="\n")  # noqa: T201
    if record := os.environ.get("SECOND_RUNS"):
        with Path(record).open("a") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
    return int(not all(row.is_accepted for row in rows))


if __name__ == "__main__":
    sys.exit(main())

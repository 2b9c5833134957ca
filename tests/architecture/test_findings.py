"""The table of the review's findings is whole, and the tests that it names are there."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "history" / "review-findings.md"
FINDINGS: Final = [f"{part}{number}" for part, count in zip("ABCD", (23, 15, 12, 10), strict=True)
                   for number in range(1, count + 1)]  # fmt: skip
COLUMNS: Final = 6
TESTS: Final = 3
NAMED: Final = re.compile(r"(?P<path>tests/[\w/]+\.py)?(?:::(?P<name>\w+))?")


SECOND: Final = "## Second review"
THIRD: Final = "## Third review"
OF_THIRD: Final = [f"{part}{number}" for part, count in zip("EFGHIJ", (10, 9, 8, 7, 1, 5), strict=True)
                   for number in range(1, count + 1)]  # fmt: skip


def rows() -> list[list[str]]:
    """The cells of the first table's rows."""
    return cells_of(PAGE.read_text().partition("## Why nobody saw it")[0])


def second_rows() -> list[list[str]]:
    """The cells of the rows of the second review."""
    return cells_of(PAGE.read_text().partition(SECOND)[2])


def cells_of(table: str) -> list[list[str]]:
    """The cells of a table's rows."""
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in lines]


def named_in(cell: str) -> list[tuple[str, str]]:
    """Files and names that a cell names; a name without a file is of the one before it."""
    path, found = "", list[tuple[str, str]]()
    for match in NAMED.finditer(cell):
        path = match["path"] or path
        if match["path"] or match["name"]:
            found.append((path, match["name"] or ""))
    return found


def test_every_row_has_all_cells() -> None:
    assert [row[0] for row in rows() if len(row) != COLUMNS] == []
    assert [row[0] for row in second_rows() if len(row) != COLUMNS - 1] == []


def test_every_finding_has_a_row() -> None:
    named = {word for row in rows() for word in re.findall(r"\b[ABCD]\d+\b|part \d", row[0])}
    assert [finding for finding in [*FINDINGS, "part 2", "part 3", "part 4"] if finding not in named] == []


def test_every_finding_of_the_third_review_has_a_row() -> None:
    named = {row[0].split()[0] for row in cells_of(PAGE.read_text().partition(THIRD)[2])}
    assert [finding for finding in OF_THIRD if finding not in named] == []


def test_every_test_is_there() -> None:
    missing = []
    for row in [*rows(), *second_rows()]:
        for path, name in named_in(row[TESTS]):
            file = ROOT / path
            if not path or not file.is_file() or (name and not re.search(rf"(def|class) {name}\b", file.read_text())):
                missing.append(f"{row[0]}: {path}::{name}")
    assert missing == []


def test_a_finding_without_a_test_names_its_issue() -> None:
    assert [row[0] for row in rows() if not named_in(row[TESTS]) and "issue" not in row[TESTS]] == []

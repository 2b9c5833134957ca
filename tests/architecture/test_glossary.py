"""The glossary names every noun once, and every place it points to exists."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/internals/glossary.md"


def tables() -> list[list[list[str]]]:
    """The rows of each table of the page, as lists of cells."""
    found: list[list[list[str]]] = []
    for line in PAGE.read_text().splitlines():
        if line == "|---|---|---|---|":
            found.append([])
        elif line.startswith("| ") and not line.startswith("| noun |"):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def test_every_row_has_four_cells() -> None:
    assert [row for table in tables() for row in table if len(row) != 4] == []


def test_a_noun_stands_once_and_in_alphabetical_order() -> None:
    nouns = [[row[0] for row in table] for table in tables()]
    flat = [noun for table in nouns for noun in table]
    assert len(flat) == len(set(flat))
    assert [table for table in nouns if table != sorted(table, key=str.lower)] == []


def test_every_place_exists() -> None:
    places = [row[3].strip("`") for table in tables() for row in table]
    assert [place for place in places if not (ROOT / "src/firearrow" / place).exists()] == []

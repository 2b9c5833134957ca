"""The glossary names every noun once, and the code that it points to uses that noun."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/internals/glossary.md"
QUALIFIED = re.compile(r"(?P<noun>[^(]+?) \(.+\)")


def tables() -> list[list[list[str]]]:
    """The rows of each table of the page, as lists of cells."""
    found: list[list[list[str]]] = []
    for line in PAGE.read_text().splitlines():
        if line == "|---|---|---|---|":
            found.append([])
        elif line.startswith("| ") and not line.startswith("| noun |"):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def rows() -> list[list[str]]:
    return [row for table in tables() for row in table]


def bare(name: str) -> str:
    """A noun in the singular, in small letters, without the words that say of what it is."""
    match = QUALIFIED.fullmatch(name)
    noun = (match["noun"] if match else name).lower()
    return noun.removesuffix("s") if len(noun) > 3 else noun


def repeated(names: list[str]) -> list[list[str]]:
    """Nouns with several rows, of which some do not say of what they are, or say the same."""
    by_noun = defaultdict(list)
    for name in names:
        by_noun[bare(name)].append(name)
    several = [same for same in by_noun.values() if len(same) > 1]
    return [same for same in several if len(set(same)) < len(same) or not all(map(QUALIFIED.fullmatch, same))]


def unused_words(noun: str, text: str) -> list[str]:
    """The words of a noun that a text does not have."""
    return [word for word in re.findall("[a-z]+", bare(noun)) if word not in text.lower()]


def test_every_row_has_four_cells() -> None:
    assert [row for row in rows() if len(row) != 4] == []


def test_a_noun_stands_once() -> None:
    assert repeated([row[0] for row in rows()]) == []


def test_a_meaning_stands_once() -> None:
    meanings = [row[1] for row in rows()]
    assert len(meanings) == len(set(meanings))


@pytest.mark.parametrize(
    ("names", "is_repeated"),
    [
        (["lane", "lane (of jobs)"], True),
        (["lane (of jobs)", "lane (of jobs)"], True),
        (["Timer", "timers"], True),
        (["lane (of a sink)", "lane (of jobs)"], False),
        (["message", "message queue"], False),
    ],
)
def test_a_noun_that_stands_twice_is_found(names: list[str], is_repeated: bool) -> None:
    assert bool(repeated(names)) == is_repeated


def test_tables_are_in_alphabetical_order() -> None:
    nouns = [[row[0] for row in table] for table in tables()]
    assert [table for table in nouns if table != sorted(table, key=str.lower)] == []


def test_every_place_exists() -> None:
    places = [row[3].strip("`") for row in rows()]
    assert [place for place in places if not home_of(place).exists()] == []


def home_of(place: str) -> Path:
    """The folder of a place of the page: in the package, or beside it."""
    inside = ROOT / "src/firearrow" / place
    return inside if inside.exists() else ROOT / place


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_code_uses_the_noun_where_the_page_says(row: list[str]) -> None:
    place = home_of(row[3].strip("`"))
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    text = " ".join([row[3], *(file.read_text() for file in files)])
    assert unused_words(row[0], text) == [], f"no such word in {row[3]}"


def test_a_noun_that_the_code_does_not_use_is_found() -> None:
    assert unused_words("fold (of a topic)", "The order of versions.") == ["fold"]

"""Rooms that a newcomer finds: small folders, and no two modules of a folder with almost one name.

Twins are names that become equal when every word of them is cut down to its stem: trailing digits go, then the endings
in `ENDINGS`, longest first, up to twice, as long as three letters stay; then a final ``e`` and a doubled last letter
(``pull`` and ``pulling``, ``topic`` and ``topics``, ``group`` and ``grouping``, ``reader`` and ``reading``, ``log2``).
"""

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
TREES: Final = ("src", "judges", "campaigns")
FOLDER_FILES_MAX: Final = 20
ENDINGS: Final = ("ings", "ions", "ers", "ors", "ing", "ion", "er", "or", "ed", "es", "s")
STEM_LETTERS_MIN: Final = 3


def folders() -> list[Path]:
    found = [ROOT / name for name in TREES]
    for tree in TREES:
        found += [path for path in (ROOT / tree).rglob("*") if path.is_dir() and path.name != "__pycache__"]
    return sorted(found)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def stem(word: str) -> str:
    """Return a word without its number and its endings."""
    word = word.rstrip("0123456789")
    for _ in range(2):
        ending = next((ending for ending in ENDINGS if word.endswith(ending)), "")
        if not ending or len(word) - len(ending) < STEM_LETTERS_MIN:
            break
        word = word.removesuffix(ending)
    if len(word) > STEM_LETTERS_MIN:
        word = word.removesuffix("e")
    return word[:-1] if len(word) > STEM_LETTERS_MIN and word[-1] == word[-2] else word


def twins(names: list[str]) -> list[tuple[str, ...]]:
    """Names that differ only by an ending or a number."""
    alike = defaultdict(list)
    for name in names:
        alike["_".join(stem(word) for word in name.split("_") if stem(word))].append(name)
    return [tuple(sorted(group)) for group in alike.values() if len(group) > 1]


@pytest.mark.parametrize("folder", folders(), ids=name_of)
def test_folders_stay_small(folder: Path) -> None:
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    assert len(files) <= FOLDER_FILES_MAX, f"{len(files)} files: make packages by family"


@pytest.mark.parametrize("folder", folders(), ids=name_of)
def test_no_two_modules_have_almost_one_name(folder: Path) -> None:
    names = [path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert not twins(names), "say what each of these is, in other words"


@pytest.mark.parametrize(
    "pair",
    ["pull pulling", "topic topics", "log logs", "group grouping", "reader read", "reader reading", "store stored",
     "run running", "selector selection", "part2 part", "topic_book topics_book"],
)  # fmt: skip
def test_twins_are_found(pair: str) -> None:
    assert twins(pair.split()) == [tuple(sorted(pair.split()))]


@pytest.mark.parametrize("pair", ["send send_bulk", "group_book groups", "option_list options", "state statistics"])
def test_names_that_say_different_things_are_no_twins(pair: str) -> None:
    assert twins(pair.split()) == []

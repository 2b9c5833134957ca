"""Every file that a page names is there: paths in back-ticks, relative to the repository or to a package's home."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.test_tree import ROOT, tracked_files

PATH: Final = re.compile(r"`(\w[\w./-]*/[\w-]+\.(?:py|md|txt|toml))`")
HOMES: Final = ("", "src", "src/firearrow", "src/firearrow/testing", "docs", "docs/internals", "tests", "benchmarks")
HISTORY: Final = ("CHANGELOG.md", "docs/history/")
"""Pages and folders that tell what was, by the names of then."""
PAGES: Final = sorted(
    str(path.relative_to(ROOT))
    for path in tracked_files()
    if path.suffix == ".md" and not str(path.relative_to(ROOT)).startswith(HISTORY)
)


def missing(text: str) -> list[str]:
    """Paths in back-ticks that no file has."""
    return [name for name in PATH.findall(text) if not any((ROOT / home / name).is_file() for home in HOMES)]


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    assert missing(Path(ROOT / page).read_text()) == []


def test_a_file_that_is_not_there_is_found() -> None:
    assert missing("see `store/no_such_file.py` and `store/store.py`") == ["store/no_such_file.py"]

"""README.zh-CN.md says what README.md says, as far as a program can see.

Block by block both have the same kind of block, the same links, code and numbers; code blocks are equal but for
comments, and tables have the same rows and columns. ``1.8 万`` is 18,000.
"""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("README.md", "README.zh-CN.md")
FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COMMENT: Final = re.compile(r"\s*(?<!\S)#(?!\!).*$", re.MULTILINE)
LINK: Final = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
CODE: Final = re.compile(r"`([^`]+)`")
NUMBER: Final = re.compile(r"(?<![A-Za-z0-9_.])(\d[\d,]*(?:\.\d+)*)(?: ?(万))?")
IMAGE: Final = re.compile(r'(?:src|srcset)="([^"]+)"')
TEN_THOUSAND: Final = 10_000
LINES_MAX: Final = 150


def blocks(page: str) -> list[str]:
    """The blocks of a page: headings, paragraphs, list items, tables, code."""
    text = (ROOT / page).read_text()
    kept = FENCE.findall(text)
    parts = re.split(r"\n{2,}|\n(?=- )", FENCE.sub("```", text).strip())
    code = iter(kept)
    return [next(code) if part == "```" else part for part in parts]


def kind(block: str) -> str:
    """The kind of a block: a heading with its level, an item, a table with its size, code with its language."""
    first = block.split("\n", 1)[0]
    if first.startswith("#"):
        return f"heading {len(first) - len(first.lstrip('#'))}"
    if first.startswith("```"):
        return f"code {first[3:]}"
    if first.startswith("|"):
        return f"table {[len(cells(row)) for row in block.splitlines()]}"
    return "item" if first.startswith("- ") else "paragraph"


def cells(row: str) -> list[str]:
    """The cells of a row of a table."""
    return re.split(r"(?<!\\)\|", row)[1:-1]


def facts(text: str) -> dict[str, list[str]]:
    """The facts that must be equal in both languages: links, code, numbers; their order is the language's."""
    prose = CODE.sub("", LINK.sub("]", text))
    numbers = [_value(digits, unit) for digits, unit in NUMBER.findall(prose)]
    return {"links": sorted(LINK.findall(text)), "code": sorted(CODE.findall(text)), "numbers": sorted(numbers)}


def _value(digits: str, unit: str) -> str:
    plain = digits.replace(",", "").rstrip(".")
    return str(round(float(plain) * TEN_THOUSAND)) if unit else plain


@pytest.mark.parametrize("page", PAGES)
def test_a_readme_is_short(page: str) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_of_a_readme_are_files(page: str) -> None:
    text = (ROOT / page).read_text()
    named = [name for name in LINK.findall(text) if not name.startswith("http")] + IMAGE.findall(text)
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert [name for name in named if name.endswith("-dark.svg")], "the README has a picture for dark pages"


def test_both_pages_have_the_same_blocks() -> None:
    first, second = ([kind(block) for block in blocks(page)] for page in PAGES)
    assert first == second


def test_code_is_equal_but_for_comments() -> None:
    first, second = ([COMMENT.sub("", block) for block in blocks(page) if block.startswith("```")] for page in PAGES)
    assert first
    assert first == second


def test_tables_have_the_same_facts_in_every_cell() -> None:
    first, second = (
        [facts(cell) for block in blocks(page) if block.startswith("|") for row in block.splitlines()
         for cell in cells(row)] for page in PAGES
    )  # fmt: skip
    assert first
    assert first == second


def test_texts_have_the_same_facts() -> None:
    first, second = ([facts(block) for block in blocks(page) if not block.startswith(("|", "```"))] for page in PAGES)
    languages = {"links": [PAGES[0]], "code": [], "numbers": []}
    assert second.count(languages) == 1
    second[second.index(languages)]["links"] = [PAGES[1]]
    assert first == second


def test_numbers_are_read_in_both_languages() -> None:
    assert facts("每秒 1.8 万至 3 万条")["numbers"] == facts("18,000 to 30,000")["numbers"] == ["18000", "30000"]
    assert facts("4.9.7")["numbers"] == ["4.9.7"]
    assert facts("0.8 times") != facts("0.9 倍")

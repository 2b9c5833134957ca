"""Docstrings name their thing: none opens with What, Who, Where, How or another clause in place of a noun."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
TREES: Final = ("src", "campaigns", "judges", "benchmarks", "fuzz", "examples", "tests")
CLAUSE: Final = re.compile(r"(What|Who|Whom|Whose|Where|How|Which|When|Why|That which|That)\b")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string that stands alone: docstrings, and the strings below attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


def clauses(text: str) -> list[str]:
    """The docstrings of a module that open with a clause, by line."""
    return [f"{line}: {words[:60]}" for line, words in docstrings(ast.parse(text)) if CLAUSE.match(words)]


@pytest.mark.parametrize("folder", TREES)
def test_no_docstring_opens_with_a_clause(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{words}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for words in clauses(path.read_text())
    ]
    assert not found, "begin with the noun: 'The end of the log', not 'Where the log ends'"


@pytest.mark.parametrize(
    "planted",
    ['"""What a broker owes its clients."""', 'class Cost:\n    cpu: int\n    """How much CPU it took."""'],
)
def test_a_clause_is_found(planted: str) -> None:
    assert len(clauses(planted)) == 1


@pytest.mark.parametrize("words", ["The cost of one input.", "Whether the log is full.", "Wheels of timers."])
def test_a_noun_or_a_statement_is_none(words: str) -> None:
    assert clauses(f'"""{words}"""') == []

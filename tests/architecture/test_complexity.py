"""No function decides more than a reader can hold: radon's cyclomatic complexity, counted from the syntax tree.

Counted as radon 6 counts it: one for the function, one for every branch, loop, handler, assertion, comprehension and
condition in it, for the ``else`` of a loop or a ``try``, and for each boolean operator. A function inside of another
counts for itself. Ruff's C901 counts no boolean operators and no expressions; its limit is in pyproject.toml.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_tree import SOURCE, functions, modules

COMPLEXITY_MAX = 15
LARGER = {
    "broker/handlers/message/send.py _plain",
    "protocol/connection.py receive_data",
    "remoting/connection.py receive",
    "store/index/files.py retire",
    "store/index/key_columns.py _uniques_in_place",
    "store/index/row_keys.py _keys_of",
}
"""Functions above the limit: the list only gets shorter."""


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The complexity of a function, without its decorators and the functions inside of it."""
    return 1 + sum(map(_decisions, function.body))


def _decisions(node: ast.AST) -> int:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return 0
    if isinstance(node, ast.Assert):
        return 1
    return _own(node) + sum(map(_decisions, ast.iter_child_nodes(node)))


def _own(node: ast.AST) -> int:
    match node:
        case ast.If() | ast.IfExp():
            return 1
        case ast.For(orelse=otherwise) | ast.AsyncFor(orelse=otherwise) | ast.While(orelse=otherwise):
            return 1 + bool(otherwise)
        case ast.Try(handlers=handlers, orelse=otherwise):
            return len(handlers) + bool(otherwise)
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.comprehension(ifs=conditions):
            return 1 + len(conditions)
        case ast.Match(cases=cases):
            return len(cases) - any(getattr(case.pattern, "pattern", case) is None for case in cases)
    return 0


def complexities(path: Path) -> Iterator[tuple[str, int]]:
    """Every function of a module, and its complexity."""
    for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        yield f"{path.relative_to(SOURCE)} {function.name}", complexity(function)


@pytest.mark.parametrize(
    ("body", "decisions"),
    [
        ("return 1", 0),
        ("if a and b or c:\n  pass\nelif d:\n  pass\nelse:\n  pass", 4),
        ("for a in b:\n  pass\nelse:\n  pass\nwhile a:\n  pass", 3),
        ("try:\n  pass\nexcept A:\n  pass\nexcept B:\n  pass\nelse:\n  pass\nfinally:\n  pass", 3),
        ("return [a for a in b if a if b for c in a], a if b else c", 5),
        ("assert a and b, c or d", 1),
        ("with a, b:\n  pass", 0),
        ("match a:\n  case 1:\n    pass\n  case _:\n    pass", 1),
        ("def inner():\n  if a:\n    pass\nclass Inner:\n  a = b or c\nreturn lambda: a or b", 1),
    ],
)
def test_decisions_are_counted_as_radon_counts_them(body: str, decisions: int) -> None:
    lines = body.replace("\n", "\n    ")
    (function,) = ast.parse(f"async def outer():\n    {lines}").body
    assert isinstance(function, ast.AsyncFunctionDef)
    assert complexity(function) == 1 + decisions


def test_no_function_decides_too_much() -> None:
    found = {place: count for path in modules() for place, count in complexities(path) if count > COMPLEXITY_MAX}
    assert found.keys() <= LARGER, f"take the decision apart; the limit is {COMPLEXITY_MAX}"

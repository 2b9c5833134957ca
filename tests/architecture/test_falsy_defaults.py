"""An empty object is false: ``given or Default()`` would not use one that was given."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
TRUTH = {"__len__", "__bool__"}


def _trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def _may_be_false(trees: list[tuple[Path, ast.Module]]) -> set[str]:
    """The names of our classes whose objects may be false."""
    return {
        node.name
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and TRUTH & {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    }


def _defaults(tree: ast.Module, classes: set[str]) -> Iterator[tuple[int, str]]:
    """Lines that take a new object of such a class in the place of a false one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            last = node.values[-1]
            if isinstance(last, ast.Call) and isinstance(last.func, ast.Name) and last.func.id in classes:
                yield node.lineno, last.func.id


def test_no_default_takes_the_place_of_an_empty_object() -> None:
    trees = list(_trees())
    classes = _may_be_false(trees)
    assert "Turns" in classes
    assert [f"{path}:{line}: {name}" for path, tree in trees for line, name in _defaults(tree, classes)] == []


def test_a_default_for_an_empty_object_is_seen() -> None:
    assert list(_defaults(ast.parse("self.turns = turns or Turns()"), {"Turns"})) == [(1, "Turns")]

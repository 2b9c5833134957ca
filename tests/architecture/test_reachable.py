"""Code that brokers run is code that is proved: nothing of the product is there for tests alone.

Modules: every module outside ``firearrow.testing`` is imported, at whatever depth, by something that a user starts or
imports. Names: every public function and class of the product is named somewhere in the product beside its definition,
or belongs to what users import. What only tests, testing tools or campaigns use goes, or goes in.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.surface import MODULES

SOURCE = Path(__file__).parents[2] / "src"
ENTRIES = (
    "firearrow", "firearrow.__main__", "firearrow.cli", "firearrow.client", "firearrow.blocking", "firearrow.admin",
    "firearrow.broker.broker", "firearrow.nameserver.server", "firearrow.embedded", "firearrow.spark",
    "pyspark_firearrow", "pyspark_firearrow_store",
)  # fmt: skip
"""The modules that users start or import."""
TESTING = "firearrow.testing"
WORD = re.compile(r"[A-Za-z_]\w*")


@cache
def modules() -> dict[str, Path]:
    """Every module by name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text())


def imports(name: str) -> Iterator[str]:
    """The modules that a module imports anywhere, those in whose package they are included."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            wanted = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("firearrow."):
            wanted = [node.value.partition(":")[0]]  # imported by name: lazy attributes, entry points
        else:
            continue
        for one in wanted:
            parts = one.split(".")
            yield from (found for end in range(1, len(parts) + 1) if (found := ".".join(parts[:end])) in modules())


def reached(entries: tuple[str, ...]) -> set[str]:
    """Every module that some of these import, at whatever depth, without going through the testing kit."""
    found: set[str] = set()
    left = [name for name in entries if name in modules()]
    while left:
        name = left.pop()
        if name not in found and not name.startswith(TESTING):
            found.add(name)
            left += imports(name)
    return found


def test_every_product_module_is_reached_from_what_users_start() -> None:
    commands = tuple(name for name in modules() if name.startswith("firearrow.cli."))  # imported by name
    product = {name for name in modules() if not name.startswith(TESTING)}
    alone = sorted(product - reached((*ENTRIES, *commands)))
    assert not alone, f"only tests, testing tools or campaigns import {alone}: they go, or the product uses them"


def public_names(name: str) -> Iterator[str]:
    for node in tree_of(name).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


@cache
def mentions() -> Counter[str]:
    """Count each word of the product."""
    words: Counter[str] = Counter()
    for name, path in modules().items():
        if not name.startswith(TESTING):
            words.update(WORD.findall(path.read_text()))
    return words


def is_offered(name: str) -> bool:
    """Whether users import from a module, or find its contents by their kind: conversations, bodies, commands."""
    found_by_kind = ("firearrow.protocol.requests", "firearrow.protocol.bodies", "firearrow.cli", "firearrow.spark")
    return name in MODULES or name.startswith(found_by_kind) or name == "firearrow.errors"


def test_every_public_name_is_used_by_the_product() -> None:
    alone = [
        f"{name}.{each}"
        for name in sorted(modules())
        if not name.startswith(TESTING) and not is_offered(name)
        for each in public_names(name)
        if mentions()[each] < 2
    ]
    assert not alone, f"named nowhere in the product but where they are defined: {alone}"


def test_nobody_asks_a_timer_when_it_is_due() -> None:
    asking = [
        f"{name}:{node.lineno}"
        for name in sorted(modules())
        if not name.startswith("firearrow.spark")  # where it is a word of SQL
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Attribute) and node.attr == "when"
    ]
    assert not asking, f"uvloop's handles cannot say when they are due; remember it beside them: {asking}"

"""The tests to run after a change of a module: a map from modules to test files, read from imports.

    python -m tests.architecture.covering firearrow.store.log.flush
    python -m tests.architecture.covering src/firearrow/store/log/flush.py --pytest     the paths alone, for pytest

A test file covers a module directly when it, or a helper of the tests that it imports, imports the module or a name
that the module defines, at whatever package door the name is taken, or when it runs a command line that the module is
the command of. It covers the module at one step when it covers a module directly that imports the module. `FURTHER`
names tests of modules that lie deeper. A test that starts a broker runs far more than it imports: the map says what to
run first, and ``make test sim`` is the whole.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from firearrow.cli.app import COMMANDS, OPERATIONS, PLACES

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests"
ROOTS: Final = {"firearrow": ROOT / "src", "judges": ROOT, "campaigns": ROOT, "tests": ROOT}
PROGRAM: Final = re.compile(r"\bfirearrow( |\.cli\b|$)")
"""A string of a test that runs a command line, or imports the commands."""
FURTHER: Final = {
    "firearrow.__main__": ["tests/unit/client/test_mistakes.py"],
    "firearrow.broker.handlers.admin.timer": ["tests/unit/broker/test_served_codes.py"],
    "firearrow.broker.handlers.admin.unserved": ["tests/unit/broker/test_admin.py"],
    "firearrow.broker.handlers.message.query": ["tests/unit/broker/test_admin.py"],
    "firearrow.client.consumer.division.rebalance": ["tests/simulation/client/test_rebalance_listener.py"],
    "firearrow.mirror.target_tail": ["tests/integration/mirror/test_both_ways.py"],
    "firearrow.runtime.forks": ["tests/integration/client/test_workers.py"],
    "firearrow.spark.formats": ["tests/spark/source/test_in_spark.py"],
}
"""Modules that no test imports, nor anything that a test imports, and the tests that fail when they are wrong."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the product, of judges, campaigns and tests, by name."""
    found = {}
    for name, root in ROOTS.items():
        for path in sorted((root / name).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(name: str) -> dict[str, str]:
    """The names that a module imports, and their modules."""
    found = {}
    for node in ast.walk(ast.parse(modules()[name].read_text())):
        if isinstance(node, ast.Import):
            found.update({alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({alias.asname or alias.name: f"{node.module}:{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("firearrow."):
            found[node.value] = node.value.partition(":")[0]  # imported by name: commands, plugins, lazy attributes
    return found


def home(source: str) -> str:
    """The module that defines what is imported, through the doors of packages; empty if it is none of ours."""
    module, _, name = source.partition(":")
    if name and f"{module}.{name}" in modules():
        return f"{module}.{name}"
    if module not in modules():
        return ""
    passed_on = imports(module).get(name, "") if modules()[module].name == "__init__.py" else ""
    return (home(passed_on) if passed_on else "") or module


@cache
def commands(name: str) -> set[str]:
    """The modules of the commands that a module runs: it names the program and, in a string of its own, the command."""
    strings = {node.value for node in ast.walk(ast.parse(modules()[name].read_text()))
               if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
    words = {text.removeprefix("firearrow ").partition(" ")[0] for text in strings}
    runs = any(PROGRAM.search(text) for text in strings) or "firearrow.cli.app" in imported(name)
    if not runs:
        return set()
    named = [word for word in COMMANDS if word in words]
    below = {OPERATIONS[word][0] for word in named if word in OPERATIONS}
    return {PLACES.get(word, f"firearrow.cli.{word}") for word in named} | below


@cache
def imported(name: str) -> frozenset[str]:
    """The modules that a module imports, those that a package's door hides included."""
    return frozenset(found for source in imports(name).values() if (found := home(source)) and found != name)


def direct(test: str) -> set[str]:
    """The modules that a test file covers directly, by itself and by the helpers of the tests that it imports."""
    found, seen, left = set[str](), set[str](), [test]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        found |= {other for other in imported(name) if not other.startswith("tests.")} | commands(name)
        left += [other for other in imported(name) if other.startswith("tests.")]
    return found


def test_names() -> Iterator[str]:
    """The test files, as modules."""
    for name in modules():
        if name.startswith("tests.") and ".test_" in name and not name.startswith("tests.architecture."):
            yield name


@cache
def coverage() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By module: the test files that cover it directly, and those that cover it at one step."""
    near, far = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for test in test_names():
        reached = direct(test)
        for name in reached:
            near[name].append(path_of(test))
        for name in {other for between in reached for other in imported(between)} - reached:
            far[name].append(path_of(test))
    for name, paths in FURTHER.items():
        far[name] += paths
    return near, far


def path_of(name: str) -> str:
    """The path of a module, from the root of the tree."""
    return str(modules()[name].relative_to(ROOT))


def module_of(text: str) -> str:
    """The module that a user names, by a dotted name or by a path."""
    path = Path(text).resolve()
    found = next((name for name, place in modules().items() if place == path), text)
    if found not in modules():
        sys.exit(f"no module {text}: name one of ours, as firearrow.store.log.flush or as a path")
    return found


def main() -> None:
    """Say which tests cover a module."""
    parser = argparse.ArgumentParser(description="Say which tests cover a module.")
    parser.add_argument("module", help="a dotted name, or a path")
    parser.add_argument("--pytest", action="store_true", help="print the paths alone, for pytest")
    chosen = parser.parse_args()
    name = module_of(chosen.module)
    near, far = (tests.get(name, []) for tests in coverage())
    if chosen.pytest:
        sys.stdout.write(" ".join(near or far) + "\n")
        return
    for title, paths in (("directly", near), ("at one step", far)):
        sys.stdout.write(f"{name}, covered {title} by {len(paths)} test files\n")
        sys.stdout.write("".join(f"  {path}\n" for path in paths))


if __name__ == "__main__":
    main()

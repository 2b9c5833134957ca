"""The test files that use a module below ``tests``, by the imports that their text shows.

A module uses those that it imports, those that it names in a string (``tests.spark.kills``, for a process or a plugin),
and the ``conftest.py`` of its folder and of the folders above.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = "tests"
_NAMED = re.compile(rf"{FOLDER}(\.\w+)+")


def files_that_use(repository: Path, changed: Iterable[str]) -> list[str]:
    """Test files that use changed modules, directly or through other modules: those with the fewest steps first."""
    users: dict[str, set[str]] = {}
    for path in sorted((repository / FOLDER).rglob("*.py")):
        user = str(path.relative_to(repository))
        for used in _used(repository, path):
            users.setdefault(used, set()).add(user)
    seen = dict.fromkeys(changed)
    step = list(seen)
    found: list[str] = []
    while step:
        step = sorted({user for used in step for user in users.get(used, ())} - set(seen))
        seen.update(dict.fromkeys(step))
        found += [path for path in step if is_test_file(path)]
    return found


def is_test_file(path: str) -> bool:
    """Whether a file has tests, by its name."""
    return Path(path).name.startswith("test_") and path.endswith(".py")


def _used(repository: Path, path: Path) -> Iterator[str]:
    """The files below ``tests`` that a module uses."""
    top = repository / FOLDER
    for folder in [path.parent, *path.parent.parents]:
        if folder.is_relative_to(top) and (folder / "conftest.py").exists():
            yield str((folder / "conftest.py").relative_to(repository))
    try:
        tree = ast.parse(path.read_text())
    except (SyntaxError, ValueError):  # its own run says so
        return
    for module in _modules(tree):
        file = repository / module.replace(".", "/")
        for candidate in (file.with_suffix(".py"), file / "__init__.py"):
            if candidate.exists():
                yield str(candidate.relative_to(repository))


def _modules(tree: ast.Module) -> Iterator[str]:
    """The names that may be modules of tests."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        yield from (name for name in names if _NAMED.fullmatch(name))

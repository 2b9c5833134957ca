"""Fills the marked blocks of pages with the layout of the tree: ``python docs/generate/layout.py``.

A block stands between ``<!-- layout: ... -->`` and ``<!-- layout: end -->``. Its first line says what is put there:

- ``packages``: the packages of src, judges and campaigns, two levels deep, with the first sentence of their docstrings,
- ``layers``: the layers of src/firearrow, from the import rules in pyproject.toml,
- ``modules NAME ...``: modules, and packages with all that is in them, with the first paragraph of their docstrings.
"""

# ruff: noqa: INP001 - a script beside the pages it writes

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src"
PRODUCT: Final = SOURCE / "firearrow"
OUTSIDE: Final = (SOURCE / "pyspark_firearrow", SOURCE / "pyspark_firearrow_store", ROOT / "judges", ROOT / "campaigns")
BLOCK: Final = re.compile(r"(<!-- layout: (?!end)([^>]+) -->\n).*?(<!-- layout: end -->)", re.DOTALL)
SENTENCE_END: Final = re.compile(r"(?<=\.)\s+(?=[A-Z`])")
LINE_MAX: Final = 120
NAME_WIDTH: Final = 26


def pages() -> dict[Path, str]:
    """Every page that has a marked block, as it should be."""
    texts = {path: path.read_text() for path in [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]}
    return {path: BLOCK.sub(_filled, text) for path, text in texts.items() if BLOCK.search(text)}


def _filled(block: re.Match[str]) -> str:
    kind, *names = block[2].split()
    made = {"packages": packages, "layers": layers}[kind]() if kind != "modules" else modules(names)
    return f"{block[1]}\n{made}\n{block[3]}"


def packages() -> str:
    """The packages as a tree, one line each, higher layers first."""
    lines = ["    src/", "      firearrow/"]
    for name in [name for layer in layer_names() for name in layer if (PRODUCT / name).is_dir()]:
        lines.append(_line(PRODUCT / name, 4))
        lines += [_line(room, 6) for room in rooms(PRODUCT / name)]
    lines += [_line(path, 2 if path.parent == SOURCE else 0) for path in OUTSIDE]
    return "\n".join(lines) + "\n"


def _line(package: Path, indent: int) -> str:
    text = SENTENCE_END.split(paragraph(package / "__init__.py"))[0].replace("`", "").removesuffix(".")
    line = f"    {' ' * indent + package.name + '/':<{NAME_WIDTH}}  {text}"
    assert len(line) <= LINE_MAX, f"make the first sentence of {package.name}/__init__.py shorter: {line}"
    return line


def layers() -> str:
    """The layers as text, the highest first."""
    return "".join(f"    {' | '.join(layer)}\n" for layer in layer_names())


def layer_names() -> list[list[str]]:
    """The packages and modules of each layer that are there, the highest layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    declared = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    split = [[name.strip("() ") for name in layer.split("|")] for layer in declared]
    there = [[name for name in layer if _is_there(name)] for layer in split]
    return [layer for layer in there if layer]


def _is_there(name: str) -> bool:
    return (PRODUCT / name / "__init__.py").exists() or (PRODUCT / f"{name}.py").exists()


def modules(names: list[str]) -> str:
    """A table of modules."""
    rows = "".join(f"| `{_short(path)}` | {_cell(path)} |\n" for name in names for path in _files(name))
    return f"| module | what it is |\n|---|---|\n{rows}"


def _files(name: str) -> Iterator[Path]:
    """The file of a module; the files of a package, its rooms after its own modules."""
    path = SOURCE.joinpath(*name.split("."))
    if not path.is_dir():
        yield path.with_suffix(".py")
        return
    yield path / "__init__.py"
    yield from sorted(file for file in path.glob("*.py") if file.name != "__init__.py")
    for room in rooms(path):
        yield from _files(f"{name}.{room.name}")


def rooms(package: Path) -> list[Path]:
    """The packages in a package."""
    return sorted(path.parent for path in package.glob("*/__init__.py"))


def _short(path: Path) -> str:
    inside = path.relative_to(PRODUCT)
    return f"{inside.parent}/" if path.name == "__init__.py" else str(inside)


def _cell(path: Path) -> str:
    text = paragraph(path).replace("``", "`").replace("|", "\\|")
    return f"**{text}**" if path.name == "__init__.py" else text


def paragraph(path: Path) -> str:
    """The first paragraph of a module's docstring, in one line."""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(said.split("\n\n")[0].split())


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)

"""Writes the lines of code by room into docs/internals/packages.md: ``python -m tests.architecture.sizes``.

The page names the commit that the tree is compared with, in the mark of its table. A clone without that commit keeps
the table as it is. Lines are those of Python files, empty lines and docstrings too.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "internals" / "packages.md"
TABLE: Final = re.compile(r"(<!-- sizes: (\w+) -->\n).*?(<!-- sizes: end -->)", re.DOTALL)
HEAD: Final = "| room | at {commit} | now | difference |\n|---|---|---|---|\n"


def room_of(name: str) -> str:
    """The room of a file below src: a package or a module of FireArrow, or a package beside it."""
    parts = name.removeprefix("src/").split("/")
    return (parts[1] if parts[0] == "firearrow" else parts[0]).removesuffix(".py")


def counted(files: Iterable[tuple[str, str]]) -> Counter[str]:
    """The lines of each room, of files by name and text."""
    lines: Counter[str] = Counter()
    for name, text in files:
        lines[room_of(name)] += text.count("\n")
    return lines


def lines_now() -> Counter[str]:
    """The lines of each room in the tree."""
    files = sorted((ROOT / "src").rglob("*.py"))
    return counted((str(path.relative_to(ROOT)), path.read_text()) for path in files)


def lines_at(commit: str) -> Counter[str]:
    """The lines of each room at a commit."""
    names = [name for name in _git("ls-tree", "-r", "--name-only", commit, "src").splitlines() if name.endswith(".py")]
    return counted((name, _git("show", f"{commit}:{name}")) for name in names)


def table(commit: str, before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """The table of the page."""
    rooms = sorted({*before, *now})
    rows = [(room, before.get(room, 0), now.get(room, 0)) for room in rooms]
    rows.append(("**src**", sum(before.values()), sum(now.values())))
    return HEAD.format(commit=f"`{commit}`") + "".join(
        f"| {room} | {old:,} | {new:,} | {new - old:+,} |\n" for room, old, new in rows
    )


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Write the table; return the exit status."""
    text = PAGE.read_text()
    found = TABLE.search(text)
    assert found is not None, f"{PAGE} has no mark for the table"
    commit = found[2]
    try:
        before = lines_at(commit)
    except subprocess.CalledProcessError:
        print(f"this clone has no commit {commit}: git fetch --unshallow", file=sys.stderr)
        return 1
    filled = table(commit, before, lines_now())
    PAGE.write_text(TABLE.sub(lambda mark: f"{mark[1]}\n{filled}\n{mark[3]}", text))
    print(filled)
    return 0


if __name__ == "__main__":
    sys.exit(main())

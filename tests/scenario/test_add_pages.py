"""Follows the pages that add a request code and a command in a copy of the tree, as they say, block by block.

A ``python`` block is appended to the file in its title, a ``diff`` block is applied to it, an ``sh`` block is run.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("add-a-request-code", "add-a-command")
COPIED = ("src", "docs", "tests", "judges", "campaigns", "CONTRIBUTING.md", "README.md", "pyproject.toml")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
    return [Block(*match.groups(default="")) for match in BLOCK.finditer(text)]


def copy_tree(target: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def apply_diff(text: str, diff: str) -> str:
    lines = diff.splitlines()
    before = "\n".join(line[1:] for line in lines if line[0] in " -")
    after = "\n".join(line[1:] for line in lines if line[0] in " +")
    assert before in text, f"the page expects lines that are not there:\n{before}"
    return text.replace(before, after, 1)


def append(text: str, addition: str) -> str:
    return f"{text.rstrip()}\n\n\n{addition}" if text else addition


def change(target: Path, block: Block) -> None:
    path = target / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    path.write_text(apply_diff(text, block.text) if block.language == "diff" else append(text, block.text))


def run(target: Path, command: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{target / 'src'}{os.pathsep}{target}", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable if word == "python" else word for word in command.split()]
    done = subprocess.run(words, cwd=target, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def lint(target: Path, files: list[str]) -> None:
    for arguments in (["check", "--no-cache"], ["format", "--no-cache", "--check"]):
        run(target, " ".join(["python", "-m", "ruff", *arguments, *files]))


@pytest.mark.real
@pytest.mark.parametrize("page", PAGES)
def test_a_newcomer_who_follows_the_page_ends_with_something_that_works(page: str, tmp_path: Path) -> None:
    copy_tree(tmp_path)
    found = blocks(page)
    assert {block.language for block in found} == {"diff", "python", "sh"}
    for block in found:
        if block.language != "sh":
            change(tmp_path, block)
    for block in found:
        if block.language == "sh":
            for command in block.text.splitlines():
                run(tmp_path, command)
    lint(tmp_path, sorted({block.file for block in found if block.file.endswith(".py")}))

"""``make quick`` runs the unit tests of the pure packages and imports nothing that is large."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LARGE: Final = ("hypothesis", "numpy", "pyarrow", "pandas", "pyspark", "typer", "uvloop", "xdist")
COLLECT: Final = f"""
import sys
import pytest
status = pytest.main(["-p", "pytest_timeout", "--collect-only", *sys.argv[1:]])
print("LARGE", [name for name in {LARGE} if name in sys.modules])
sys.exit(status)
"""


def quick_paths() -> list[str]:
    """The files and folders that the target runs."""
    ran = subprocess.run(["make", "-n", "quick", "VENV=.venv"], cwd=ROOT, capture_output=True, text=True, check=True)
    return re.findall(r"tests/unit/[\w./]+", ran.stdout)


def pure_packages() -> set[str]:
    """The packages that import-linter holds to be pure, as folders or files of unit tests."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [pure] = [contract for contract in contracts if contract["name"] == "Pure packages touch nothing"]
    names = {name.removeprefix("firearrow.") for name in pure["source_modules"]}
    return {
        f"tests/unit/{name}" if (ROOT / "tests/unit" / name).is_dir() else f"tests/unit/test_{name}.py"
        for name in names
    }


def collected(*paths: str) -> str:
    """The last line of a collection: the large libraries that it imported."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    words = [sys.executable, "-c", COLLECT, *paths]
    ran = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()[-1]


def test_quick_tests_are_those_of_the_pure_packages() -> None:
    assert set(quick_paths()) == pure_packages()


def test_quick_tests_import_no_large_library() -> None:
    assert collected(*quick_paths()) == "LARGE []"


def test_a_large_library_is_seen() -> None:
    assert collected("tests/property/model/test_numbers.py") == "LARGE ['hypothesis']"

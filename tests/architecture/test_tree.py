"""The habits that a program can check."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "firearrow"
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

CLIENT_PACKAGES = (
    "errors",
    "model",
    "record",
    "protocol.requests",
    "protocol.connection",
    "remoting.caller",
    "client",
    "blocking",
)
OPTIONAL = ("typer", "rich", "uvloop", "lz4", "zstandard", "pytest", "hypothesis", "numpy", "pyarrow", "lark")


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_and_functions_stay_small(module: Path) -> None:
    text = module.read_text()
    assert text.count("\n") <= MODULE_LINES_MAX, "split the module"
    for function in functions(ast.parse(text)):
        lines = (function.end_lineno or 0) - function.lineno + 1
        assert lines <= FUNCTION_LINES_MAX, f"{function.name} has {lines} lines"


TURN = SOURCE / "runtime" / "turn"


def branches(given: ast.expr) -> list[ast.expr]:
    return [given.body, given.orelse] if isinstance(given, ast.IfExp) else []


def yields_of_its_own(tree: ast.AST) -> list[int]:
    """The lines that let the loop run without its owner: ``call_soon``, and sleeps of no time."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "call_soon":
            lines.append(node.lineno)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "sleep":
            waits = [branch for given in node.args for branch in (given, *branches(given))]
            lines += [node.lineno for one in waits if isinstance(one, ast.Constant) and one.value == 0]
    return lines


def test_a_yield_of_its_own_is_found() -> None:
    for planted in (
        "loop.call_soon(step)",
        "schedule = partial(get_running_loop().call_soon, step)",
        "async def run():\n    await asyncio.sleep(0)",
        "async def run():\n    await sleep(0.0)",
        "async def run():\n    await asyncio.sleep(PAUSE_S if more else 0)",
    ):
        assert yields_of_its_own(ast.parse(planted)), planted
    assert not yields_of_its_own(
        ast.parse("loop.call_soon_threadsafe(step)\nwait = asyncio.sleep(max(0.0, due - now))")
    )


def test_only_the_turn_lets_the_loop_run() -> None:
    found = {
        str(module.relative_to(SOURCE)): lines
        for module in modules()
        if not module.is_relative_to(TURN) and not module.is_relative_to(SOURCE / "testing")
        if (lines := yields_of_its_own(ast.parse(module.read_text())))
    }
    assert not found, "use soon, mark, breathe or Pace of runtime/turn"
    assert yields_of_its_own(ast.parse((TURN / "turn.py").read_text()))


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text()))


# Spelled in pieces, so that this file does not hold what it forbids.
FORBIDDEN = {
    "a package registry's host": re.compile(
        "|".join(
            (
                "pypi" + r"\.org",
                "python" + r"hosted\.org",
                "registry" + r"\.npm",
                "npm" + r"mirror",
                "maven" + r"\.org",
                "proxy" + r"\.golang",
                "crates" + r"\.io",
                "deb" + r"\.debian",
            )
        )
    ),
    "a path of one machine": re.compile("|".join(("/work" + "/", "/root" + "/", "/home" + r"/\w", "/tmp" + "/plan"))),
}


def test_no_file_names_a_registry_or_a_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for what, pattern in FORBIDDEN.items():
            found += [f"{path.relative_to(ROOT)}: {what}: {match[0]}" for match in pattern.finditer(text)]
    assert not found


def test_the_client_packages_need_msgspec_alone() -> None:
    program = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import importlib
for name in {CLIENT_PACKAGES!r}:
    importlib.import_module("firearrow." + name)
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.record.properties import encode_properties
print(SendMessageV2.code, encode_properties({{"TAGS": "a"}}))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "310" in ran.stdout

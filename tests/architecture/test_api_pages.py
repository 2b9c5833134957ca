"""``help()`` and the pages of the library list every public name, and every page has an example that a test runs."""

import pydoc
import re
from importlib import import_module
from pathlib import Path

import pytest

import firearrow
from tests.architecture.surface import MODULES, _module
from tests.scenario.test_pages import DOCS, PAGES

API = DOCS / "reference" / "api"
DIRECTIVE = re.compile(r"^::: ([\w.]+)(\n    options:\n      members: \[\])?", re.MULTILINE)
SAME_AS = {"firearrow": "firearrow.client", "firearrow.blocking": "firearrow.client"}
"""The modules of names that another module exports."""


def pages() -> list[Path]:
    return sorted(API.glob("*.md"))


def documented() -> tuple[set[str], set[str]]:
    """Names with a place of their own, and modules of which everything is shown."""
    found = [match for page in pages() for match in DIRECTIVE.finditer(page.read_text(encoding="utf-8"))]
    modules = {match[1] for match in found if match[1] in MODULES and not match[2]}
    return {match[1] for match in found if match[1] not in MODULES}, modules


def public_names(module: str) -> list[str]:
    lines = [line for line in _module(module) if not line.startswith(" ")]
    return [re.sub(r"^(class|def) ", "", line).split("(")[0].split(" ")[0] for line in lines]


@pytest.mark.parametrize("module", MODULES)
def test_the_pages_list_every_public_name(module: str) -> None:
    names, modules = documented()
    if module in modules:
        return
    home = SAME_AS.get(module, module)
    missing = [
        name
        for name in public_names(module)
        if f"{module}.{name}" not in names and f"{home}.{name}" not in names and name != "__version__"
    ]
    assert not missing, f"write ::: {module}.{missing[0]} into a page of docs/reference/api"


def test_every_name_on_the_pages_is_there() -> None:
    for path in documented()[0]:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path


def test_every_page_has_an_example_that_is_run_and_a_place_in_the_menu() -> None:
    menu = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in pages():
        path = str(page.relative_to(DOCS))
        assert PAGES[path], path
        assert path in menu, path


@pytest.mark.parametrize("name", firearrow.__all__)
def test_help_lists_every_public_name(name: str) -> None:
    assert name in dir(firearrow)
    text = pydoc.plain(pydoc.render_doc(firearrow))
    kind = "class " if name[0].isupper() else ""
    shown = firearrow.__version__ if name == "__version__" else f"{kind}{name}("
    assert shown in text

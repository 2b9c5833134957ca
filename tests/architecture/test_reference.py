"""Pages that are generated from the code are up to date."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load(script: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    return generator


@pytest.mark.parametrize("script", sorted((ROOT / "docs/generate").glob("*.py")), ids=lambda path: path.stem)
def test_a_generated_page_is_up_to_date(script: Path) -> None:
    generator = load(script)
    made = generator.pages() if hasattr(generator, "pages") else {generator.PAGE: generator.page()}
    assert made
    for path, text in made.items():
        assert path.read_text() == text, f"run python {script.relative_to(ROOT)}"


def test_the_pages_of_the_layout_have_their_blocks() -> None:
    pages = load(ROOT / "docs/generate/layout.py").pages()
    names = {"CONTRIBUTING.md", *(f"docs/internals/{name}.md" for name in ("client", "packages", "remoting", "store"))}
    assert {str(path.relative_to(ROOT)) for path in pages} >= names

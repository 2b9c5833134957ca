"""Pages that are generated from the code are up to date."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("script", sorted((ROOT / "docs/generate").glob("*.py")), ids=lambda path: path.stem)
def test_a_generated_page_is_up_to_date(script: Path) -> None:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.PAGE.read_text() == generator.page(), f"run python {script.relative_to(ROOT)}"

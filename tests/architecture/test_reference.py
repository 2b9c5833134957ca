"""Pages that are generated from the code are up to date."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_request_codes_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("request_codes", ROOT / "docs/generate/request_codes.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    page = (ROOT / "docs/reference/request-codes.md").read_text()
    assert page == generator.page(), "run python docs/generate/request_codes.py"

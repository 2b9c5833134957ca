"""The conformance vectors of CEL's specification: every one that applies passes, and the page has the counts."""

import pytest

from campaigns.cel.__main__ import PAGE, page_with
from campaigns.cel.vectors import Outcome, outcomes, table
from judges.install.artifacts import cel_vectors

LEAST = 983
"""The vectors that apply; fewer means that something offered was taken away, or is refused by mistake."""


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    return list(outcomes(cel_vectors().install()))


def test_every_vector_that_applies_passes(found: list[Outcome]) -> None:
    assert [each for each in found if each.result == "failed"] == []
    assert len([each for each in found if each.result == "passed"]) >= LEAST


def test_the_page_has_the_counts(found: list[Outcome]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_with(page, table(found)) == page

"""Numbers in texts that anyone may have written."""

import pytest

from firearrow.model.numbers import LONG_MAX, whole_number


@pytest.mark.parametrize(
    "text", [None, "", "\u00b2", "\uff11", "\u0661", "9" * 5000, "-1", "+1", " 1", "1_0", str(LONG_MAX + 1)]
)
def test_another_text_is_no_number(text: str | None) -> None:
    assert whole_number(text) is None

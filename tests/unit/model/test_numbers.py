"""Numbers in texts that anyone may have written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.model.numbers import INT_MAX, LONG_MAX, whole_number


@given(st.integers(0, LONG_MAX))
def test_a_number_is_read(number: int) -> None:
    assert whole_number(str(number)) == number
    assert whole_number(str(number), INT_MAX) == (number if number <= INT_MAX else None)


@pytest.mark.parametrize(
    "text", [None, "", "\u00b2", "\uff11", "\u0661", "9" * 5000, "-1", "+1", " 1", "1_0", str(LONG_MAX + 1)]
)
def test_another_text_is_no_number(text: str | None) -> None:
    assert whole_number(text) is None


@given(st.text())
def test_no_text_raises(text: str) -> None:
    number = whole_number(text)
    assert number is None or int(text) == number

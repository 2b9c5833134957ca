"""Numbers in texts that anyone may have written."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.model.numbers import INT_MAX, LONG_MAX, whole_number


@given(st.integers(0, LONG_MAX))
def test_a_number_is_read(number: int) -> None:
    assert whole_number(str(number)) == number
    assert whole_number(str(number), INT_MAX) == (number if number <= INT_MAX else None)


@given(st.text())
def test_no_text_raises(text: str) -> None:
    number = whole_number(text)
    assert number is None or int(text) == number

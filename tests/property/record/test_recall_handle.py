"""Handles of timed messages."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.errors import IllegalMessage
from firearrow.record.recall_handle import RecallHandle, decode_handle, encode_handle

WORDS = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(st.builds(RecallHandle, WORDS, WORDS, WORDS, WORDS))
def test_a_handle_says_what_was_put_into_it_with_and_without_padding(handle: RecallHandle) -> None:
    text = encode_handle(handle)
    assert decode_handle(text) == decode_handle(text.rstrip("=")) == handle


@given(st.text(max_size=200))
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    try:
        decode_handle(text)
    except IllegalMessage:
        return

"""Handles of timed messages."""

from base64 import urlsafe_b64encode
from typing import Any

import pytest

from firearrow.errors import IllegalMessage
from firearrow.record.recall_handle import RecallHandle, decode_handle, encode_handle


def test_a_handle_of_apache_5_5_0_is_read() -> None:
    text = "djEgdG0tOTczNy0xIGJyb2tlci1hIDE3OTQ4Njc3NjUwMDEgQzAwMDAyMDIyNjA5MzAzMTVDMUM1MjBDQTUzMTAwMDA="
    key = "C0000202260930315C1C520CA5310000"
    assert decode_handle(text) == RecallHandle("tm-9737-1", "broker-a", "1794867765001", key)
    assert encode_handle(decode_handle(text)) == text


@pytest.mark.parametrize("text", ["", "x", "v1 a b c d", urlsafe_b64encode(b"v2 a b c d").decode(), "é", None, 7])
def test_what_is_no_handle_is_refused(text: Any) -> None:
    with pytest.raises(IllegalMessage, match="is not a recall handle; give the recall_handle of"):
        decode_handle(text)

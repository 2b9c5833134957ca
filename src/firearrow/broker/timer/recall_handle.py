"""Handles of timed messages at a broker: which messages have one, and what is refused. Pure."""

from collections.abc import Mapping

from firearrow.errors import IllegalMessage
from firearrow.model import keys
from firearrow.model.names import RETRY_PREFIX
from firearrow.model.numbers import whole_number
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.record.recall_handle import RecallHandle, decode_handle, encode_handle


def read_handle(text: str) -> RecallHandle:
    """Return what a handle says; raise ``Refused`` for a text that is not one."""
    try:
        return decode_handle(text)
    except IllegalMessage:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid") from None


def handle_of(properties: Mapping[str, str], broker: str, unique_key: str) -> str | None:
    """Return the handle of a message that waits for its time; None for any other message."""
    out, topic = whole_number(properties.get(keys.TIMER_OUT_MS)), properties.get(keys.REAL_TOPIC)
    if out is None or topic is None or topic.startswith(RETRY_PREFIX):
        return None
    return encode_handle(RecallHandle(topic, broker, str(out + 1), unique_key))

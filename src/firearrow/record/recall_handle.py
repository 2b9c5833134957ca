"""The handle by which a producer takes a timed message back, as text. Java: ``RecallMessageHandle``.

``base64url("v1 <topic> <broker> <time> <unique key>")``. The time, in milliseconds since 1970, lies in the slot of the
message, one millisecond after its start, so that the request for the same time finds the same slot.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Mapping
from typing import Final, NamedTuple

from firearrow.errors import IllegalMessage
from firearrow.model import keys
from firearrow.model.names import RETRY_PREFIX
from firearrow.model.numbers import whole_number

VERSION: Final = "v1"
_PARTS: Final = 5


class RecallHandle(NamedTuple):
    """The fields of a recall handle."""

    topic: str
    broker: str
    time: str
    unique_key: str


def encode_handle(handle: RecallHandle) -> str:
    """Return the text of a handle."""
    return urlsafe_b64encode(" ".join((VERSION, *handle)).encode()).decode()


def handle_of(properties: Mapping[str, str], broker: str, unique_key: str) -> str | None:
    """Return the handle of a message that waits for its time; None for any other message."""
    out, topic = whole_number(properties.get(keys.TIMER_OUT_MS)), properties.get(keys.REAL_TOPIC)
    if out is None or topic is None or topic.startswith(RETRY_PREFIX):
        return None
    return encode_handle(RecallHandle(topic, broker, str(out + 1), unique_key))


def decode_handle(text: str) -> RecallHandle:
    """Return what a handle says; raise ``IllegalMessage`` for a text that is not one."""
    if not isinstance(text, str):
        raise IllegalMessage(
            f"{text!r} is not a recall handle; give the recall_handle of a SendResult, which timed messages have at "
            "brokers from 5.3 on"
        )
    try:
        padded = text + "=" * (-len(text) % 4)
        parts = urlsafe_b64decode(padded.encode("ascii")).decode().split(" ")
    except (BadBase64, ValueError):
        parts = []
    if len(parts) < _PARTS or parts[0] != VERSION:
        raise IllegalMessage(
            f"{text[:80]!r} is not a recall handle; give the recall_handle of the SendResult of a timed message"
        )
    return RecallHandle(*parts[1:_PARTS])

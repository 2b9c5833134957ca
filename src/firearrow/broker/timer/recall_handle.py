"""The handle by which a producer takes a timed message back. Pure. Java: ``RecallMessageHandle``.

``base64url("v1 <topic> <broker> <time> <unique key>")``. The time lies in the slot of the message, one millisecond
after its start, so that the request for the same time finds the same slot.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Mapping
from typing import Final, NamedTuple

from firearrow.model import keys
from firearrow.model.names import RETRY_PREFIX
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused

VERSION: Final = "v1"
_PARTS: Final = 5


class RecallHandle(NamedTuple):
    """What a handle says."""

    topic: str
    broker: str
    time: str
    unique_key: str


def encode_handle(handle: RecallHandle) -> str:
    """Return the text of a handle."""
    return urlsafe_b64encode(" ".join((VERSION, *handle)).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """Return what a handle says; raise ``Refused`` for a text that is not one."""
    try:
        padded = text + "=" * (-len(text) % 4)
        parts = urlsafe_b64decode(padded.encode("ascii")).decode().split(" ")
    except (BadBase64, ValueError):
        parts = []
    if len(parts) < _PARTS or parts[0] != VERSION:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")
    return RecallHandle(*parts[1:_PARTS])


def handle_of(properties: Mapping[str, str], broker: str, unique_key: str) -> str | None:
    """Return the handle of a message that waits for its time; None for any other message."""
    out, topic = properties.get(keys.TIMER_OUT_MS, ""), properties.get(keys.REAL_TOPIC)
    if not out.isdigit() or topic is None or topic.startswith(RETRY_PREFIX):
        return None
    return encode_handle(RecallHandle(topic, broker, str(int(out) + 1), unique_key))

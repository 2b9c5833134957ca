"""Messages made of values, by the serializer of a producer."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from firearrow.errors import IllegalMessage
from firearrow.model import Message
from firearrow.serializers import Serializer


class MessageParts(TypedDict, total=False):
    """The parts of a message other than topic and body, as keyword arguments."""

    tag: str
    keys: str | Iterable[str]
    delay_level: int
    delay: timedelta | None
    deliver_at: datetime | int | None
    sharding_key: str
    properties: Mapping[str, str] | None


def message_of(serializer: Serializer[Any] | None, topic: str, value: Any, parts: MessageParts) -> Message:  # noqa: ANN401
    """Return a message with the serialized value as body; raise ``IllegalMessage`` if the serializer fails."""
    if serializer is None:
        return Message.of(topic, value, **parts)
    try:
        body = serializer(value)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        kind = type(value).__name__
        raise IllegalMessage(
            f"the serializer failed for topic {topic!r} with a value of type {kind}: {reason}"
        ) from error
    return Message.of(topic, body, **parts)

"""The record of a half message: single values are found in its bytes, all properties are decoded when that is needed.

A transaction that is committed at once needs five values of its half message, and its final message has the same
properties without three of them. Every value is that of `record.properties.decode_properties`. Pure.
"""

from collections.abc import Mapping
from typing import Final

from firearrow.model import keys
from firearrow.model.numbers import INT_MAX, whole_number
from firearrow.record.decode import RecordHead, peek
from firearrow.record.layout import Buffer
from firearrow.record.properties import StoredProperties, decode_properties, without_stamps
from firearrow.store.property_fields import SEPARATOR, field

OURS: Final = (keys.PREVIOUS_HALF, keys.TRAN_PREPARED_QUEUE_OFFSET)
"""Properties that only brokers set on half messages."""
NOT_FINAL: Final = (keys.TRAN_MSG, keys.REAL_TOPIC, keys.REAL_QID, *OURS)
"""Properties of a half message that its final message does not have."""

_GROUP: Final = keys.PGROUP.encode() + b"\x01"
_KEY: Final = keys.UNIQ_KEY.encode() + b"\x01"
_TOPIC: Final = keys.REAL_TOPIC.encode() + b"\x01"
_QUEUE: Final = keys.REAL_QID.encode() + b"\x01"
_IMMUNITY: Final = keys.CHECK_IMMUNITY_TIME.encode() + b"\x01"
_LEFT_OUT: Final = tuple(key.encode() + b"\x01" for key in NOT_FINAL)
_IN_DELAYS: Final = b"DEL"
"""The letters that DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS and TIMER_DELIVER_MS have in common."""


class HalfRecord:
    """A record with its properties. Not changed after it is made."""

    __slots__ = ("_properties", "data", "head", "raw")

    def __init__(self, head: RecordHead, data: Buffer) -> None:
        self.head = head
        self.data = data
        """The buffer that holds the record."""
        self.raw = without_stamps(head.properties(data))
        """The properties as bytes."""
        self._properties: dict[str, str] | None = None

    @classmethod
    def read(cls, data: Buffer) -> "HalfRecord":
        """Read a record; raise ``BadRecord`` when the bytes are not one."""
        return cls(peek(data), data)

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties."""
        if self._properties is None:
            self._properties = decode_properties(self.raw)
        return self._properties

    @property
    def group(self) -> str:
        """The producer group; empty when there is none."""
        return field(self.raw, _GROUP).decode("utf-8", "replace")

    @property
    def unique_key(self) -> str:
        """The key that its producer gave the message; empty when there is none."""
        return field(self.raw, _KEY).decode("utf-8", "replace")

    @property
    def immunity(self) -> str:
        """CHECK_IMMUNITY_TIME_IN_SECONDS as it was sent; empty when there is none."""
        return field(self.raw, _IMMUNITY).decode("utf-8", "replace")

    @property
    def place(self) -> tuple[str, int] | None:
        """The topic and queue to which the message belongs; None when the record does not say so."""
        topic = field(self.raw, _TOPIC).decode("utf-8", "replace")
        queue_id = whole_number(field(self.raw, _QUEUE).decode("utf-8", "replace"), INT_MAX)
        return (topic, queue_id) if topic and queue_id is not None else None

    @property
    def was_written_by_a_check(self) -> bool:
        """False only if neither this broker nor Apache's wrote it for a check, and it has no time of immunity."""
        raw = self.raw
        return b"CHECK" in raw or b"Half" in raw or b"PREPARED" in raw

    def plain_final_properties(self) -> StoredProperties | None:
        """Return the properties of the final message; None when all must be decoded to know them.

        That is so for a delay, and where a name or value could be taken for another.
        """
        raw = self.raw
        if _IN_DELAYS in raw or raw[-1:] != b"\x02":
            return None
        for mark in _LEFT_OUT:
            before, found, after = raw.partition(mark)
            if not found:
                continue
            rest = after.partition(b"\x02")[2]
            if (before and before[-1] != SEPARATOR) or mark in rest:
                return None
            raw = before + rest
        return StoredProperties(raw)

"""Attributes of topics: the keys and values that an operator may set, and how a change is applied.

A change is written ``+key=value,-key``. Pure. Java: ``AttributeParser``, ``AttributeUtil``, ``TopicAttributes``.
Values that ask for queues, policies or messages that are not offered yet are refused, so that no topic promises what is
not kept. ``lake.retention`` is FireArrow's own; Apache's brokers refuse it. The type of a send is not checked against
the type of its topic: Apache's broker does not check it either.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from firearrow.broker.tables.offsets import OffsetTable
from firearrow.model.names import LAKE_RETENTION
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.store.lake_topics import LakeTopic

LONG_MAX: Final = 2**63 - 1


KEEP: Final = "KEEP"
"""Messages expire only once a lake has them."""
RELEASE: Final = "RELEASE"
"""So do these; they may be deleted before, once the lake and every group with offsets have them."""


class Attribute(Struct, frozen=True):
    """The legal values of one attribute: one of several words, or a number in a range."""

    changeable: bool
    words: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None

    def fault(self, value: str) -> str | None:
        """Return why a value is not allowed; None when it is allowed."""
        if self.bounds is None:
            return None if value in self.words else f"value is not in set: [{', '.join(self.words)}]"
        low, high = self.bounds
        if not value.removeprefix("-").isdecimal():
            return f'For input string: "{value}"'
        return None if low <= int(value) <= high else f"value is not in range({low}, {high})"


MESSAGE_TYPES: Final = ("UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL")
"""The message types, in the order in which Java prints its set of them."""

ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "queue.type": Attribute(False, ("BatchCQ", "SimpleCQ")),
    "cleanup.policy": Attribute(False, ("DELETE", "COMPACTION")),
    "message.type": Attribute(True, MESSAGE_TYPES),
    "reserve.time": Attribute(True, bounds=(-1, LONG_MAX)),
    "lite.topic.expiration": Attribute(True, bounds=(-1, LONG_MAX)),
    LAKE_RETENTION: Attribute(True, (KEEP, RELEASE)),
}

NOT_OFFERED: Final = {
    ("queue.type", "BatchCQ"): "queues of whole batches are not offered",
    ("cleanup.policy", "COMPACTION"): "compacted topics are not offered",
    ("message.type", "LITE"): "light topics are not offered",
    ("message.type", "PRIORITY"): "messages are not ordered by priority",
}


def lake_topics(topics: Mapping[str, TopicConfig], offsets: OffsetTable) -> dict[str, LakeTopic]:
    """Return the topics that retention keeps (`TopicTable.for_lakes`), with what lakes and groups have of them."""
    kept = {name: topic.attributes[LAKE_RETENTION] for name, topic in topics.items()}
    readers = {name: {group: offsets.of(group, name) for group in offsets.groups_of(name)} for name in kept}
    return {name: LakeTopic.of(readers[name], is_released=value == RELEASE) for name, value in kept.items()}


def parse_changes(text: str | None) -> dict[str, str]:
    """Return the changes of a request, keys with their sign; raise ``Refused`` when they cannot be parsed."""
    changes: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part:
            continue
        key, equals, value = part.partition("=")
        if equals and "+" not in key:
            raise _wrong(f"add/alter attribute format is wrong: {key}")
        if not equals and "-" not in key:
            raise _wrong(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise _wrong(f"key duplication: {key}")
        changes[key] = value.partition("=")[0]
    return changes


def altered(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes after ``changes``; ``current`` is None for a topic that does not exist yet."""
    if changes.get("+message.type") == "MIXED":
        raise Refused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
    result = dict(current or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise _wrong("kv string format wrong.")
        if key in seen:
            raise _wrong(f"alter duplication key. key: {key}")
        seen.add(key)
        _check_sign(sign, key, current)
        _check(sign, key, value, is_new=current is None)
        if sign == "+":
            result[key] = value
        else:
            result.pop(key, None)
    return result


def _check_sign(sign: str, key: str, current: Mapping[str, str] | None) -> None:
    if current is None and sign != "+":
        raise _wrong(f"only add attribute is supported while creating topic. key: {key}")
    if sign not in ("+", "-"):
        raise _wrong(f"wrong format key: {key}")
    if sign == "-" and key not in (current or {}):
        raise _wrong(f"attempt to delete a nonexistent key: {key}")


def _check(sign: str, key: str, value: str, *, is_new: bool) -> None:
    attribute = ATTRIBUTES.get(key)
    if attribute is None:
        raise _wrong(f"unsupported key: {key}")
    if not is_new and not attribute.changeable:
        raise _wrong(f"attempt to update an unchangeable attribute. key: {key}")
    if sign == "-":
        return
    fault = attribute.fault(value)
    if fault is not None:
        raise _wrong(fault)
    if (key, value) in NOT_OFFERED:
        raise _wrong(f"{key}={value} cannot be honoured: {NOT_OFFERED[key, value]} by this broker")


def _wrong(remark: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, remark)

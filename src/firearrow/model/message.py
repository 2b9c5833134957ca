"""The message as an application sends it and as a broker stored it, and its queue.

All classes are frozen. A mapping of properties must not be changed either: make a new message with
`Message.with_properties`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct, StructMeta

from firearrow.errors import IllegalMessage
from firearrow.model import keys as key
from firearrow.model.delays import timer_properties, without_delay
from firearrow.model.units import EpochMs, PhysicalOffset, QueueOffset

Body = bytes | bytearray | memoryview
"""The types that a body may have; a message keeps it as bytes."""


class Host(Struct, frozen=True, order=True, gc=False):
    """An IP address in text form, and a port."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class MessageQueue(Struct, frozen=True, order=True, cache_hash=True, rename="camel", gc=False):
    """One queue of one topic on one broker. The order is Java's, which clients divide queues by."""

    topic: str
    broker_name: str
    queue_id: int


class _MessageType(StructMeta):
    """Makes messages from their usual parts, and refuses values of the wrong type."""

    def __call__(
        cls,  # noqa: N805 - this is the class of a class
        topic: str,
        body: Body,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        *,
        tag: str = "",
        keys: str | Iterable[str] = (),
        delay_level: int = 0,
        delay: timedelta | None = None,
        deliver_at: datetime | int | None = None,
        sharding_key: str = "",
    ) -> Any:  # noqa: ANN401 - a Message, which is not there yet
        if tag or keys or delay_level or sharding_key:
            properties = _merged(properties, tag, keys, delay_level, sharding_key)
        if delay is not None or deliver_at is not None:
            properties = {**without_delay(properties), **timer_properties(delay, deliver_at, delay_level)}
        if body.__class__ is not bytes:
            body = _bytes(body)
        if topic.__class__ is not str:
            raise IllegalMessage(f"the topic of a message is a str; this is {_kind(topic)}")
        if properties:
            _check_properties(properties)
        if flag:
            _check_flag(flag)
        return StructMeta.__call__(cls, topic, body, {} if properties is None else properties, flag)


class Message(Struct, frozen=True, metaclass=_MessageType):
    """A message that an application sends: a body for a topic, with properties.

    ``tag``, ``keys``, ``delay_level``, ``delay``, ``deliver_at`` and ``sharding_key`` are stored as properties, unless
    they are empty. ``keys`` are words by which the message can be looked up: one text, or several. A value of the wrong
    type raises ``IllegalMessage`` when the message is made, before anything is sent.

    Consumers get a delayed message later: after ``delay``, counted from when the broker gets it, or at the time
    ``deliver_at``, a datetime with a time zone or milliseconds since 1970. Brokers before 5.0 have delay levels alone.
    """

    topic: str
    body: bytes
    properties: Mapping[str, str] = {}
    flag: int = 0

    if TYPE_CHECKING:

        def __init__(
            self,
            topic: str,
            body: Body,
            properties: Mapping[str, str] | None = None,
            flag: int = 0,
            *,
            tag: str = "",
            keys: str | Iterable[str] = (),
            delay_level: int = 0,
            delay: timedelta | None = None,
            deliver_at: datetime | int | None = None,
            sharding_key: str = "",
        ) -> None: ...

    @classmethod
    def of(
        cls,
        topic: str,
        body: Body,
        *,
        tag: str = "",
        keys: str | Iterable[str] = (),
        delay_level: int = 0,
        delay: timedelta | None = None,
        deliver_at: datetime | int | None = None,
        sharding_key: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> "Message":
        """Return ``Message(topic, body, ...)``."""
        return cls(
            topic,
            body,
            properties,
            tag=tag,
            keys=keys,
            delay_level=delay_level,
            delay=delay,
            deliver_at=deliver_at,
            sharding_key=sharding_key,
        )

    def with_properties(self, more: Mapping[str, str]) -> "Message":
        """Return a copy with ``more`` properties added or replaced."""
        return Message(self.topic, self.body, {**self.properties, **more}, self.flag)

    @property
    def tag(self) -> str:
        """The tag that consumers filter by, or empty."""
        return self.properties.get(key.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The keys by which the message can be looked up."""
        return self.properties.get(key.KEYS, "").split()

    @property
    def unique_key(self) -> str:
        """The unique key, which its producer gives it when it is sent, or empty."""
        return self.properties.get(key.UNIQ_KEY, "")


def _bytes(body: object) -> bytes:
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    hint = "encode the text first: text.encode()" if isinstance(body, str) else "make bytes of it first, as JSON or so"
    raise IllegalMessage(f"the body of a message is bytes; this is {_kind(body)}: {hint}")


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def _check_flag(flag: object) -> None:
    if not isinstance(flag, int) or not -(2**31) <= flag < 2**31:
        raise IllegalMessage(f"the flag of a message is an int of 32 bits; this is {flag!r}")


def _check_properties(properties: object) -> None:
    if not isinstance(properties, Mapping):
        raise IllegalMessage(f"the properties of a message are a mapping of str to str; these are {_kind(properties)}")
    try:
        "".join(properties)
        "".join(properties.values())
    except TypeError:
        name, value = next(pair for pair in properties.items() if not all(isinstance(part, str) for part in pair))
        raise IllegalMessage(
            f"the properties of a message are str; {name!r}: {value!r} is not, write str(...)"
        ) from None


def _merged(
    properties: Mapping[str, str] | None, tag: str, keys: str | Iterable[str], delay_level: int, sharding_key: str
) -> dict[str, str]:
    merged = dict(properties) if properties else {}
    if tag:
        merged[key.TAGS] = tag
    if keys:
        joined = keys if isinstance(keys, str) else _joined(keys)
        if joined:
            merged[key.KEYS] = joined
    if delay_level:
        merged[key.DELAY] = _level(delay_level)
    if sharding_key:
        merged[key.SHARDING_KEY] = sharding_key
    return merged


def _level(level: object) -> str:
    if not isinstance(level, int) or level < 0:
        raise IllegalMessage(f"delay_level={level!r} is not a delay level; write 1, 2, ... or 0 for no delay")
    return str(level)


def _joined(keys: Iterable[str]) -> str:
    try:
        listed = list(keys)
        joined = key.KEY_SEPARATOR.join(listed)
    except TypeError:
        raise IllegalMessage(f"the keys of a message are one str or several; these are {keys!r}") from None
    if joined.count(key.KEY_SEPARATOR) >= len(listed):
        parted = next(each for each in listed if key.KEY_SEPARATOR in each)
        raise IllegalMessage(f"the key {parted!r} has a space in it, which separates keys; write it without")
    return joined


class StoredMessage(Struct, frozen=True, gc=False):
    """A message as a broker stored it: everything its record holds.

    It refers to nothing that refers back, so it is exempt from garbage collection: a consumer has thousands.
    """

    topic: str
    body: bytes
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    queue_id: int
    queue_offset: QueueOffset
    physical_offset: PhysicalOffset
    born_timestamp: EpochMs
    born_host: Host
    store_timestamp: EpochMs
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: PhysicalOffset
    body_crc: int
    store_size: int
    body_fault: str = ""
    """The reason why ``body`` holds the stored bytes instead of the sent ones; empty for nearly every message."""

    @property
    def tag(self) -> str:
        """The tag that consumers filter by, or empty."""
        return self.properties.get(key.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The keys by which the message can be looked up."""
        return self.properties.get(key.KEYS, "").split()

    @property
    def unique_key(self) -> str:
        """The unique key from the producer, or empty."""
        return self.properties.get(key.UNIQ_KEY, "")

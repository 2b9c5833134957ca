"""The message: as an application writes it, as a broker stored it, and the queue it sits in.

All nouns are frozen. A mapping of properties inside one must not be changed either: make a new message with
`Message.with_properties`.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from firearrow.model import keys as key
from firearrow.model.units import EpochMs, PhysicalOffset, QueueOffset


class Address(Struct, frozen=True, order=True, gc=False):
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


class Message(Struct, frozen=True):
    """What an application sends: a body for a topic, with properties."""

    topic: str
    body: bytes
    properties: Mapping[str, str] = {}
    flag: int = 0

    @classmethod
    def of(
        cls,
        topic: str,
        body: bytes,
        *,
        tag: str = "",
        keys: Iterable[str] = (),
        delay_level: int = 0,
        sharding_key: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> "Message":
        """A message from its usual parts; empty parts leave no property behind."""
        merged = dict(properties) if properties else {}
        if tag:
            merged[key.TAGS] = tag
        if keys and (joined := key.KEY_SEPARATOR.join(keys)):
            merged[key.KEYS] = joined
        if delay_level:
            merged[key.DELAY] = str(delay_level)
        if sharding_key:
            merged[key.SHARDING_KEY] = sharding_key
        return cls(topic, body, merged)

    def with_properties(self, more: Mapping[str, str]) -> "Message":
        """This message with ``more`` properties set over its own."""
        return replace(self, properties={**self.properties, **more})

    @property
    def tag(self) -> str:
        """The tag that consumers filter by, or empty."""
        return self.properties.get(key.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The words by which the message can be found again."""
        return self.properties.get(key.KEYS, "").split()


class StoredMessage(Struct, frozen=True, gc=False):
    """A message as a broker stored it: everything its record holds.

    It holds nothing that could hold it, so the garbage collector need not look at it: a consumer has thousands.
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
    born_host: Address
    store_timestamp: EpochMs
    store_host: Address
    reconsume_times: int
    prepared_transaction_offset: PhysicalOffset
    body_crc: int
    store_size: int
    body_fault: str = ""
    """Why ``body`` is not what was sent but the bytes as they are stored; empty for nearly every message."""

    @property
    def tag(self) -> str:
        """The tag that consumers filter by, or empty."""
        return self.properties.get(key.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The words by which the message can be found again."""
        return self.properties.get(key.KEYS, "").split()

    @property
    def unique_key(self) -> str:
        """The id that the producer gave the message, or empty."""
        return self.properties.get(key.UNIQ_KEY, "")

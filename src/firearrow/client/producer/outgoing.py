"""A message on its way out: checked, given its id, compressed, and put into the words of the protocol. Pure.

A message is sent as one SEND_MESSAGE_V2, or as part of a SEND_BATCH_MESSAGE. A batch goes to one queue; its messages
have one topic and one sharding key, and none is delayed, timed, half of a transaction or a retry: such are sent alone.
`portions` cuts a list accordingly, keeping the order, and cuts again where a body would grow beyond the limit.

Java: ``DefaultMQProducerImpl.sendKernelImpl``, ``Validators``, ``MessageBatch``.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from firearrow.client.producer.settings import ProducerSettings
from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, Message, MessageQueue, keys
from firearrow.model.names import UNSENDABLE_TOPICS, is_retry_topic, topic_fault
from firearrow.protocol.requests.send import SendBatchMessage, SendMessageV2
from firearrow.record.batch import encode_batch
from firearrow.record.compression import compress, with_codec
from firearrow.record.message_id import UniqueKeys
from firearrow.record.properties import format_properties

SENT_ALONE: Final = frozenset(
    {keys.DELAY, keys.TIMER_DELAY_SEC, keys.TIMER_DELAY_MS, keys.TIMER_DELIVER_MS, keys.TRAN_MSG}
)
_BATCH_ENTRY_BYTES: Final = 22


class Outgoing(Struct, frozen=True):
    """One message, ready to be sent to whichever queue."""

    topic: str
    unique_key: str
    properties: str
    body: bytes
    sys_flag: int
    flag: int
    born_timestamp: int


def check(message: Message, settings: ProducerSettings) -> None:
    """Raise ``IllegalMessage`` if no broker would take the message."""
    if not isinstance(message, Message):
        raise IllegalMessage(f"what is sent is a Message; this is {message!r}: write Message(topic, body)")
    fault = _fault(message.topic)
    if fault:
        raise IllegalMessage(fault)
    size = len(message.body)
    if not size:
        raise IllegalMessage(
            f"the body of a message for topic {message.topic!r} is empty, which brokers refuse; put something into it"
        )
    if size > settings.max_message_bytes:
        raise IllegalMessage(
            f"the body has {size} bytes, more than max_message_bytes ({settings.max_message_bytes}); make it smaller, "
            "or raise that here and maxMessageSize at the brokers"
        )


@lru_cache(maxsize=1024)
def _fault(topic: str) -> str | None:
    if topic in UNSENDABLE_TOPICS:
        return f"topic {topic} belongs to the brokers; nobody may send to it"
    return topic_fault(topic)


def prepare(message: Message, settings: ProducerSettings, unique_keys: UniqueKeys, now: EpochMs) -> Outgoing:
    """Make a message ready; one that has a unique key already keeps it."""
    check(message, settings)
    properties = message.properties
    unique_key = properties.get(keys.UNIQ_KEY)
    if unique_key is None:
        unique_key = unique_keys.next(now)
        properties = {**properties, keys.UNIQ_KEY: unique_key}
    body, sys_flag = message.body, 0
    if len(body) > settings.compress_over_bytes:
        smaller = compress(body, settings.compress_codec, settings.compress_level)
        if len(smaller) < len(body):
            body, sys_flag = smaller, with_codec(0, settings.compress_codec)
    return Outgoing(message.topic, unique_key, format_properties(properties), body, sys_flag, message.flag, now)


def request_for(outgoing: Outgoing, queue: MessageQueue, settings: ProducerSettings) -> SendMessageV2:
    """What is said to the broker of ``queue``."""
    return SendMessageV2(
        producer_group=settings.group,
        topic=outgoing.topic,
        default_topic=settings.default_topic,
        default_topic_queue_nums=settings.default_topic_queues,
        queue_id=queue.queue_id,
        sys_flag=outgoing.sys_flag,
        born_timestamp=outgoing.born_timestamp,
        flag=outgoing.flag,
        properties=outgoing.properties,
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name=queue.broker_name,
    )


class Portion(Struct, frozen=True):
    """Messages that travel together, or one that travels alone."""

    messages: tuple[Message, ...]

    @property
    def is_alone(self) -> bool:
        """Whether it is sent as a single message."""
        return len(self.messages) == 1


def portions(messages: Sequence[Message], settings: ProducerSettings) -> Iterator[Portion]:
    """Cut a list into what may travel together, in order."""
    together: list[Message] = []
    size, company = 0, None
    for message in messages:
        more, own = weight(message), companions(message)
        if together and (own is None or own != company or size + more > settings.max_message_bytes):
            yield Portion(tuple(together))
            together, size = [], 0
        together.append(message)
        size += more
        company = own
    if together:
        yield Portion(tuple(together))


def companions(message: Message) -> tuple[str | None, ...] | None:
    """What messages that travel together have in common; None for one that travels alone."""
    topic, properties = message.topic, message.properties
    if is_retry_topic(topic) or not SENT_ALONE.isdisjoint(properties):
        return None
    return topic, properties.get(keys.SHARDING_KEY), properties.get(keys.WAIT)


def weight(message: Message) -> int:
    """Bytes that a message takes in a batch, at most."""
    # Characters may take three bytes each; the unique key and separators are counted generously.
    properties = message.properties
    text = sum(map(len, properties)) + sum(map(len, properties.values()))
    return _BATCH_ENTRY_BYTES + len(message.body) + 3 * text + 2 * len(properties) + 64


class OutgoingBatch(Struct, frozen=True):
    """Many messages, ready to be sent to whichever queue."""

    topic: str
    body: bytes
    properties: str
    born_timestamp: int
    unique_keys: tuple[str, ...] = ()


def encoded_batch(
    topic: str, body: bytes, wait: str | None, born_timestamp: int, settings: ProducerSettings
) -> OutgoingBatch:
    """Messages that somebody else encoded as a batch, each with a unique key; ``wait`` is their WAIT."""
    fault = _fault(topic)
    if fault:
        raise IllegalMessage(fault)
    if len(body) > settings.max_message_bytes:
        raise IllegalMessage(
            f"a batch has {len(body)} bytes, more than max_message_bytes ({settings.max_message_bytes})"
        )
    return OutgoingBatch(topic, body, _shared_properties(wait), born_timestamp)


def _shared_properties(wait: str | None) -> str:
    return format_properties({keys.WAIT: wait} if wait is not None else {})


class Entry(Struct, frozen=True):
    """One message of a batch: checked, with its unique key, and encoded."""

    message: Message
    encoded: bytes

    @property
    def unique_key(self) -> str:
        """The id that consumers will show."""
        return self.message.properties[keys.UNIQ_KEY]


def entry_of(message: Message, settings: ProducerSettings, unique_keys: UniqueKeys, now: EpochMs) -> Entry:
    """Make a message ready to travel with others; raise ``IllegalMessage`` if it is not fit to."""
    check(message, settings)
    properties = message.properties
    if keys.UNIQ_KEY not in properties:
        message = Message(
            message.topic, message.body, {**properties, keys.UNIQ_KEY: unique_keys.next(now)}, message.flag
        )
    return Entry(message, encode_batch((message,)))


def prepare_batch(entries: Sequence[Entry], settings: ProducerSettings, now: EpochMs) -> OutgoingBatch:
    """Put entries of one topic together."""
    body = b"".join([entry.encoded for entry in entries])
    if len(body) > settings.max_message_bytes:
        raise IllegalMessage(
            f"a batch of {len(entries)} messages has {len(body)} bytes, "
            f"more than max_message_bytes ({settings.max_message_bytes})"
        )
    first = entries[0].message
    shared = _shared_properties(first.properties.get(keys.WAIT))
    return OutgoingBatch(first.topic, body, shared, now, tuple(entry.unique_key for entry in entries))


def batch_request_for(batch: OutgoingBatch, queue: MessageQueue, settings: ProducerSettings) -> SendBatchMessage:
    """What is said to the broker of ``queue``."""
    return SendBatchMessage(
        producer_group=settings.group,
        topic=batch.topic,
        default_topic=settings.default_topic,
        default_topic_queue_nums=settings.default_topic_queues,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_timestamp=batch.born_timestamp,
        flag=0,
        properties=batch.properties,
        reconsume_times=0,
        unit_mode=False,
        batch=True,
        broker_name=queue.broker_name,
    )

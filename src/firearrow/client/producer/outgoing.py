"""From a message to a send request: check, unique key, compression, header. Pure.

A message is sent as one SEND_MESSAGE_V2, or as part of a SEND_BATCH_MESSAGE. A batch goes to one queue; its messages
have one topic and one sharding key. Delayed and timed messages, half messages of a transaction and retries are sent
alone. `portions` cuts a list accordingly, keeping the order, and also where a body would exceed the limit.

Java: ``DefaultMQProducerImpl.sendKernelImpl``, ``Validators``, ``MessageBatch``.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from firearrow.client.producer.settings import ProducerSettings
from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, Message, MessageQueue, keys
from firearrow.model.delays import TIMERS
from firearrow.model.names import UNSENDABLE_TOPICS, is_retry_topic, topic_fault
from firearrow.protocol.requests.message.send import SendBatchMessage, SendMessageV2, ShortSend
from firearrow.record.batch import encode_batch
from firearrow.record.compression import compress, with_codec
from firearrow.record.message_id import UniqueKeys
from firearrow.record.properties import format_properties

SENT_ALONE: Final = TIMERS | {keys.DELAY, keys.TRAN_MSG}
_BATCH_ENTRY_BYTES: Final = 22


class OutgoingMessage(Struct, frozen=True):
    """One message, ready to be sent to any queue."""

    topic: str
    unique_key: str
    properties: str
    body: bytes
    sys_flag: int
    flag: int
    born_timestamp: int
    is_timed: bool = False


def check(message: Message, settings: ProducerSettings) -> None:
    """Raise ``IllegalMessage`` if brokers would refuse the message."""
    if not isinstance(message, Message):
        raise IllegalMessage(f"send takes a Message; this is {message!r}: write Message(topic, body)")
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
    if keys.TRAN_MSG in message.properties:
        raise IllegalMessage(
            f"a message for topic {message.topic!r} has the property {keys.TRAN_MSG}, which belongs to transactions; "
            "leave it out, or send the message with producer.transaction(message)"
        )


@lru_cache(maxsize=1024)
def _fault(topic: str) -> str | None:
    if topic in UNSENDABLE_TOPICS:
        return f"topic {topic} is reserved for brokers; send to another topic"
    return topic_fault(topic)


def prepare(message: Message, settings: ProducerSettings, unique_keys: UniqueKeys, now: EpochMs) -> OutgoingMessage:
    """Check a message and prepare it for sending."""
    check(message, settings)
    return compose(message, settings, unique_keys, now)


def compose(message: Message, settings: ProducerSettings, unique_keys: UniqueKeys, now: EpochMs) -> OutgoingMessage:
    """Prepare a checked message for sending; it keeps a unique key that it already has."""
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
    is_timed = not TIMERS.isdisjoint(properties)
    text = format_properties(properties)
    return OutgoingMessage(message.topic, unique_key, text, body, sys_flag, message.flag, now, is_timed)


def request_for(
    outgoing: "OutgoingMessage | OutgoingBatch", queue: MessageQueue, settings: ProducerSettings
) -> ShortSend:
    """Return the request to the broker of ``queue``."""
    is_batch = isinstance(outgoing, OutgoingBatch)
    kind: type[ShortSend] = SendBatchMessage if is_batch else SendMessageV2
    return kind(
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
        batch=is_batch,
        broker_name=queue.broker_name,
    )


class Portion(Struct, frozen=True):
    """Messages of one request: a batch, or a single message."""

    messages: tuple[Message, ...]

    @property
    def is_alone(self) -> bool:
        """Whether the portion is sent as a single message."""
        return len(self.messages) == 1


def portions(messages: Sequence[Message], settings: ProducerSettings) -> Iterator[Portion]:
    """Cut a list into portions, in order."""
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
    """Return what the messages of one batch must have in common; None for a message that is sent alone."""
    topic, properties = message.topic, message.properties
    if is_retry_topic(topic) or not SENT_ALONE.isdisjoint(properties):
        return None
    return topic, properties.get(keys.SHARDING_KEY), properties.get(keys.WAIT)


def weight(message: Message) -> int:
    """Return an upper bound of the bytes that a message takes in a batch."""
    # A character may take three bytes; the unique key and separators are rounded up.
    properties = message.properties
    text = sum(map(len, properties)) + sum(map(len, properties.values()))
    return _BATCH_ENTRY_BYTES + len(message.body) + 3 * text + 2 * len(properties) + 64


class OutgoingBatch(Struct, frozen=True):
    """A batch, ready to be sent to any queue."""

    topic: str
    body: bytes
    properties: str
    born_timestamp: int
    unique_keys: tuple[str, ...] = ()
    sys_flag: int = 0
    """The compression of all bodies."""
    flag: int = 0
    is_timed: bool = False


def encoded_batch(
    topic: str, body: bytes, wait: str | None, born_timestamp: int, settings: ProducerSettings, sys_flag: int = 0
) -> OutgoingBatch:
    """Return a batch that the caller encoded, with a unique key in each message; ``wait`` is their WAIT property."""
    fault = _fault(topic)
    if fault:
        raise IllegalMessage(fault)
    if len(body) > settings.max_message_bytes:
        raise IllegalMessage(
            f"a batch has {len(body)} bytes, more than max_message_bytes ({settings.max_message_bytes})"
        )
    return OutgoingBatch(topic, body, _shared_properties(wait), born_timestamp, sys_flag=sys_flag)


def _shared_properties(wait: str | None) -> str:
    return format_properties({keys.WAIT: wait} if wait is not None else {})


class BatchEntry(Struct, frozen=True):
    """One message of a batch: checked, with its unique key, and encoded."""

    message: Message
    encoded: bytes

    @property
    def unique_key(self) -> str:
        """The message id that consumers show."""
        return self.message.properties[keys.UNIQ_KEY]


def entry_of(message: Message, settings: ProducerSettings, unique_keys: UniqueKeys, now: EpochMs) -> BatchEntry:
    """Prepare a message for a batch; raise ``IllegalMessage`` if it is not valid."""
    check(message, settings)
    properties = message.properties
    if keys.UNIQ_KEY not in properties:
        message = Message(
            message.topic, message.body, {**properties, keys.UNIQ_KEY: unique_keys.next(now)}, message.flag
        )
    return BatchEntry(message, encode_batch((message,)))


def prepare_batch(entries: Sequence[BatchEntry], settings: ProducerSettings, now: EpochMs) -> OutgoingBatch:
    """Join entries of one topic to a batch."""
    body = b"".join([entry.encoded for entry in entries])
    if len(body) > settings.max_message_bytes:
        raise IllegalMessage(
            f"a batch of {len(entries)} messages has {len(body)} bytes, "
            f"more than max_message_bytes ({settings.max_message_bytes})"
        )
    first = entries[0].message
    shared = _shared_properties(first.properties.get(keys.WAIT))
    return OutgoingBatch(first.topic, body, shared, now, tuple(entry.unique_key for entry in entries))

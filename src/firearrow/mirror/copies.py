"""From stored messages of the source to what is sent to the target. Pure.

A copy has the topic, the body (compressed as it is), the flag and the properties of its message, but for those in
`DROPPED`, which belong to the broker that stored it or would make the target treat it specially: a delayed message is
copied when it is delivered, a message of a transaction when it is committed, and both are plain messages then. It gets
two properties more: the clusters it has been to (MIRROR_PATH), and an identity (ROW_ID) that is the same whenever this
message is copied, so that a broker of ours stores one copy. A row's own identity is kept beside it (MIRROR_ROW_ID).
Where these do not fit beside the message's own properties, the copy gets the path alone and may be stored twice.

A message that has been to the target cluster is not copied: `copy_of` returns None.

Copies that follow each other share a batch if their bodies are compressed alike and they are born within
``born_spread_ms``, because a batch has one born time: that of its first message.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from firearrow.client import PulledBytes
from firearrow.client.producer.encoded import EncodedBatch, EncodedMessage
from firearrow.errors import BadBody, BadRecord, IllegalMessage
from firearrow.model import Message, MessageQueue, StoredMessage, keys
from firearrow.model.flags import COMPRESSED, COMPRESSION_MASK, is_wrapped_batch
from firearrow.record.batch import encode_batch
from firearrow.record.decode import decode_all
from firearrow.record.layout import MAX_PROPERTIES_BYTES
from firearrow.record.properties import format_properties

DROPPED: Final = frozenset(
    {
        keys.MSG_REGION, keys.TRACE_ON, keys.CLUSTER, keys.CRC32, keys.REAL_TOPIC, keys.REAL_QID, keys.DELAY,
        keys.TIMER_DELAY_SEC, keys.TIMER_DELAY_MS, keys.TIMER_DELIVER_MS, keys.TIMER_OUT_MS, keys.TIMER_ENQUEUE_MS,
        keys.TIMER_DEQUEUE_MS, keys.TIMER_ROLL_TIMES, keys.TIMER_ROLL_LABEL, keys.TIMER_DEL_UNIQKEY,
        keys.TIMER_DELAY_LEVEL, keys.TRAN_MSG, keys.PGROUP, keys.TRAN_PREPARED_QUEUE_OFFSET, keys.CHECK_IMMUNITY_TIME,
        keys.TRANSACTION_CHECK_TIMES, keys.TRANS_OFFSET, keys.PREVIOUS_HALF, keys.INNER_NUM, keys.INNER_BASE,
        keys.INNER_MULTI_DISPATCH, keys.INNER_MULTI_QUEUE_OFFSET, keys.POP_CK, keys.POP_CK_OFFSET, keys.FIRST_POP_TIME,
        keys.MIN_OFFSET, keys.MAX_OFFSET, keys.CONSUME_START_TIME, keys.ROW_REPEATS,
    }
)  # fmt: skip
COMPRESSION: Final = COMPRESSED | COMPRESSION_MASK
BATCH_BYTES: Final = 512 * 1024
BATCH_MESSAGES: Final = 2048
PATH_SEPARATOR: Final = ","


class Names(Struct, frozen=True):
    """The names of the two clusters, the same in all mirrors that a message may pass."""

    source: str
    target: str


class MessageCopy(Struct, frozen=True):
    """One message as it is sent."""

    source_offset: int
    message: Message
    sys_flag: int
    born_timestamp: int

    @property
    def wait(self) -> str | None:
        """The WAIT property, which the messages of a batch have in common."""
        return self.message.properties.get(keys.WAIT)


class CopyParcel(Struct, frozen=True):
    """One request, and the source offset of each of its messages."""

    source_offsets: tuple[int, ...]
    content: EncodedBatch | EncodedMessage


def copy_of(stored: StoredMessage, queue: MessageQueue, names: Names) -> MessageCopy | None:
    """Return the copy of a message; None if it has been to the target cluster.

    Raise ``IllegalMessage`` for a message whose properties leave no room for its path.
    """
    path = stored.properties.get(keys.MIRROR_PATH, "")
    been = path.split(PATH_SEPARATOR) if path else []
    if names.target in been:
        return None
    properties = {name: value for name, value in stored.properties.items() if name not in DROPPED}
    if names.source not in been:
        been.append(names.source)
    properties[keys.MIRROR_PATH] = PATH_SEPARATOR.join(been)
    message = Message(queue.topic, stored.body, _with_identity(properties, stored, queue, names), stored.flag)
    return MessageCopy(stored.queue_offset, message, stored.sys_flag & COMPRESSION, stored.born_timestamp)


def _with_identity(
    properties: dict[str, str], stored: StoredMessage, queue: MessageQueue, names: Names
) -> dict[str, str]:
    """Return properties with the identity, or as they are if it has no room."""
    found = {**properties, keys.ROW_ID: identity_of(stored, queue, names)}
    row = properties.get(keys.ROW_ID)
    if row is not None:
        found.setdefault(keys.MIRROR_ROW_ID, row)
    if _fit(found):
        return found
    if not _fit(properties):
        raise IllegalMessage(
            f"has properties of {_size(stored.properties)} bytes, which leave no room for the mirror's own "
            f"{keys.MIRROR_PATH}"
        )
    return properties


def _fit(properties: Mapping[str, str]) -> bool:
    letters = sum(map(len, properties)) + sum(map(len, properties.values())) + 2 * len(properties)
    return 4 * letters <= MAX_PROPERTIES_BYTES or _size(properties) <= MAX_PROPERTIES_BYTES


def _size(properties: Mapping[str, str]) -> int:
    return len(format_properties(properties).encode(errors="replace"))


class Original(Struct, frozen=True):
    """The offset and store time of the message that a copy was made of."""

    offset: int
    stored_ms: int


def identity_of(stored: StoredMessage, queue: MessageQueue, names: Names) -> str:
    """Return what tells a message from all others of its target queue, also if its topic was deleted and made anew."""
    return f"{_home(queue, names.source)}/{stored.queue_offset}/{stored.store_timestamp}"


def original_of(stored: StoredMessage, queue: MessageQueue, cluster: str) -> Original | None:
    """Return the place of a copy's original in a queue of a cluster; None if it was not copied from there."""
    home, *numbers = stored.properties.get(keys.ROW_ID, "").rsplit("/", 2)
    if home != _home(queue, cluster) or not all(number.isdecimal() for number in numbers) or len(numbers) != 2:
        return None
    return Original(int(numbers[0]), int(numbers[1]))


def _home(queue: MessageQueue, cluster: str) -> str:
    return f"{cluster}/{queue.broker_name}/{queue.queue_id}"


def parcels(copies: Iterable[MessageCopy], born_spread_ms: int) -> Iterator[CopyParcel]:
    """Cut copies into requests, in order."""
    together: list[MessageCopy] = []
    encoded: list[bytes] = []
    size = 0
    for copy in copies:
        entry = encode_batch((copy.message,))
        if together and not (
            _go_together(together[0], copy, born_spread_ms)
            and size + len(entry) <= BATCH_BYTES
            and len(together) < BATCH_MESSAGES
        ):
            yield _parcel(together, encoded)
            together, encoded, size = [], [], 0
        together.append(copy)
        encoded.append(entry)
        size += len(entry)
    if together:
        yield _parcel(together, encoded)


def _go_together(first: MessageCopy, other: MessageCopy, born_spread_ms: int) -> bool:
    return (
        first.sys_flag == other.sys_flag
        and first.wait == other.wait
        and abs(first.born_timestamp - other.born_timestamp) <= born_spread_ms
    )


def _parcel(together: list[MessageCopy], encoded: list[bytes]) -> CopyParcel:
    first = together[0]
    content: EncodedBatch | EncodedMessage
    if len(together) == 1:
        message = first.message
        text = format_properties(message.properties)
        content = EncodedMessage(message.topic, text, message.body, first.sys_flag, message.flag, first.born_timestamp)
    else:
        content = EncodedBatch(first.message.topic, b"".join(encoded), first.born_timestamp, first.wait, first.sys_flag)
    return CopyParcel(tuple(copy.source_offset for copy in together), content)


def messages_of(pulled: PulledBytes) -> list[StoredMessage]:
    """Return the messages of an answer with their bodies as they are stored; batches in one record are taken apart."""
    try:
        found = list(decode_all(pulled.body, max_body_bytes=None, keep_bad_bodies=True))
    except BadRecord as wrong:
        raise BadBody(f"an answer of the source cannot be read: {wrong}") from wrong
    return pulled.messages() if any(is_wrapped_batch(each.sys_flag) for each in found) else found

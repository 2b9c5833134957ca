"""Takes many sends of one shape by columns, without a request and a draft for every message.

The sends pass the check of `SendHandlers` for plain messages, once for the shape (`is_wanted`) or once for all columns,
and end as there, at `Gate.placed`. Half messages of transactions are stored as the steps of `send_checked` store them.
If any check fails, none of the sends is taken here, and all of them are handled one by one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from firearrow.broker.gate.gate import Gate
from firearrow.broker.send.admission import Admission
from firearrow.broker.send.checked_topics import CheckedTopic
from firearrow.broker.send.incoming import MAX_SENT_PROPERTIES, is_plain
from firearrow.broker.send.marks import born_of
from firearrow.broker.send.replies import SendReplies
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.statistics.meters import TrafficCounts
from firearrow.broker.transaction.half import HALF_QUEUE, MAX_HALF_PROPERTIES, half_ending, is_plain_half
from firearrow.errors import IllegalMessage
from firearrow.model import keys
from firearrow.model.flags import TRANSACTION_MASK
from firearrow.model.names import HALF_TOPIC
from firearrow.protocol.conversation import Fields
from firearrow.protocol.requests.message.send import Send, ShortSend
from firearrow.protocol.send_shape import SendColumns
from firearrow.protocol.sends import SendsArrived
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.remoting.handlers import OWED_OVERHEAD_BYTES, SUCCESS, Creditor, ManyLater
from firearrow.store.placement import AppendedColumns, QueueTail
from firearrow.store.store import Store


class _Target(NamedTuple):
    """The target of messages: the topic, the queue of each message, and the topic's counter."""

    topic: str
    queue_ids: list[int]
    tails: list[QueueTail]
    counts: TrafficCounts


class BulkSends:
    """Takes many sends at a time."""

    def __init__(
        self,
        known: dict[str, CheckedTopic],
        replies: SendReplies,
        admission: Admission,
        *,
        store: Store,
        settings: LiveSettings,
        stats: BrokerStats,
        gate: Gate,
    ) -> None:
        self._append = store.log.append_columns_if_room
        self._retention = store.retention
        self._settings = settings
        self._known = known
        self._counts_of = stats.of_topic
        self._tail_of = store.queues.tail_of
        self._replies = replies
        self._gate = gate
        self._admission = admission

    def is_wanted(self, request: Send | ShortSend) -> bool:
        """Whether sends that differ from ``request`` only in keys, tags, queue and birth may be taken by columns."""
        properties = request.properties or ""
        if request.batch or not properties.endswith("\x02"):
            return False
        sys_flag, syncs = request.sys_flag, self._gate.waits
        if keys.TRAN_MSG not in properties:
            return is_plain(sys_flag, properties, syncs=syncs)
        is_first = not request.reconsume_times and request.producer_group.isprintable()
        return is_first and is_plain_half(sys_flag, properties, syncs=syncs)

    def send(self, sends: SendsArrived, peer: Creditor) -> bool:
        """Store many messages; return False when no message was taken."""
        request, columns, replies = sends.shape.request, sends.columns, self._replies
        known, count = self._known.get(request.topic), len(sends.columns.bodies)
        if known is None or self._retention.refusal is not None or self._gate.is_shut:
            return False
        are_halves = keys.TRAN_MSG in (request.properties or "")
        if are_halves and self._settings.value.transactions.reject_transaction_message:
            return False
        properties = sends.shape.properties(columns, replies.marks.suffix)
        most = MAX_SENT_PROPERTIES
        if are_halves:
            properties, most = _of_halves(request, columns, properties), MAX_HALF_PROPERTIES
        if not _fits(columns, properties, known.limit, replies.max_body, most) or not self._admission.lets_in(count):
            return False
        target = self._halves(count) if are_halves else _target(known, columns)
        envelope = Envelope(
            target.topic,
            born_of(peer),
            replies.marks.store_host,
            (request.sys_flag & ~TRANSACTION_MASK) | known.added_flags,
            request.reconsume_times or 0,
        )
        flags = [request.flag] * count
        messages = MessageColumns(target.queue_ids, columns.births, flags, columns.bodies, properties)
        try:
            place = self._append(envelope, target.tails, messages)
        except IllegalMessage:
            return False
        if place is None:
            return False
        owed = columns.end + OWED_OVERHEAD_BYTES * count
        peer.owe(owed)
        later = ManyLater(peer, sends.shape.encoding, self._answers(columns, place), owed)
        self._gate.placed(later, place.end, SUCCESS, target.counts, count, place.end - place.physical_offsets[0])
        return True

    def _halves(self, count: int) -> _Target:
        tail = self._tail_of(HALF_TOPIC, HALF_QUEUE)
        return _Target(HALF_TOPIC, [HALF_QUEUE] * count, [tail] * count, self._counts_of(HALF_TOPIC))

    def _answers(self, columns: SendColumns, place: AppendedColumns) -> Sequence[tuple[int, Fields]]:
        """Return the opaque and the answer of every send."""
        stored, prefix = self._replies.stored, self._replies.marks.id_prefix
        return [
            (opaque, stored(f"{prefix}{physical:016X}", queue_id, queue_offset, unique.decode()))
            for opaque, physical, queue_id, queue_offset, unique in zip(
                columns.opaques,
                place.physical_offsets,
                columns.queue_ids,
                place.queue_offsets,
                columns.unique_keys,
                strict=True,
            )
        ]


def _target(known: CheckedTopic, columns: SendColumns) -> _Target:
    queue_ids = columns.queue_ids
    tails = [known.tails.get(queue) or known.tail(queue) for queue in queue_ids]
    return _Target(known.topic, queue_ids, tails, known.counts)


def _of_halves(request: Send | ShortSend, columns: SendColumns, properties: list[bytes]) -> list[bytes]:
    """Return the properties of half messages, from the same as those of plain messages have."""
    ending = half_ending(request.topic, request.producer_group, request.properties or "")
    return [
        own + ending % (unique, queue_id)
        for own, unique, queue_id in zip(properties, columns.unique_keys, columns.queue_ids, strict=True)
    ]


def _fits(columns: SendColumns, properties: list[bytes], queues: int, max_body: int, max_properties: int) -> bool:
    sizes = list(map(len, columns.bodies))
    return (
        max(columns.queue_ids) < queues
        and max(sizes) <= max_body
        and min(sizes) > 0
        and max(map(len, properties)) <= max_properties
    )

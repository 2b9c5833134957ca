"""Takes many sends of one shape by columns, without a request and a draft for every message.

The sends pass the checks of the short way of `SendHandlers`, once for the shape (`is_wanted`) or once for all columns,
and are stored, counted and answered as there. If any check fails, none of the sends is taken here, and all of them are
handled one by one.
"""

from collections.abc import Sequence

from firearrow.broker.send.admission import Admission
from firearrow.broker.send.checked_topics import Checked
from firearrow.broker.send.incoming import MAX_SENT_PROPERTIES, is_plain
from firearrow.broker.send.marks import born_of
from firearrow.broker.send.replies import SendReplies
from firearrow.errors import IllegalMessage
from firearrow.protocol.conversation import Fields
from firearrow.protocol.requests.message.send import Send, ShortSend
from firearrow.protocol.send_shape import SendColumns
from firearrow.protocol.sends import SendsArrived
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.remoting.handlers import OWED_OVERHEAD_BYTES, SUCCESS, Creditor, ManyLater
from firearrow.store.placement import AppendedColumns
from firearrow.store.store import Store


class BulkSends:
    """Takes many sends at a time."""

    def __init__(self, store: Store, known: dict[str, Checked], replies: SendReplies, admission: Admission) -> None:
        self._append = store.log.append_columns_if_room
        self._retention = store.retention
        self._known = known
        self._replies = replies
        self._admission = admission

    def is_wanted(self, request: Send | ShortSend) -> bool:
        """Whether sends that differ from ``request`` only in keys, tags, queue and birth may be taken by columns."""
        properties = request.properties or ""
        is_one = not request.batch and properties.endswith("\x02")
        return is_one and is_plain(request.sys_flag, properties, syncs=self._replies.syncs)

    def send(self, sends: SendsArrived, peer: Creditor) -> bool:
        """Store many messages; return False when no message was taken."""
        request, columns, replies = sends.shape.request, sends.columns, self._replies
        known, count = self._known.get(request.topic), len(sends.columns.bodies)
        if known is None or self._retention.refusal is not None:
            return False
        properties = sends.shape.properties(columns, replies.marks.suffix)
        if not _fits(columns, properties, known.limit, replies.max_body) or not self._admission.lets_in(count):
            return False
        envelope = Envelope(
            request.topic,
            born_of(peer),
            replies.marks.store_host,
            request.sys_flag | known.added_flags,
            request.reconsume_times or 0,
        )
        tails = [known.tails.get(queue) or known.tail(queue) for queue in columns.queue_ids]
        flags = [request.flag] * count
        messages = MessageColumns(columns.queue_ids, columns.births, flags, columns.bodies, properties)
        try:
            place = self._append(envelope, tails, messages)
        except IllegalMessage:
            return False
        if place is None:
            return False
        known.counts.messages += count
        known.counts.size += place.end - place.physical_offsets[0]
        size = columns.end + OWED_OVERHEAD_BYTES * count
        peer.owe(size)
        later = ManyLater(peer, sends.shape.encoding, self._answers(columns, place), size)
        replies.acks.add(place.end, later, SUCCESS)
        return True

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


def _fits(columns: SendColumns, properties: list[bytes], queues: int, max_body: int) -> bool:
    sizes = list(map(len, columns.bodies))
    return (
        max(columns.queue_ids) < queues
        and max(sizes) <= max_body
        and min(sizes) > 0
        and max(map(len, properties)) <= MAX_SENT_PROPERTIES
    )

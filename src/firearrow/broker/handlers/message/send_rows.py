"""Sends of rows with an identity: a row that its queue holds already is answered with its first copy.

The answer to a repeat has the message id and the queue offset of the first copy, and leaves when the first copy is as
safe as the answer to it promised: under SYNC_FLUSH a repeat waits for the sync of a first copy that is not synced yet.
A batch may hold repeats and new rows: the new ones are appended, and the answer lists the ids of all in their order.
Messages without an identity never come here. A repeat has the identity and the body of its first copy.
"""

from functools import partial
from typing import Final
from zlib import crc32

from msgspec import Struct

from firearrow.broker.dedup.row_identity import has_windows, hold_rows, key_of, keys_of
from firearrow.broker.dedup.row_windows import RowWindows
from firearrow.broker.dedup.window import FirstCopies, FirstCopy
from firearrow.broker.gate.gate import KeptAnswer
from firearrow.broker.send.replies import Again, SendReplies
from firearrow.broker.tables.tables import Tables
from firearrow.errors import StoreFenced
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import Draft
from firearrow.record.layout import CRC_MASK
from firearrow.remoting.handlers import Call
from firearrow.store.placement import Appended, AppendedColumns


class Row(Struct, frozen=True):
    """A single row of a queue."""

    topic: str
    queue_id: int
    key: bytes
    body_crc: int
    is_delayed: bool
    """Whether it waits in another queue for its delivery."""


class RowSends:
    """Takes rows with an identity."""

    def __init__(self, tables: Tables, replies: SendReplies) -> None:
        self._log = tables.store.log
        self._tails = tables.store.queues
        self._replies = replies
        self._stats = tables.stats
        self.windows: Final = RowWindows(tables)

    # ---- single rows

    def row_of(self, topic: str, queue_id: int, draft: Draft) -> Row | None:
        """Return the row that a message for a queue is; None for a message that is stored whenever it is sent."""
        key = key_of(draft.properties) if has_windows(topic, draft.sys_flag) and self.windows.are_on else b""
        is_delayed = (draft.topic, draft.queue_id) != (topic, queue_id)
        return Row(topic, queue_id, key, crc32(draft.body) & CRC_MASK, is_delayed) if key else None

    def first_of(self, row: Row) -> FirstCopy | None:
        """Return the first copy of a row; None for a new one. The window of the queue must be ready."""
        self.windows.forget_old(row.topic, row.queue_id)
        return self.windows.find(row.topic, row.queue_id, row.key, row.body_crc)

    def stored(self, row: Row, place: Appended) -> None:
        """Remember a new row that was just appended."""
        copy = FirstCopy(place.physical_offset, place.queue_offset, row.body_crc)
        queue = (row.topic, row.queue_id)
        self.windows.stored(queue, [(row.key, copy)], place.end, place.store_timestamp, delayed=row.is_delayed)

    def repeated(self, call: Call, first: FirstCopy, queue_id: int, unique: str, *, waits: bool) -> KeptAnswer:
        """Answer a repeated row with its first copy."""
        self.windows.repeats += 1
        answer = self._replies.stored(self._replies.id_of(first.physical), queue_id, first.queue_offset, unique)
        return self._answer(call, first.physical, answer, waits=waits)

    def _answer(self, call: Call, physical: int, answer: SendAnswer, *, waits: bool) -> KeptAnswer:
        """Answer when the record at ``physical``, and all before it, are as safe as the sender wants them."""
        log = self._log
        if physical >= log.tail:
            # The write of the first copy failed. Its sender is not told before the cut of the log is durable.
            raise log.fenced or StoreFenced("the log undoes a failed write; send again in a moment")
        passed = self._replies.gate.kept_before(physical, answer, waits=waits)
        return passed or self._replies.acknowledge(call, log.tail, answer, waits=waits)

    # ---- batches

    def are_in(self, columns: MessageColumns) -> bool:
        """Whether messages of a batch may be rows."""
        return hold_rows(columns.properties) and self.windows.are_on

    def put(
        self, call: Call, envelope: Envelope, columns: MessageColumns, unique: str | None, again: Again, *, waits: bool
    ) -> KeptAnswer:
        """Store a batch without the rows that its queue holds already."""
        topic, queue_id = envelope.topic, columns.queue_ids[0]
        if not self.windows.is_ready(topic, queue_id):
            return self.wait(call, topic, queue_id, again)
        self.windows.forget_old(topic, queue_id)
        keys = keys_of(columns.properties)
        crcs = [crc & CRC_MASK for crc in map(crc32, columns.bodies)]
        if self.windows.are_new(topic, queue_id, keys):
            place = self._append(envelope, columns)
            copies = FirstCopies(place.physical_offsets, place.queue_offsets[0], crcs)
            self.windows.stored_new((topic, queue_id), keys, copies, place.end, place.store_timestamp)
            ids = self._replies.ids_of(place.physical_offsets)
            answer = self._replies.stored(ids, queue_id, place.queue_offsets[0], unique)
            return self._replies.acknowledge(call, place.end, answer, waits=waits)
        places, fresh, end = self._append_fresh(envelope, columns, list(zip(keys, crcs, strict=True)))
        answer = self._replies.stored(
            self._replies.ids_of([place.physical for place in places]), queue_id, places[0].queue_offset, unique
        )
        if fresh == len(places):
            return self._replies.acknowledge(call, end, answer, waits=waits)
        self.windows.repeats += len(places) - fresh
        return self._answer(call, max(place.physical for place in places), answer, waits=waits)

    def _append(self, envelope: Envelope, columns: MessageColumns) -> AppendedColumns:
        tail = self._tails.tail_of(envelope.topic, columns.queue_ids[0])
        place = self._log.append_columns(envelope, [tail] * len(columns.bodies), columns)
        counts = self._stats.of_topic(envelope.topic)
        counts.messages += len(columns.bodies)
        counts.size += place.end - place.physical_offsets[0]
        return place

    def _append_fresh(
        self, envelope: Envelope, columns: MessageColumns, names: list[tuple[bytes, int]]
    ) -> tuple[list[FirstCopy], int, int]:
        """Append the new rows of a batch; return where every row is, how many are new, and the end of these.

        The name of a row is its key and the CRC of its body.
        """
        topic, queue_id = queue = envelope.topic, columns.queue_ids[0]
        find, firsts = self.windows.find, dict[tuple[bytes, int], int]()  # rows of this batch, by name
        copies = [find(topic, queue_id, key, crc) if key else None for key, crc in names]
        fresh = [
            number
            for number, (name, copy) in enumerate(zip(names, copies, strict=True))
            if copy is None and (not name[0] or firsts.setdefault(name, number) == number)
        ]
        if not fresh:
            return [copy for copy in copies if copy is not None], 0, 0
        place = self._append(envelope, columns if len(fresh) == len(names) else _chosen(columns, fresh))
        crcs = [names[number][1] for number in fresh]
        stored = list(map(FirstCopy, place.physical_offsets, place.queue_offsets, crcs))
        rows = [(names[number][0], copy) for number, copy in zip(fresh, stored, strict=True) if names[number][0]]
        self.windows.stored(queue, rows, place.end, place.store_timestamp)
        if len(fresh) == len(names):
            return stored, len(fresh), place.end
        by_number = dict(zip(fresh, stored, strict=True))
        places = [
            copy or by_number.get(number) or by_number[firsts[names[number]]] for number, copy in enumerate(copies)
        ]
        return places, len(fresh), place.end

    # ---- windows that are not rebuilt yet

    def wait(self, call: Call, topic: str, queue_id: int, again: Again) -> KeptAnswer:
        """Begin a send anew when the window of its queue is rebuilt."""
        later = call.later()
        self.windows.when_ready(topic, queue_id, partial(self._replies.resume, later, again))
        return self._replies.gate.owed(later)


def _chosen(columns: MessageColumns, numbers: list[int]) -> MessageColumns:
    """Return the columns of some of the messages."""
    return MessageColumns(
        [columns.queue_ids[number] for number in numbers],
        [columns.births[number] for number in numbers],
        [columns.flags[number] for number in numbers],
        [columns.bodies[number] for number in numbers],
        [columns.properties[number] for number in numbers],
    )

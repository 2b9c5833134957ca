"""Sends of rows with an identity: a row that its queue holds already is answered with its first copy.

The answer to a repeat has the message id and the queue offset of the first copy, and leaves when the first copy is as
safe as the answer to it promised: under SYNC_FLUSH a repeat waits for the sync of a first copy that is not synced yet.
A batch may hold repeats and new rows: the new ones are appended, and the answer lists the ids of all in their order.
Messages without an identity never come here. A repeat has the identity and the body of its first copy.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final
from zlib import crc32

from msgspec import Struct

from firearrow.broker.dedup.row_identity import has_windows, hold_rows, key_of, keys_of
from firearrow.broker.dedup.row_windows import Queue, RowWindows
from firearrow.broker.dedup.window import FirstCopies, FirstCopy
from firearrow.broker.gate.gate import KeptAnswer
from firearrow.broker.send.replies import SendReplies
from firearrow.broker.send.sent import Again, SentBatch, SentMessage
from firearrow.errors import StoreFenced
from firearrow.record.columns import MessageColumns
from firearrow.record.encode import Draft
from firearrow.record.layout import CRC_MASK
from firearrow.remoting.handlers import Answer
from firearrow.store.placement import AppendedColumns, AppendPosition
from firearrow.store.store import Store


class Row(Struct, frozen=True):
    """A single row of a queue."""

    key: bytes
    body_crc: int
    is_delayed: bool
    """Whether it waits in another queue for its delivery."""


class RowSends:
    """The step of rows with an identity among the checks of a send."""

    def __init__(self, windows: RowWindows, replies: SendReplies, store: Store) -> None:
        self._log = store.log
        self._replies = replies
        self.windows: Final = windows

    # ---- single rows

    def admit(self, sent: SentMessage, draft: Draft, again: Again) -> KeptAnswer | None:
        """Have a new row remembered with its place; return the answer to any other row."""
        row, windows = self._row_of(sent, draft), self.windows
        if row is None:
            return None
        if not windows.is_ready(sent.topic, sent.queue_id):
            return self._wait(sent, again)
        windows.forget_old(sent.topic, sent.queue_id)
        first = windows.find(sent.topic, sent.queue_id, row.key, row.body_crc)
        if first is not None:
            return self._repeated(sent, [first])
        sent.remember = (*sent.remember, partial(self._stored, (sent.topic, sent.queue_id), row))
        return None

    def _row_of(self, sent: SentMessage, draft: Draft) -> Row | None:
        """Return the row of a message; None for a message that is stored whenever it is sent."""
        if not (self.windows.are_on and has_windows(sent.topic, draft.sys_flag)):
            return None
        key = key_of(draft.properties)
        is_delayed = (draft.topic, draft.queue_id) != (sent.topic, sent.queue_id)
        return Row(key, crc32(draft.body) & CRC_MASK, is_delayed) if key else None

    def _stored(self, queue: Queue, row: Row, place: AppendPosition) -> None:
        """Remember a new row that was just appended."""
        copy = FirstCopy(place.physical_offset, place.queue_offset, row.body_crc)
        self.windows.stored(queue, [(row.key, copy)], place.end, place.store_timestamp, delayed=row.is_delayed)

    def _repeated(self, sent: SentMessage, copies: list[FirstCopy]) -> KeptAnswer:
        """Answer repeated rows with their first copies, when these are as safe as the sender wants them."""
        self.windows.repeats += len(copies)
        physicals = [copy.physical for copy in copies]
        answer = self._replies.stored(
            self._replies.ids_of(physicals), sent.queue_id, copies[0].queue_offset, sent.unique
        )
        log, gate = self._log, self._replies.gate
        if max(physicals) >= log.tail:
            # The write of the first copy failed. Its sender is not told before the cut of the log is durable.
            raise log.fenced or StoreFenced("the log undoes a failed write; send again in a moment")
        passed = gate.kept_before(max(physicals), answer, waits=sent.waits)
        return passed or gate.placed(sent.call, log.tail, Answer(answer), waits=sent.waits)

    # ---- batches

    def admit_batch(self, sent: SentMessage, batch: SentBatch, again: Again) -> KeptAnswer | None:
        """Take the rows out of a batch that its queue holds already, and have the others remembered with their places.

        Return the answer when there are no others, or when the window of the queue is not ready.
        """
        columns, windows, queue = batch.columns, self.windows, (sent.topic, sent.queue_id)
        if not (hold_rows(columns.properties) and windows.are_on):
            return None
        if not windows.is_ready(*queue):
            return self._wait(sent, again)
        windows.forget_old(*queue)
        keys = keys_of(columns.properties)
        crcs = [crc & CRC_MASK for crc in map(crc32, columns.bodies)]
        if windows.are_new(*queue, keys):
            sent.remember = (*sent.remember, partial(self._stored_new, queue, keys, crcs))
            return None
        rows = _Rows(list(zip(keys, crcs, strict=True)), windows, *queue)
        if not rows.fresh:
            return self._repeated(sent, [copy for copy in rows.copies if copy is not None])
        if len(rows.fresh) < len(keys):
            sent.content = SentBatch(batch.envelope, _chosen(columns, rows.fresh))
        sent.remember = (*sent.remember, partial(self._stored_fresh, queue, rows))
        sent.places_of = rows.places_of
        return None

    def _stored_new(self, queue: Queue, keys: Sequence[bytes], crcs: list[int], place: AppendedColumns) -> None:
        copies = FirstCopies(place.physical_offsets, place.queue_offsets[0], crcs)
        self.windows.stored_new(queue, keys, copies, place.end, place.store_timestamp)

    def _stored_fresh(self, queue: Queue, rows: "_Rows", place: AppendedColumns) -> None:
        self.windows.repeats += len(rows.copies) - len(rows.fresh)
        self.windows.stored(queue, rows.remembered(place), place.end, place.store_timestamp)

    # ---- windows that are not rebuilt yet

    def _wait(self, sent: SentMessage, again: Again) -> KeptAnswer:
        """Begin a send anew when the window of its queue is rebuilt."""
        later = sent.call.later()
        self.windows.when_ready(sent.topic, sent.queue_id, partial(self._replies.resume, later, again))
        return self._replies.gate.owed(later)


class _Rows:
    """The rows of a batch of which some were stored before. A row's name is its key and the CRC of its body."""

    def __init__(self, names: list[tuple[bytes, int]], windows: RowWindows, topic: str, queue_id: int) -> None:
        self._names = names
        self._firsts: dict[tuple[bytes, int], int] = {}  # rows of this batch, by name
        self.copies = [windows.find(topic, queue_id, key, crc) if key else None for key, crc in names]
        """The first copies of rows that were stored before, in the order of the batch; None for others."""
        self.fresh: Final = [
            number
            for number, (name, copy) in enumerate(zip(names, self.copies, strict=True))
            if copy is None and (not name[0] or self._firsts.setdefault(name, number) == number)
        ]
        """The numbers of the rows that are to be stored."""

    def _placed(self, place: AppendedColumns) -> list[FirstCopy]:
        crcs = [self._names[number][1] for number in self.fresh]
        return list(map(FirstCopy, place.physical_offsets, place.queue_offsets, crcs))

    def remembered(self, place: AppendedColumns) -> list[tuple[bytes, FirstCopy]]:
        """Return the keys and places of the rows that were stored and have an identity."""
        numbers = zip(self.fresh, self._placed(place), strict=True)
        return [(self._names[number][0], copy) for number, copy in numbers if self._names[number][0]]

    def places_of(self, place: AppendedColumns) -> tuple[list[int], int]:
        """Return the physical offsets of all rows, and the queue offset of the first."""
        stored = dict(zip(self.fresh, self._placed(place), strict=True))
        places = [
            copy or stored.get(number) or stored[self._firsts[self._names[number]]]
            for number, copy in enumerate(self.copies)
        ]
        return [copy.physical for copy in places], places[0].queue_offset


def _chosen(columns: MessageColumns, numbers: list[int]) -> MessageColumns:
    """Return the columns of some of the messages."""
    return MessageColumns(
        [columns.queue_ids[number] for number in numbers],
        [columns.births[number] for number in numbers],
        [columns.flags[number] for number in numbers],
        [columns.bodies[number] for number in numbers],
        [columns.properties[number] for number in numbers],
    )

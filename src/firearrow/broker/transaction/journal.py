"""The journal of transactions: reads the two queues into the ledger, and appends the records that end half messages.

Order of durability: the record that replaces a half message (final message, renewed half message, message that was
given up) is appended before the op message, so no crash leaves an op message without it. Both are appended in one turn
of the loop, and written with one call. After a crash that kept the first and lost the second the half message is
pending again: before anything is done with a half message that is older than this process, its final message is looked
up by its key (`has_final`). Apache's broker loses op messages so whenever it is killed.

The op message of a rollback has the key of its transaction, when that may have been given up before: the record in
TRANS_CHECK_MAX_TIME_TOPIC stays, and only the op message says after a restart that it is not to be resumed
(`finds_rollback`).

The offsets in the table of offsets, under group CID_RMQ_SYS_TRANS, are Apache's: half messages below the one are over,
op messages below the other name only such half messages.
"""

import logging
import random
from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Final

from firearrow.broker.identity import Identity
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.broker.transaction.half import HALF_QUEUE, half_of, is_final_of, is_renewal_of, op_message
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.ledger import Half, Ledger
from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.model import EpochMs, keys
from firearrow.model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_GROUP
from firearrow.record.decode import RecordHead, heads, peek
from firearrow.record.encode import Draft
from firearrow.record.message_id import UniqueKeys
from firearrow.record.op_message import op_bodies, parse_op
from firearrow.runtime.clock import Clock
from firearrow.runtime.turn import Pace
from firearrow.store.log.waiters import OnReached
from firearrow.store.placement import FLUSHED, AppendPosition
from firearrow.store.read.lookup import IsWanted
from firearrow.store.read.queue_reader import ReadRequest, ReadResult, ReadStatus
from firearrow.store.store import Store

READ_AT_ONCE: Final = 64
READ_BYTES: Final = 1 << 20
FINAL_BEFORE_MS: Final = 600_000
"""A half message that Apache wrote again may be so much younger than its final message."""
RECENT_BYTES: Final = 1 << 20
"""The last half messages of so many bytes, and up to as many before them, need not be read for their end.

A larger half message is not kept.
"""

log = logging.getLogger(__name__)


class Journal:
    """The half queue and the op queue of one broker, and their fold."""

    queues: Final = frozenset({(HALF_TOPIC, HALF_QUEUE), (OP_HALF_TOPIC, HALF_QUEUE)})
    """The queues that are folded."""

    def __init__(
        self,
        *,
        store: Store,
        settings: LiveSettings,
        offsets: OffsetBook,
        clock: Clock,
        identity: Identity,
        stats: BrokerStats,
        chance: random.Random,
    ) -> None:
        self.ledger = Ledger(0, 0)
        self._store = store
        self._settings = settings
        self._offsets = offsets.table
        self._offsets_changed = offsets.file.changed
        self._clock = clock
        self._host = identity.store_host
        self._stats = stats
        self._unique_keys = UniqueKeys(identity.ip, chance.getrandbits(16), chance.getrandbits(32), UTC)
        self._recent: dict[int, HalfRecord] = {}  # the half messages that were folded last, by physical offset
        self._less_recent: dict[int, HalfRecord] = {}
        self._recent_bytes = 0
        self._named: dict[int, str] = {}  # half messages whose op message gets the key, until it is folded
        self.owed: dict[int, int] = {}
        """Half messages that are over without an op message, and the ends of the records that say so."""
        self.on_taken_back: Callable[[], None] = lambda: None
        """Called when a half message is pending again, because the record that ended it could not be written."""

    def open(self) -> None:
        """Begin at the stored offsets; the table of offsets must be loaded."""
        self.ledger = Ledger(self._begin(HALF_TOPIC), self._begin(OP_HALF_TOPIC))

    def _begin(self, topic: str) -> int:
        stored = self._offsets.committed(TRANSACTION_GROUP, topic, HALF_QUEUE)
        return max(stored, self._store.min_offset(topic, HALF_QUEUE))

    # ---- reading

    @property
    def has_news(self) -> bool:
        """Whether a queue has messages that are not folded."""
        store, ledger = self._store, self.ledger
        return (
            store.max_offset(HALF_TOPIC, HALF_QUEUE) > ledger.half_next
            or store.max_offset(OP_HALF_TOPIC, HALF_QUEUE) > ledger.op_next
        )

    def is_on_its_way(self, offset: int) -> bool:
        """Whether a half message is appended and not folded yet: it is not dispatched before it may be read."""
        queue = self._store.queues.find(HALF_TOPIC, HALF_QUEUE)
        return queue is not None and self.ledger.half_next <= offset < queue.next_offset

    async def catch_up(self) -> None:
        """Fold everything that the queues have: half messages first, because an op message comes after its half."""
        pace = Pace(READ_AT_ONCE)
        while (pulled := await self._next(HALF_TOPIC, self.ledger.half_next)) is not None:
            self._fold_halves(pulled)
            await pace.did(READ_AT_ONCE)
        while (pulled := await self._next(OP_HALF_TOPIC, self.ledger.op_next)) is not None:
            self._fold_ops(pulled)
            await pace.did(READ_AT_ONCE)
        while not self.ledger.find_lowest():
            await pace.did(READ_AT_ONCE)
        self._note_offsets()

    async def _next(self, topic: str, offset: int) -> ReadResult | None:
        if offset >= self._store.max_offset(topic, HALF_QUEUE):
            return None
        return await self._store.read(topic, HALF_QUEUE, ReadRequest(offset, READ_AT_ONCE, READ_BYTES))

    def _fold_halves(self, pulled: ReadResult) -> None:
        ledger = self.ledger
        for buffer in pulled.buffers:
            if self._recent_bytes + len(buffer) > RECENT_BYTES:
                self._less_recent, self._recent, self._recent_bytes = self._recent, {}, 0
            kept = self._recent if len(buffer) <= RECENT_BYTES else {}
            self._recent_bytes += len(buffer) if kept is self._recent else 0
            for head in heads(buffer):
                record = kept[head.physical_offset] = HalfRecord(head, buffer)
                ledger.took_half(half_of(record))
        self._skip(HALF_TOPIC, pulled, ledger.half_next)
        ledger.skip_halves(pulled.next_offset)

    def _fold_ops(self, pulled: ReadResult) -> None:
        ledger = self.ledger
        for buffer in pulled.buffers:
            for head in heads(buffer):
                offsets = parse_op(head.body(buffer))
                ledger.took_op(head.queue_offset, offsets)
                for offset in offsets if self._named else ():
                    self._named.pop(offset, None)
        self._skip(OP_HALF_TOPIC, pulled, ledger.op_next)
        ledger.skip_ops(pulled.next_offset)

    def _skip(self, topic: str, pulled: ReadResult, folded: int) -> None:
        if pulled.next_offset > folded and pulled.status is not ReadStatus.FOUND:
            log.warning(
                "messages %d to %d of %s are not there any more: %s",
                folded,
                pulled.next_offset - 1,
                topic,
                pulled.status.value,
                extra={"topic": topic, "from": folded, "to": pulled.next_offset},
            )

    def _note_offsets(self) -> None:
        """Put the offsets into the table, once there is a transaction; the file of the table waits for the log."""
        ledger, offsets = self.ledger, self._offsets
        if not ledger.half_next:
            return
        for topic, done in ((HALF_TOPIC, ledger.half_done), (OP_HALF_TOPIC, ledger.op_done)):
            if offsets.committed(TRANSACTION_GROUP, topic, HALF_QUEUE) != done:
                offsets.commit(TRANSACTION_GROUP, topic, HALF_QUEUE, done)
                self._offsets_changed()

    def take_recent(self, physical: int) -> HalfRecord | None:
        """Return a half message of this process that was folded just now, once; None for all others.

        Its transaction is at `Ledger.now_at`, and has no final message that the ledger does not know of.
        """
        log = self._store.log
        record = self._recent.pop(physical, None) or self._less_recent.pop(physical, None)
        return None if physical < log.opened_at or physical < log.min_offset else record

    async def record_at(self, physical: int, size: int = 0) -> HalfRecord | None:
        """Return the record at a place of the log, which was checked when it was folded if its ``size`` is given."""
        try:
            data = self._store.bytes.read_hot(physical, size) if size else None
            if data is None:
                data = await self._store.lookups.by_physical(physical)
            record = HalfRecord.read(data)
        except (OffsetNotStored, BadRecord):
            return None
        return record if record.head.physical_offset == physical else None

    async def record_of(self, half: Half) -> HalfRecord | None:
        """Return the record of a half message; None when it is damaged or deleted."""
        return await self.record_at(half.physical, half.size)

    async def has_final(self, record: HalfRecord) -> bool:
        """Whether the final message of a half message from before this process is in the log.

        Without the key index (``messageIndexEnable``) that is not known, and the answer is False.
        """
        if record.head.physical_offset >= self._store.log.opened_at:
            return False
        return await self.finds_final(record, record.head.store_timestamp - FINAL_BEFORE_MS)

    async def finds_final(self, record: HalfRecord, since_ms: int = 0) -> bool:
        """Whether the key index finds the final message of a half message."""
        topic = record.properties.get(keys.REAL_TOPIC)
        if not topic:
            return False
        for place in (topic, SCHEDULE_TOPIC, TIMER_TOPIC):
            if await self._newest(place, record, since_ms, lambda _, head: is_final_of(record.head, head)) is not None:
                return True
        return False

    async def finds_rollback(self, record: HalfRecord, offset: int | None) -> bool:
        """Whether the key index finds the rollback of a message that was given up.

        ``offset``: its last half message. Without that every rollback with its key counts.
        """
        place, since_ms = record.head.physical_offset, record.head.store_timestamp

        def is_rollback(data: bytes, head: RecordHead) -> bool:
            return head.physical_offset > place and (offset is None or offset in parse_op(head.body(data)))

        return await self._newest(OP_HALF_TOPIC, record, since_ms, is_rollback) is not None

    async def pending_of(self, record: HalfRecord) -> int:
        """Return the offset of the pending half message of the transaction of a record; that of the record without one.

        The ledger knows most by itself. After a start it does not know offsets from before the last question: the
        pending half message is looked up by its key.
        """
        head = record.head
        offset = self.ledger.now_at(head.queue_offset)
        is_known = self.ledger.pending.get(offset) or self.ledger.outcome_at(offset)
        if is_known or head.physical_offset >= self._store.log.opened_at:
            return offset
        found = await self._newest(
            HALF_TOPIC,
            record,
            head.store_timestamp,
            lambda _, one: is_renewal_of(head, one) and one.queue_offset in self.ledger.pending,
        )
        return offset if found is None else found.queue_offset

    async def last_half_of(self, record: HalfRecord) -> int | None:
        """Return the offset of the last half message of the transaction of a message that was given up.

        None when its half messages are not in the log any more, or there is no key index.
        """
        found = await self._newest(HALF_TOPIC, record, 0, lambda _, one: is_renewal_of(record.head, one))
        return None if found is None else self.ledger.now_at(found.queue_offset)

    async def _newest(self, topic: str, record: HalfRecord, since_ms: int, is_wanted: IsWanted) -> RecordHead | None:
        """Return the newest wanted record of a topic whose unique key is that of a record; None when none is found.

        The index mixes unique keys with the words of KEYS: other messages with the key are passed over, as many as one
        lookup may read.
        """
        unique = record.unique_key
        if not unique:
            return None
        found = await self._store.lookups.by_key(
            topic,
            unique,
            1,
            since_ms,
            self._clock.now_ms(),
            lambda data, head: is_wanted(data, head) and HalfRecord(head, data).unique_key == unique,
        )
        return peek(found.records[0]) if found.records else None

    # ---- writing

    def append(self, draft: Draft, *, even_if_full: bool = False) -> AppendPosition:
        """Append a record; raise when the store takes no messages, unless ``even_if_full`` and it is only full."""
        store = self._store
        tail = store.queues.tail_of(draft.topic, draft.queue_id)
        place = store.log.append(tail, draft) if even_if_full else store.append(draft)
        self._stats.stored(draft.topic, 1, place.end - place.physical_offset)
        return place

    @property
    def tail(self) -> int:
        """The offset of the next record; records above it were undone."""
        return self._store.log.tail

    def append_ops(self, offsets: Iterable[int]) -> int:
        """Append op messages for half messages that are over; return the end of the last one."""
        config, named = self._settings.value.transactions, self._named
        end, offsets = self.tail, list(offsets)
        bodies = op_bodies(
            [offset for offset in offsets if offset not in named] if named else offsets,
            max_size=config.transaction_op_msg_max_size,
            is_single=config.transaction_op_per_message,
        )
        now_ms = self._clock.now_ms()
        for body in bodies:
            unique = self._unique_keys.next(EpochMs(now_ms))
            end = self.append(op_message(body, unique, now_ms, self._host), even_if_full=True).end
        for offset in offsets if named else ():
            if offset in named:
                op = op_message(b"%d" % offset, named[offset], now_ms, self._host)
                end = self.append(op, even_if_full=True).end
        return end

    def name_rollback(self, offset: int, record: HalfRecord) -> None:
        """Give the op message for a rollback the key of its transaction, if that may have been given up before.

        So it may be when it was asked about. And when it is from before this process: a crash may have kept the record
        that gave it up, and lost the op message.
        """
        half = self.ledger.pending.get(offset)
        was_asked_about = half is None or half.replaces >= 0 or record.was_written_by_a_check
        if (was_asked_about or record.head.physical_offset < self._store.log.opened_at) and record.unique_key:
            self._named[offset] = record.unique_key

    def take_back(self, offset: int) -> None:
        """Note that the record which ended a half message was not written: it is pending as before."""
        self.ledger.take_back(offset)
        self.owed.pop(offset, None)
        self._named.pop(offset, None)
        self.on_taken_back()

    def when_kept(self, end: int, call: OnReached) -> None:
        """Call ``call`` when the log up to ``end`` is as durable as a send is before its answer."""
        self._store.on_reached(end, self._store.log.kept_at, call)

    async def kept(self, end: int, *, is_flushed: bool = False) -> None:
        """Wait until the log up to ``end`` is as durable as a send is before its answer, or flushed."""
        await self._store.reached(end, FLUSHED if is_flushed else self._store.log.kept_at)

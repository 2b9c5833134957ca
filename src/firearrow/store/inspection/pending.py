"""Counts the work that a broker has begun in a store and not finished.

- A half message is pending unless an op message names its offset or a later one replaces it. Both queues are looked
  through from where the transactions' own group is, as Apache's check does. An op message that names several offsets
  is counted too: a 4.9 broker cannot read it.
- A timed message is pending when its slot of the wheel is not delivered, or when it is not in the wheel yet. One that
  was recalled counts until its time has come.
- A pop check-point is pending when one of its messages is not acknowledged. Check-points and acknowledgements wait for
  their time among the timed messages, and then lie in the revive log up to where Apache's broker has seen to them.

A message that the log no longer has does not count. Java: ``TransactionalMessageServiceImpl``, ``TimerMessageStore``,
``PopReviveService``.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, field

from firearrow import fastjson
from firearrow.errors import BadBody, FileMissing
from firearrow.model import keys
from firearrow.model.names import HALF_TOPIC, OP_HALF_TOPIC, REVIVE_LOG_PREFIX, TIMER_TOPIC, TRANSACTION_GROUP
from firearrow.model.numbers import whole_number
from firearrow.record.op_message import OP_TAG, is_batched, parse_op
from firearrow.runtime.disk.door import Disk
from firearrow.store.inspection.pop_marks import PopMarks
from firearrow.store.inspection.timer_files import Timer, columns_of, slots_due, timers_of
from firearrow.store.timer.recovery import read_check
from firearrow.store.timer.timer_log import TimerLog

OFFSETS: Final = ("config/consumerOffset.json", "config/consumerOffset.json.bak")
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
TIMER_LOG_BYTES: Final = 100 << 20


class PendingCounts(Struct, frozen=True):
    """The number of half messages, timed messages and pop check-points."""

    half_messages: int = 0
    timers: int = 0
    check_points: int = 0
    batched_ops: int = 0
    """Op messages in the form of 5.x that are still needed. They are no work, and not counted as such."""

    def __bool__(self) -> bool:
        return bool(self.half_messages or self.timers or self.check_points)

    def __str__(self) -> str:
        counts = (
            (self.half_messages, "half message", "of transactions that are neither committed nor rolled back"),
            (self.timers, "timed message", "whose time has not come"),
            (self.check_points, "pop check-point", "with messages that are not acknowledged"),
        )
        said = [f"{count} {noun}{'s' * (count != 1)} {state}" for count, noun, state in counts if count]
        return ", ".join(said) or "nothing pending"

    def hinders(self, version: str) -> list[str]:
        """Return why a broker of Apache's of this version must not take the directory over, in whole sentences."""
        if not version.startswith("4."):
            return []
        reasons: list[str] = []
        if self.timers:
            reasons.append(f"{self._timers_wait}, which {version} never delivers: wait until they are delivered.")
        if self.batched_ops:
            reasons.append(
                f"{self.batched_ops} op messages name several half messages, and {version} reads one in each: it would "
                "ask about ended transactions again and could store their messages twice. Start this broker with "
                "transactionOpPerMessage=true, let it end the open transactions, and stop it in order."
            )
        if self.check_points:
            reasons.append(
                f"{self.check_points} pop check-points, which {version} does not know, are not acknowledged."
            )
        return reasons

    @property
    def _timers_wait(self) -> str:
        return "1 timed message waits" if self.timers == 1 else f"{self.timers} timed messages wait"


class PendingMessage(NamedTuple):
    """A message of the store."""

    queue_offset: int
    physical: int
    body: bytes
    properties: Mapping[str, str]


class MessageSource(Protocol):
    """The messages of a store, open or looked at from outside."""

    @property
    def log_start(self) -> int:
        """The physical offset at which the log begins."""
        ...

    async def topics(self) -> list[str]:
        """The topics that have queues."""
        ...

    async def queues(self, topic: str) -> list[int]:
        """The queues of a topic that ever had a message."""
        ...

    def after(self, topic: str, queue_id: int, offset: int) -> AsyncIterator[PendingMessage]:
        """The messages of a queue from an offset on, as far as the log has them."""
        ...

    async def at(self, physical: int, size: int) -> PendingMessage | None:
        """The message at a place in the log, if there is one."""
        ...


class _OffsetFile(Struct, frozen=True):
    table: dict[str, dict[int, int]] = field(name="offsetTable", default_factory=dict)


async def count_pending(disk: Disk, messages: MessageSource, *, delivers_timers: bool = False) -> PendingCounts:
    """Count pending work. A directory without such messages costs a few lookups.

    With ``delivers_timers`` timed messages count as 0, unless there are pop check-points among them: millions of them
    need not be walked through then.
    """
    revive_logs = [topic for topic in await messages.topics() if topic.startswith(REVIVE_LOG_PREFIX)]
    halves = await messages.queues(HALF_TOPIC)
    revived = [(topic, queue_id) for topic in revive_logs for queue_id in await messages.queues(topic)]
    offsets = await _offsets(disk) if halves or revived else {}
    marks = PopMarks()
    for topic, queue_id in revived:
        await _take_revive_log(messages, offsets, topic, queue_id, marks)
    transactions = [await _transactions(messages, offsets, queue_id) for queue_id in halves]
    timers = 0
    if await messages.queues(TIMER_TOPIC):
        timed = _Timers(disk, messages, marks)
        timers = await timed.count() if not delivers_timers or await timed.hold_marks() else 0
    return PendingCounts(
        half_messages=sum(pending for pending, _ in transactions),
        timers=timers,
        check_points=marks.pending(),
        batched_ops=sum(batched for _, batched in transactions),
    )


async def _offsets(disk: Disk) -> dict[str, dict[int, int]]:
    for path in OFFSETS:
        try:
            return fastjson.decode(await disk.read_whole(path), _OffsetFile).table
        except (FileMissing, BadBody):
            continue
    return {}


def _committed(offsets: dict[str, dict[int, int]], topic: str, group: str, queue_id: int) -> int | None:
    return offsets.get(f"{topic}@{group}", {}).get(queue_id)


# ---- transactions


async def _transactions(messages: MessageSource, offsets: dict[str, dict[int, int]], queue_id: int) -> tuple[int, int]:
    """Pending half messages of a queue, and op messages in the form of 5.x."""
    ended: set[int] = set()
    batched = 0
    op_from = _committed(offsets, OP_HALF_TOPIC, TRANSACTION_GROUP, queue_id) or 0
    half_from = _committed(offsets, HALF_TOPIC, TRANSACTION_GROUP, queue_id) or 0
    async for op in messages.after(OP_HALF_TOPIC, queue_id, op_from):
        if op.properties.get(keys.TAGS) == OP_TAG:
            named = parse_op(op.body)
            ended.update(named)
            batched += is_batched(op.body) and max(named, default=-1) >= half_from
    pending: set[int] = set()
    async for half in messages.after(HALF_TOPIC, queue_id, half_from):
        pending.discard(_offset(half, keys.PREVIOUS_HALF))
        # A message that Apache is not to ask about yet is put into the queue again, and its first offset ended.
        if half.queue_offset not in ended and _offset(half, keys.TRAN_PREPARED_QUEUE_OFFSET) not in ended:
            pending.add(half.queue_offset)
    return len(pending), batched


def _offset(message: PendingMessage, key: str) -> int:
    offset = whole_number(message.properties.get(key))
    return -1 if offset is None else offset


# ---- pop


async def _take_revive_log(
    messages: MessageSource, offsets: dict[str, dict[int, int]], topic: str, queue_id: int, marks: PopMarks
) -> None:
    seen = _committed(offsets, topic, REVIVE_GROUP, queue_id)
    async for mark in messages.after(topic, queue_id, 0 if seen is None else seen + 1):
        marks.add(mark.properties.get(keys.TAGS, ""), mark.body)


# ---- timers


class _Timers:
    """Counts timed messages, and passes those of the revive log to `PopMarks`."""

    def __init__(self, disk: Disk, messages: MessageSource, marks: PopMarks) -> None:
        self._disk = disk
        self._messages = messages
        self._marks = marks
        self._is_mark: dict[int, bool] = {}
        """Whether topics of a hash are the revive log: one message of each is looked at."""

    async def count(self) -> int:
        """Timed messages that wait for their time."""
        check = await read_check(self._disk)
        count = 0
        not_set_out: set[int] = set()
        for queue_id in await self._messages.queues(TIMER_TOPIC):
            async for message in self._messages.after(TIMER_TOPIC, queue_id, check.queue_offset):
                not_set_out.add(message.physical)
                if keys.TIMER_DEL_UNIQKEY not in message.properties:
                    count += not self._took(message)
        log = TimerLog(self._disk, TIMER_LOG_BYTES)
        await log.load()
        try:
            for slot in await slots_due(self._disk, log, check):
                timers = await timers_of(log, slot)
                if timers is None:
                    count += max(slot.number, 0)
                    continue
                for timer in timers:
                    # After a crash the wheel may be ahead of the checkpoint.
                    count += timer.physical not in not_set_out and await self._waits(timer)
        finally:
            log.close()
        return count

    async def hold_marks(self) -> bool:
        """Whether a message of the revive log is among the timed messages, pending or not. Nothing is counted."""
        check = await read_check(self._disk)
        for queue_id in await self._messages.queues(TIMER_TOPIC):
            async for message in self._messages.after(TIMER_TOPIC, queue_id, check.queue_offset):
                if _is_mark(message):
                    return True
        log = TimerLog(self._disk, TIMER_LOG_BYTES)
        await log.load()
        try:
            return await self._units_hold_marks(log)
        finally:
            log.close()

    async def _units_hold_marks(self, log: TimerLog) -> bool:
        known: set[int] = set()
        async for timers in columns_of(log):
            for hashed in sorted(set(timers.topic_hashes) - known):
                places = zip(timers.topic_hashes, timers.physicals, timers.sizes, strict=True)
                for topic_hash, physical, size in places:
                    # A record that was deleted for its age tells nothing: the next one of its topic is looked at.
                    if topic_hash != hashed or size <= 0:
                        continue
                    if (message := await self._messages.at(physical, size)) is not None:
                        if _is_mark(message):
                            return True
                        known.add(hashed)
                        break
        return False

    async def _waits(self, timer: Timer) -> bool:
        """Whether the message of a timer exists and does not belong to the revive log."""
        if self._is_mark.get(timer.topic_hash) is False:
            return timer.physical >= self._messages.log_start
        message = await self._messages.at(timer.physical, timer.size)
        if message is None:
            return False
        self._is_mark[timer.topic_hash] = took = self._took(message)
        return not took

    def _took(self, message: PendingMessage) -> bool:
        """Pass a message of the revive log to `PopMarks`; return whether it was one."""
        if not _is_mark(message):
            return False
        self._marks.add(message.properties.get(keys.TAGS, ""), message.body)
        return True


def _is_mark(message: PendingMessage) -> bool:
    """Whether a timed message is one of the revive log."""
    return message.properties.get(keys.REAL_TOPIC, "").startswith(REVIVE_LOG_PREFIX)

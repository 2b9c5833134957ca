"""The timer files of an open store: messages are added to slots, slots are read and emptied, all of it is flushed.

Order of a flush: the commit log (records and deliveries), the timer log, the wheel, the checkpoint. So a checkpoint
never counts a message as delivered or added that a power loss can take away, and the wheel never names a lost unit.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from firearrow.errors import DiskError, NotNow
from firearrow.model import PhysicalOffset
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Pace
from firearrow.store.timer.chain import Chain, read_chain
from firearrow.store.timer.config import TimerConfig
from firearrow.store.timer.layout import (
    CHECK_BYTES,
    DELETES,
    MAGIC,
    NO_POSITION,
    ROLLS,
    UNIT,
    UNIT_BYTES,
    Slot,
    SlotTime,
    TimerCheck,
    slot_span,
)
from firearrow.store.timer.places import free_span
from firearrow.store.timer.recovery import (
    CHECK_PATH,
    NEVER_MS,
    load_snapshot,
    precision_of,
    read_check,
    recover,
    snapshots,
)
from firearrow.store.timer.timer_log import TimerLog
from firearrow.store.timer.way import times_below
from firearrow.store.timer.wheel import PAGES_AT_ONCE, PATH, Wheel

CONFIG: Final = "config"
_TIMES_ENOUGH: Final = 4096
"""Slots from which the precision of a wheel is told."""

_pack_unit = UNIT.pack


class TimedMessage(NamedTuple):
    """A message to be added to the wheel."""

    due_ms: int
    """The time of its slot, a multiple of the precision."""
    physical: int
    size: int
    topic_hash: int
    deletes: bool = False
    exact_ms: int = 0
    topic: str = ""


async def keep_copied_check(disk: Disk, master: TimerCheck) -> None:
    """Write the checkpoint of a slave: how far its master is, and that no wheel is kept here."""
    check = replace(master, log_end=0, queue_offset=0, master_offset=master.queue_offset)
    disk.make_directory(CONFIG)
    await disk.replace(CHECK_PATH, check.encode().ljust(CHECK_BYTES, b"\0"))


class TimerFiles:
    """Timer log, wheel and checkpoint of one store."""

    def __init__(self, disk: Disk, config: TimerConfig, log: TimerLog, wheel: Wheel, check: TimerCheck) -> None:
        self._disk = disk
        self.config = config
        self.log = log
        self.wheel = wheel
        self.check = check
        """The checkpoint as last written."""
        self.precision_ms = config.timer_precision_ms
        self.read_ms = check.read_ms
        """The first slot that is not delivered."""
        self.queue_offset = check.queue_offset
        """The first entry of the timers' queue that is not in the wheel."""
        self.is_short = False
        """Whether the disk had no room for the next messages of the queue."""
        self.in_log: frozenset[int] = frozenset()
        """Messages from the checkpoint's entry on, by physical offset, that are in the wheel already."""
        self.added_ms = NEVER_MS
        """The earliest slot that got a message since somebody set this to `NEVER_MS`."""
        self.copied_offset = check.master_offset if check.is_copied else 0
        """Entries of the timers' queue below were in the wheel of the master that this store was a copy of."""
        self.copied_ms = check.read_ms
        """Slots below were delivered by that master."""
        self.renewed = 0
        """Units of records below this physical offset count as delivered: their messages were stored again."""
        self.renewing = 0
        """Messages from `renewed` to here are being stored again; whether that succeeds is not known yet."""
        self._stale_snapshots: list[int] = []
        self.window_slots = config.window_slots
        """Slots up to which a message goes to its own slot."""

    @classmethod
    async def open(
        cls,
        disk: Disk,
        config: TimerConfig,
        now_ms: int,
        *,
        log_tail: int,
        entry_at: Callable[[int], PhysicalOffset],
    ) -> "TimerFiles":
        """Open and recover the timer files. ``entry_at`` returns the physical offset of an entry of the queue."""
        check = await read_check(disk)
        log = TimerLog(disk, config.mapped_file_size_timer_log)
        await log.load(check.log_end)
        wheel = Wheel(disk, config.timer_precision_ms)
        snapshot = await load_snapshot(disk, wheel)
        await _refuse_other_precision(wheel, check.read_ms or now_ms)
        covered = snapshot if snapshot is not None else 0 if wheel.is_new else check.log_end
        offset = min(check.queue_offset, check.master_offset)
        found = await recover(
            log, wheel, check, covered=min(covered, log.end), log_tail=log_tail, asked_from=entry_at(offset)
        )
        await log.cut(found.end)
        files = cls(disk, config, log, wheel, check)
        files.queue_offset = offset
        files.in_log = found.in_log
        files.read_ms = min(check.read_ms or files.floor(now_ms), found.first_ms)
        files._stale_snapshots = await snapshots(disk)
        return files

    def was_delivered(self, queue_offset: int, due_ms: int) -> bool:
        """Whether the master that this store was a copy of has delivered an entry of the timers' queue."""
        return queue_offset < self.copied_offset and due_ms < self.copied_ms

    def floor(self, time_ms: int) -> int:
        """Return the start of the slot of a time."""
        return time_ms - time_ms % self.precision_ms

    # ---- slots

    def add(self, messages: list[TimedMessage], now_ms: int) -> None:
        """Add messages to their slots, in order; none when the timer log cannot be written."""
        log, wheel, written_ms = self.log, self.wheel, self.floor(now_ms)
        units = []
        position = log.end
        touched: dict[int, Slot | None] = {}
        try:
            for message in messages:
                position = log.next_position(position)
                span = self._span(message.due_ms, written_ms)
                if span.due_ms not in touched:
                    touched[span.due_ms] = wheel.get(span.due_ms)
                before = wheel.add(span.due_ms, position, deletes=message.deletes)
                units.append(_unit(message, span, before, written_ms))
                position += UNIT_BYTES
            log.append(units)
        except BaseException:
            for due_ms, slot in touched.items():  # the wheel must not name units that are not in the log
                wheel.restore(due_ms, slot)
            raise
        # Slots before `read_ms` are delivered and empty: overdue messages use them again.
        self.read_ms = min(self.read_ms, *touched)
        self.added_ms = min(self.added_ms, *touched)

    def span(self, due_ms: int, now_ms: int) -> SlotTime | None:
        """Return the slot that a message goes to; None when no place near it is free."""
        return free_span(self.wheel, due_ms, self.floor(now_ms), self.window_slots, self.precision_ms)

    def own_span(self, due_ms: int, now_ms: int) -> SlotTime:
        """Return the slot of a message if its place is free."""
        return slot_span(due_ms, self.floor(now_ms), self.window_slots, self.precision_ms)

    def _span(self, due_ms: int, written_ms: int) -> SlotTime:
        span = self.span(due_ms, written_ms)
        if span is None:
            raise DiskError(f"the timer wheel has no free place for messages of {due_ms} ms after 1970 and near it")
        return span

    async def chain(self, slot: Slot, after: int = NO_POSITION) -> Chain:
        """Return the units of a slot behind a position of the timer log, oldest first."""
        return await read_chain(self.log, slot, self.precision_ms, after)

    def overdue(self, until_ms: int) -> AsyncIterator[int]:
        """Return the times of all slots with units before ``until_ms``, ascending. For a long way to go."""
        return times_below(self.wheel, until_ms)

    # ---- flush

    @property
    def is_changed(self) -> bool:
        """Whether a flush would write more than the time of the next slot."""
        return self.log.end != self.log.synced or self.wheel.is_changed or self.queue_offset != self.check.queue_offset

    async def flush(self, commit_log_durable: Callable[[], Awaitable[None]], now_ms: int) -> None:
        """Make everything up to now durable, in order."""
        read_ms, queue_offset, end = self.read_ms, self.queue_offset, self.log.end
        pages = self.wheel.take_changed()
        try:
            await commit_log_durable()
            await self.log.sync()
            await self.wheel.write(pages)
            old = self.check
            check = TimerCheck(read_ms, end, queue_offset, queue_offset, old.state_version, now_ms, old.counter + 1)
            await self._write_check(check)
        except BaseException:
            self.wheel.give_back(pages)
            raise
        self.check = check
        while self._stale_snapshots:
            await self._disk.unlink(f"{PATH}.{self._stale_snapshots.pop()}")

    async def _write_check(self, check: TimerCheck) -> None:
        self._disk.make_directory(CONFIG)
        await self._disk.replace(CHECK_PATH, check.encode().ljust(CHECK_BYTES, b"\0"))

    def close(self) -> None:
        """Close every file. Data that is not flushed is recovered at the next start."""
        self.log.close()
        self.wheel.close()


def _unit(message: TimedMessage, span: SlotTime, before: int, written_ms: int) -> bytes:
    # An overdue message counts as written in its slot: a broker may be down for longer than the 24 days of an int.
    written_ms = min(written_ms, span.due_ms)
    return _pack_unit(
        UNIT_BYTES,
        before,
        MAGIC | ROLLS * span.rolls | DELETES * message.deletes,
        written_ms,
        span.due_ms - written_ms,
        message.physical,
        message.size,
        message.topic_hash,
        message.exact_ms,
    )


async def _refuse_other_precision(wheel: Wheel, near_ms: int) -> None:
    pace = Pace(PAGES_AT_ONCE)
    times: list[int] = []
    for number in await wheel.used_pages():
        times += [slot.time for slot in wheel.slots_of_page(number)]
        if len(times) > _TIMES_ENOUGH:
            break
        await pace.did()
    found = precision_of(times, near_ms)
    if found is not None and found != wheel.precision_ms:
        raise NotNow(
            f"the timer wheel was written with timerPrecisionMs={found}, and this broker has "
            f"timerPrecisionMs={wheel.precision_ms}: start it with {found} until no timed message is pending, then "
            "change the setting and remove the file timerwheel"
        )

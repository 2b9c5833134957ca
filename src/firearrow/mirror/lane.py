"""Copies one queue: pulls, sends, notes.

One batch is in flight at a time, so that copies lie in the order of their messages whatever fails. A request that
failed is repeated until it succeeds, with a growing back-off; only an error that no repetition mends ends the mirror. A
topic or broker that permits no reads is waited for too, because its owner can permit them; a run that ends at the
present end leaves the queue out. A batch whose answer was lost is sent again with the same identities: our
brokers store it once, Apache's twice.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from firearrow.client import PulledBytes, PullStatus
from firearrow.client.consumer.log_consumer import LogConsumer
from firearrow.client.consumer.pull_consumer import LARGE_BYTES, LARGE_MESSAGES, PullConsumer
from firearrow.client.producer.encoded import BatchProducer
from firearrow.errors import (
    AccessDenied,
    BadBody,
    FireArrowError,
    IllegalMessage,
    NotNow,
    RequestRefused,
    SettingsError,
)
from firearrow.mirror.copies import CopyParcel, MessageCopy, Names, copy_of, messages_of, original_of, parcels
from firearrow.mirror.marks import QueueMark
from firearrow.mirror.progress import MirrorProgress, SourceProgress
from firearrow.mirror.target_tail import TargetTail
from firearrow.model import MessageQueue, StoredMessage
from firearrow.protocol.codes import ResponseCode
from firearrow.record.decode import peek
from firearrow.runtime.clock import Clock
from firearrow.telemetry.damped import Trouble

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

FIRST: Final = "first"
WAIT_MS: Final = 15_000
TIMEOUT_MS: Final = 30_000
CATCH_UP: Final = 256
"""A queue with more messages to copy is read with several pulls in flight."""
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
EMPTY_PAUSE_S: Final = 0.05
BACKWARD_S: Final = 60.0
"""Seconds for which a source queue may seem to end before the mark: a slave may be behind its lost master."""
_MENDED_LATER: Final = frozenset(
    {int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.SYSTEM_ERROR), int(ResponseCode.SERVICE_NOT_AVAILABLE)}
    | {int(ResponseCode.GO_AWAY)}
)


class Manner:
    """The settings by which a mirror copies, the same for all its queues."""

    def __init__(self, names: Names, *, start: str, born_spread_ms: int, skips_damaged: bool) -> None:
        self.names: Final = names
        self.start: Final = start
        self.born_spread_ms: Final = born_spread_ms
        self.skips_damaged: Final = skips_damaged


class MirrorClients:
    """The clients of a mirror, and what it needs beside them."""

    def __init__(
        self,
        clients: tuple[LogConsumer, BatchProducer, PullConsumer],
        clock: Clock,
        chance: random.Random,
        save: Callable[[], Awaitable[None]],
    ) -> None:
        self.source, self.target, self.reader = clients
        """The last one reads at the target what answers to sends do not tell."""
        self.clock: Final = clock
        self.chance: Final = chance
        self.save: Final = save
        """Makes the marks durable."""


class MirrorLane:
    """One source queue on its way to one target queue."""

    def __init__(self, mark: QueueMark, manner: Manner, ends: MirrorClients, progress: MirrorProgress) -> None:
        self._mark = mark
        self._manner = manner
        self._ends = ends
        self._state: SourceProgress = progress.of(mark.source)
        self._tail = TargetTail(mark, manner.names.source, ends.reader)
        self._trouble = Trouble(log)
        self._backward_since: float | None = None
        self._waits_for_permission = True

    async def run(self, *, once: bool) -> None:
        """Copy until the present end, or for good; raise ``QueueClosed`` before that end if reads are forbidden."""
        mark, state = self._mark, self._state
        self._waits_for_permission = not once
        if mark.next is None:
            mark.next = await self._patiently(self._first_offset)
            mark.is_dirty = True
        await self._patiently(self._tail.begin)
        if mark.is_dirty:
            await self._ends.save()
        state.next, end = mark.next, None
        state.progress_ms = self._ends.clock.now_ms()
        while True:
            pulled = await self._patiently(lambda: self._pull(0 if once else WAIT_MS))
            await self._patiently(self._require_same_queue)
            end = pulled.max_offset if end is None else end
            before = mark.next
            await self._take(pulled)
            if once and mark.next >= end:
                return
            if state.lag > CATCH_UP:
                await self._patiently(self._catch_up)
            elif mark.next == before:
                await asyncio.sleep(EMPTY_PAUSE_S)  # some answers without messages come at once

    async def _first_offset(self) -> int:
        held = (await self._ends.source.held_queues(self._mark.source.topic)).get(self._mark.source)
        if held is None:
            return 0
        return held.bounds.first if self._manner.start == FIRST else held.bounds.end

    async def _pull(self, wait_ms: int) -> PulledBytes:
        assert self._mark.next is not None
        try:
            pulled = await self._ends.source.pull_bytes(
                self._mark.source,
                self._mark.next,
                max_messages=LARGE_MESSAGES,
                max_bytes=LARGE_BYTES,
                wait_ms=wait_ms,
                timeout_ms=TIMEOUT_MS,
            )
        except RequestRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                raise TopicGone(f"the source says: {refusal.remark}") from refusal
            raise
        self._check_end(pulled)
        return pulled

    def _check_end(self, pulled: PulledBytes) -> None:
        """Raise ``NotNow`` if the queue ends before the mark."""
        next_offset, now = self._mark.next or 0, asyncio.get_running_loop().time()
        if pulled.max_offset >= next_offset:
            self._backward_since = None
            return
        if self._backward_since is None:
            self._backward_since = now
        source = self._mark.source
        raise _Backward(
            f"queue {source.broker_name}:{source.queue_id} of {source.topic!r} was copied up to offset {next_offset}, "
            f"but ends at {pulled.max_offset} now: the topic was made anew, or its broker has lost messages; to copy "
            f"it anew, remove {source.topic}.json from the --state directory",
            is_final=now - self._backward_since > BACKWARD_S,
        )

    async def _require_same_queue(self) -> None:
        """Raise unless the message before the mark is the one that was copied."""
        last_ms, last_place = self._mark.last
        if not last_ms or not self._mark.next:
            return
        source, place = self._mark.source, self._mark.next - 1
        pulled = await self._ends.source.pull_bytes(source, place, max_messages=1, timeout_ms=TIMEOUT_MS)
        if pulled.status is not PullStatus.FOUND or not pulled.body:
            return  # retention has deleted it, or the queue ends before it, which `_check_end` tells
        head = peek(pulled.body)
        if head.queue_offset == place and (head.store_timestamp, head.physical_offset) != (last_ms, last_place):
            raise made_anew(source, self._mark.next)

    async def _catch_up(self) -> None:
        """Copy a backlog, with several pulls in flight."""
        begin, end = self._mark.next or 0, self._state.end
        async with aclosing(self._ends.source.pull_range(self._mark.source, begin, end)) as answers:
            async for pulled in answers:
                await self._take(pulled)

    async def _take(self, pulled: PulledBytes) -> None:
        mark, state = self._mark, self._state
        assert mark.next is not None
        if pulled.status is PullStatus.FOUND:
            state.end = max(state.end, pulled.max_offset)
            messages = [each for each in messages_of(pulled) if each.queue_offset >= mark.next]
            if messages:
                await self._copy(messages, mark.next)
        elif pulled.next_offset > mark.next:
            mark.last = (0, 0)
            if pulled.status is PullStatus.OFFSET_MOVED:
                state.missed += pulled.next_offset - mark.next
        if pulled.next_offset > mark.next:
            mark.next = pulled.next_offset
            mark.is_dirty = True
        state.next, state.end = mark.next, pulled.max_offset
        state.progress_ms = self._ends.clock.now_ms()

    async def _copy(self, messages: Sequence[StoredMessage], wanted: int) -> None:
        """Copy messages, the first of which should have the offset ``wanted``; raise if one ends the mirror."""
        state, first, last = self._state, messages[0], messages[-1]
        state.missed += first.queue_offset - wanted
        state.stored_ms = first.store_timestamp
        copies, fault = self._copies(messages)
        for parcel in parcels(copies, self._manner.born_spread_ms):
            await self._send(parcel)
        if fault is not None:
            raise fault
        state.read += len(messages)
        state.stored_ms = last.store_timestamp
        self._mark.last = (last.store_timestamp, last.physical_offset)

    def _copies(self, messages: Iterable[StoredMessage]) -> tuple[list[MessageCopy], FireArrowError | None]:
        """Return the copies of messages, up to one that ends the mirror, and why it does."""
        names, queue = self._manner.names, self._mark.source
        copies: list[MessageCopy] = []
        for stored in messages:
            try:
                if stored.body_fault:
                    raise BadBody(f"is damaged at the source: {stored.body_fault}")
                copy = copy_of(stored, queue, names)
            except (BadBody, IllegalMessage) as wrong:
                fault = self._left_out(stored, wrong)
                if fault is not None:
                    return copies, fault
                continue
            if copy is None:
                self._looped(stored)
            else:
                copies.append(copy)
        return copies, None

    def _looped(self, stored: StoredMessage) -> None:
        mark = self._mark
        self._state.looped += 1
        original = original_of(stored, mark.target, self._manner.names.target)
        if original is not None:
            mark.loops.note(stored.queue_offset, original.offset, original.stored_ms)

    def _left_out(self, stored: StoredMessage, wrong: FireArrowError) -> FireArrowError | None:
        """Leave a message out if that is wanted; else return the error that ends the mirror."""
        queue = self._mark.source
        text = (
            f"the message at offset {stored.queue_offset} of queue {queue.broker_name}:{queue.queue_id} of "
            f"{queue.topic!r} {wrong}"
        )
        if not self._manner.skips_damaged:
            return type(wrong)(f"{text}; --skip-damaged leaves such messages out")
        self._state.damaged += 1
        log.warning("%s; it is left out", text, extra={"topic": queue.topic, "offset": stored.queue_offset})
        return None

    async def _send(self, parcel: CopyParcel) -> None:
        mark, offsets, failed = self._mark, parcel.source_offsets, self._state.retries
        _, first = await self._patiently(lambda: self._ends.target.store(parcel.content, mark.target))
        is_first_try = self._state.retries == failed
        if not await self._patiently(lambda: self._tail.tells(first, offsets, is_first_try=is_first_try)):
            self._note(offsets, first)
        mark.next = offsets[-1] + 1
        mark.is_dirty = True
        self._state.copied += len(offsets)
        self._state.next = mark.next

    def _note(self, offsets: tuple[int, ...], first: int) -> None:
        """Note copies that lie one after the other at the target."""
        begin = 0
        for number in range(1, len(offsets) + 1):
            if number == len(offsets) or offsets[number] != offsets[number - 1] + 1:
                self._noted(offsets[begin], first + begin, number - begin)
                begin = number

    def _noted(self, source: int, target: int, count: int) -> None:
        lost = self._mark.map.note(source, target, count)
        if lost:
            self._mark.loops.cut(target)
            where = self._mark.target
            log.warning(
                "queue %s:%d of %s at the target ended %d messages before what was copied: it was made anew, or its "
                "broker has lost messages",
                where.broker_name, where.queue_id, where.topic, lost,
                extra={"topic": where.topic, "lost": lost},
            )  # fmt: skip

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something until it succeeds; raise an error that no repetition mends."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                found = await work()
            except FireArrowError as failure:
                error = self._named(failure)
                if not is_mended_later(error):
                    raise error from failure
                self._state.retries += 1
                self._state.is_waiting = True
                queue, now = self._mark.source, asyncio.get_running_loop().time()
                what, extra = "queue %s waits: %s", {"queue": str(queue), "reason": str(error)}
                self._trouble.say(now, str(queue), what, queue, error, **extra)
            else:
                self._state.is_waiting = False
                return found
            await asyncio.sleep(pause_s * self._ends.chance.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _named(self, error: FireArrowError) -> FireArrowError:
        """Return the error of a request with the queue's name and, if its owner can mend it, what to do."""
        if not isinstance(error, RequestRefused) or is_mended_later(error):
            return error
        queue = self._mark.source
        if error.code == ResponseCode.NO_PERMISSION and not isinstance(error, AccessDenied):
            return QueueClosed(
                f"the source says: {error.remark}; permit reads: firearrow topic update {queue.topic} --broker "
                f"{queue.broker_name} --perm rw (or the broker's brokerPermission)",
                is_waited_for=self._waits_for_permission,
            )
        where = f"queue {queue.broker_name}:{queue.queue_id} of {queue.topic!r}"
        return type(error)(error.code, error.remark, asked=f"{error.asked} for {where}", address=error.address)


def made_anew(queue: MessageQueue, next_offset: int) -> FireArrowError:
    """Return the error for a source queue that is not the one that was copied."""
    return SettingsError(
        f"queue {queue.broker_name}:{queue.queue_id} of {queue.topic!r} was copied up to offset {next_offset}, but the "
        "topic was made anew since, or its broker has lost its store: other messages stand there; to copy it anew, "
        f"remove {queue.topic}.json from the --state directory"
    )


class TopicGone(FireArrowError):
    """The topic of a queue is no longer at the source. Ends the lane, not the mirror."""


class QueueClosed(NotNow):
    """The source permits no reads of a queue until its owner changes that."""

    def __init__(self, text: str, *, is_waited_for: bool) -> None:
        super().__init__(text)
        self.retryable = is_waited_for


class _Backward(NotNow):
    """The source queue ends before the mark."""

    def __init__(self, text: str, *, is_final: bool) -> None:
        super().__init__(text)
        self.retryable = not is_final


def is_mended_later(error: FireArrowError) -> bool:
    """Whether a request is worth repeating."""
    if isinstance(error, RequestRefused):
        return error.retryable or error.code in _MENDED_LATER
    return error.retryable

"""Copies one queue: pulls, sends, notes.

One batch is in flight at a time, so that copies lie in the order of their messages whatever fails. A request that
failed is repeated until it succeeds, with a growing back-off; only an error that no repetition mends ends the mirror. A
batch whose answer was lost is sent again with the same identities: our brokers store it once, Apache's twice.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final, TypeVar

from firearrow.client import PulledBytes, PullStatus
from firearrow.client.consumer.pull_consumer import LARGE_BYTES, LARGE_MESSAGES, PullConsumer
from firearrow.client.producer.encoded import BatchProducer
from firearrow.client.trouble import Trouble
from firearrow.errors import BadBody, BadRecord, FireArrowError, NotNow, RequestRefused
from firearrow.mirror.copies import Names, Parcel, copy_of, parcels
from firearrow.mirror.marks import QueueMark
from firearrow.mirror.progress import Progress, QueueProgress
from firearrow.model import StoredMessage
from firearrow.model.flags import is_wrapped_batch
from firearrow.protocol.codes import ResponseCode
from firearrow.record.decode import decode_all
from firearrow.runtime.clock import Clock

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
"""How long a source queue may seem to end before the mark: a slave may be behind its lost master for a while."""
_MENDED_LATER: Final = frozenset(
    {int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.SYSTEM_ERROR), int(ResponseCode.SERVICE_NOT_AVAILABLE)}
    | {int(ResponseCode.GO_AWAY)}
)


class Manner:
    """How a mirror copies, the same for all its queues."""

    def __init__(self, names: Names, *, start: str, born_spread_ms: int, skips_damaged: bool) -> None:
        self.names: Final = names
        self.start: Final = start
        self.born_spread_ms: Final = born_spread_ms
        self.skips_damaged: Final = skips_damaged


class Ends:
    """The two clients of a mirror, and what it needs beside them."""

    def __init__(self, source: PullConsumer, target: BatchProducer, clock: Clock, chance: random.Random) -> None:
        self.source: Final = source
        self.target: Final = target
        self.clock: Final = clock
        self.chance: Final = chance


class Lane:
    """One source queue on its way to one target queue."""

    def __init__(self, mark: QueueMark, manner: Manner, ends: Ends, progress: Progress) -> None:
        self._mark = mark
        self._manner = manner
        self._ends = ends
        self._all = progress
        self._state: QueueProgress = progress.of(mark.source)
        self._trouble = Trouble(log)
        self._backward_since: float | None = None

    async def run(self, *, once: bool) -> None:
        """Copy until the present end, or for good."""
        mark, state = self._mark, self._state
        if mark.next is None:
            mark.next = await self._patiently(self._first_offset)
            mark.is_dirty = True
        state.next, end = mark.next, None
        while True:
            pulled = await self._patiently(lambda: self._pull(0 if once else WAIT_MS))
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
        bounds = (await self._ends.source.bounds(self._mark.source.topic)).get(self._mark.source)
        if bounds is None:
            return 0
        return bounds.first if self._manner.start == FIRST else bounds.end

    async def _pull(self, wait_ms: int) -> PulledBytes:
        assert self._mark.next is not None
        pulled = await self._ends.source.pull_bytes(
            self._mark.source,
            self._mark.next,
            max_messages=LARGE_MESSAGES,
            max_bytes=LARGE_BYTES,
            wait_ms=wait_ms,
            timeout_ms=TIMEOUT_MS,
        )
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
            messages = [each for each in messages_of(pulled) if each.queue_offset >= mark.next]
            if messages and messages[0].queue_offset > mark.next:
                state.missed += messages[0].queue_offset - mark.next
            for parcel in self._parcels(messages):
                await self._send(parcel)
            state.read += len(messages)
            if messages:
                state.stored_ms = messages[-1].store_timestamp
        elif pulled.status is PullStatus.OFFSET_MOVED and pulled.next_offset > mark.next:
            state.missed += pulled.next_offset - mark.next
        if pulled.next_offset > mark.next:
            mark.next = pulled.next_offset
            mark.is_dirty = True
        state.next, state.end = mark.next, pulled.max_offset
        self._all.progress_ms = self._ends.clock.now_ms()

    def _parcels(self, messages: Iterable[StoredMessage]) -> Iterable[Parcel]:
        names, queue = self._manner.names, self._mark.source
        copies = []
        for stored in messages:
            if stored.body_fault:
                self._damaged(stored)
                continue
            copy = copy_of(stored, queue, names)
            if copy is None:
                self._state.looped += 1
            else:
                copies.append(copy)
        return parcels(copies, self._manner.born_spread_ms)

    def _damaged(self, stored: StoredMessage) -> None:
        queue = self._mark.source
        text = (
            f"the message at offset {stored.queue_offset} of queue {queue.broker_name}:{queue.queue_id} of "
            f"{queue.topic!r} is damaged at the source: {stored.body_fault}"
        )
        if not self._manner.skips_damaged:
            raise BadBody(f"{text}; --skip-damaged leaves such messages out")
        self._state.damaged += 1
        log.warning("%s; it is left out", text, extra={"topic": queue.topic, "offset": stored.queue_offset})

    async def _send(self, parcel: Parcel) -> None:
        mark, offsets = self._mark, parcel.source_offsets
        _, first = await self._patiently(lambda: self._ends.target.store(parcel.content, mark.target))
        begin = 0
        for number in range(1, len(offsets) + 1):
            if number == len(offsets) or offsets[number] != offsets[number - 1] + 1:
                self._noted(offsets[begin], first + begin, number - begin)
                begin = number
        mark.next = offsets[-1] + 1
        mark.is_dirty = True
        self._state.copied += len(offsets)
        self._state.next = mark.next

    def _noted(self, source: int, target: int, count: int) -> None:
        lost = self._mark.map.note(source, target, count)
        if lost:
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
                return await work()
            except FireArrowError as error:
                if not is_mended_later(error):
                    raise
                self._state.retries += 1
                queue, now = self._mark.source, asyncio.get_running_loop().time()
                what, extra = "queue %s waits: %s", {"queue": str(queue), "reason": str(error)}
                self._trouble.say(now, str(queue), what, queue, error, **extra)
            await asyncio.sleep(pause_s * self._ends.chance.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class _Backward(NotNow):
    """The source queue ends before the mark."""

    def __init__(self, text: str, *, is_final: bool) -> None:
        super().__init__(text)
        self.retryable = not is_final


def is_mended_later(error: FireArrowError) -> bool:
    """Whether a request is worth repeating."""
    if isinstance(error, RequestRefused):
        return error.code in _MENDED_LATER
    return error.retryable


def messages_of(pulled: PulledBytes) -> list[StoredMessage]:
    """Return the messages of an answer with their bodies as they are stored; batches in one record are taken apart."""
    try:
        found = list(decode_all(pulled.body, max_body_bytes=None, keep_bad_bodies=True))
    except BadRecord as wrong:
        raise BadBody(f"an answer of the source cannot be read: {wrong}") from wrong
    return pulled.messages() if any(is_wrapped_batch(each.sys_flag) for each in found) else found

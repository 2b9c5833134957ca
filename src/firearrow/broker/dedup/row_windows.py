"""The windows of a broker's queues, as sends use them.

A send with rows asks `find` for first copies and tells `stored` what it appended; both in one turn of the loop, so no
other send comes between. A queue whose window is not rebuilt yet makes the send wait (`is_ready`, `when_ready`).

A row that is delayed is stored in a queue of delayed messages and counts as a row of its own queue: one window of all
delayed rows is looked at beside that of the queue. It remembers a row also after its delivery. A row of a topic that
was deleted is forgotten with it, for as long as this broker remembers the deletion (`TableChanges`). After a restart or
a failover it counts again: then a row of the topic's next life that has its identity and body is taken for a repeat,
and not stored.

Up to `REBUILT_AT_ONCE` windows are rebuilt at the same time, so the rows of one queue rarely wait for the window of
another. All wait for the window of delayed rows, which is read once, before the first of them.

A row with the identity of another one of its queue and with another body is stored: whoever may send to a topic could
otherwise keep out the rows of others. It is counted and logged.

A row whose record is taken back by a failed write is forgotten before its sender hears of it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from firearrow.broker.dedup.queue_tail import rows_at_end
from firearrow.broker.dedup.row_identity import key_in_queue
from firearrow.broker.dedup.window import FirstCopies, FirstCopy, IdentityWindow, WindowBounds, Windows
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import BrokenInvariant, FireArrowError, StoreFenced
from firearrow.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.store.placement import WRITTEN
from firearrow.store.store import Store
from firearrow.telemetry.damped import DampedEvents

Queue = tuple[str, int]
OnReady = Callable[[Exception | None], None]
TIMER_QUEUE: Final = 0
REBUILT_AT_ONCE: Final = 4

log = logging.getLogger(__name__)


class RowWindows:
    """Finds repeated rows."""

    def __init__(
        self, *, settings: LiveSettings, store: Store, clock: Clock, changes: TableChanges, topics: TopicBook
    ) -> None:
        config = settings.value.dedup
        self._store = store
        self._clock = clock
        self._bounds = WindowBounds(config.dedup_window_count, config.dedup_window_ms)
        self._levels = len(settings.broker.delays_ms)
        self.all: Final = Windows(self._bounds, config.dedup_max_identities)
        self._ready: dict[Queue, IdentityWindow] = {}
        self._delayed: IdentityWindow | None = None
        self._delayed_rows = 0
        self._reads_delayed = asyncio.Lock()
        self._turns = asyncio.Semaphore(REBUILT_AT_ONCE)
        self._waiting: dict[Queue, list[OnReady]] = {}
        self._begun: set[Queue] = set()
        self._wanted = asyncio.Event()
        self._closed = False
        self._changes = changes
        self.repeats = 0
        """Number of rows that were not stored because their queue had them."""
        self.other_bodies: Final = DampedEvents()
        """Rows that were stored beside one of the same identity, because their bodies differ."""
        topics.on_deleted.append(self._forget_topic)

    @property
    def are_on(self) -> bool:
        """Whether rows are remembered at all."""
        return self._bounds.count > 0

    # ---- rebuilding

    def is_ready(self, topic: str, queue_id: int) -> bool:
        """Whether the window of a queue is rebuilt."""
        return (topic, queue_id) in self._ready

    def when_ready(self, topic: str, queue_id: int, call: OnReady) -> None:
        """Call ``call`` once the window of a queue is rebuilt, or with the error that prevents it."""
        if self._closed:
            call(_stopping())
            return
        self._waiting.setdefault((topic, queue_id), []).append(call)
        self._wanted.set()

    async def run(self) -> None:
        """Rebuild windows that are asked for, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await self._wanted.wait()
                    self._wanted.clear()
                    for queue in [queue for queue in self._waiting if queue not in self._begun]:
                        self._begun.add(queue)
                        tasks.create_task(self._serve(queue))
        finally:
            self._closed = True
            for calls in list(self._waiting.values()):
                for call in calls:
                    call(_stopping())

    async def _serve(self, queue: Queue) -> None:
        error = None
        try:
            async with self._turns:
                await self._rebuild(queue)
        except BrokenInvariant:
            raise
        except Exception as wrong:  # noqa: BLE001 - those who wait are told, and the other queues are served
            error = wrong
        self._begun.discard(queue)
        for call in self._waiting.pop(queue):
            call(error)

    async def _rebuild(self, queue: Queue) -> None:
        async with self._reads_delayed:
            if self._delayed is None:
                self._delayed = await self._read_delayed()
        window, queues = IdentityWindow(), self._store.queues
        try:
            read = None
            while read is None or read is not queues.find(*queue):  # the topic may have been deleted meanwhile
                read = queues.tail_of(*queue)
                self.all.drop(window)
                await self._fold(window, queue, lambda copy: copy.queue_offset)
        except BaseException:
            self.all.drop(window)
            raise
        self._ready[queue] = window

    async def _read_delayed(self) -> IdentityWindow:
        delayed = IdentityWindow()
        try:
            for place in [*((SCHEDULE_TOPIC, level) for level in range(self._levels)), (TIMER_TOPIC, TIMER_QUEUE)]:
                await self._fold(delayed, place, self._next_delayed)
        except BaseException:
            self.all.drop(delayed)
            raise
        return delayed

    async def _fold(self, window: IdentityWindow, queue: Queue, position_of: Callable[[FirstCopy], int]) -> None:
        life_of = self._changes.life_begins_at
        async for rows in rows_at_end(self._store, *queue, self._bounds, self._clock.now_ms(), life_of):
            for row in rows:
                if not window.knows(row.key, row.copy.body_crc):
                    self.all.add(window, row.key, row.copy, position_of(row.copy), row.store_ms)

    def _next_delayed(self, _copy: FirstCopy) -> int:
        """Return the position of the next delayed row: they are counted, because they come from many queues."""
        self._delayed_rows += 1
        return self._delayed_rows

    def _forget_topic(self, topic: str) -> None:
        for queue in [queue for queue in self._ready if queue[0] == topic]:
            self.all.drop(self._ready.pop(queue))

    # ---- rows

    def find(self, topic: str, queue_id: int, key: bytes, body_crc: int) -> FirstCopy | None:
        """Return the first copy of a row in a queue whose window is ready; None for a row that is to be stored."""
        first = self._ready[topic, queue_id].find(key, body_crc)
        is_new = first is None or first.body_crc != body_crc
        if is_new and self._delayed is not None and self._delayed.generations:
            delayed_key = key_in_queue(key, topic, queue_id, self._changes.life_begins_at(topic))
            first = self._delayed.find(delayed_key, body_crc) or first
        if first is None or first.body_crc == body_crc:
            return first
        self._say_other_body(topic, queue_id, first)
        return None

    def are_new(self, topic: str, queue_id: int, keys: Sequence[bytes]) -> bool:
        """Whether rows are certainly to be stored: all have keys, no two the same, and no window knows one of them."""
        if self._delayed is not None and self._delayed.generations:
            return False
        return all(keys) and len(set(keys)) == len(keys) and not self._ready[topic, queue_id].knows_any(keys)

    def _say_other_body(self, topic: str, queue_id: int, first: FirstCopy) -> None:
        number = self.other_bodies.count(elapsed_ms() / 1000)
        if number:
            log.warning(
                "%d rows have the identity of a row that their queue holds, and another body; they are stored too. "
                "Look which senders give these identities, and whether a sender makes other bodies when it repeats",
                number,
                extra={"topic": topic, "queue": queue_id, "rows": number, "first_offset": first.queue_offset},
            )

    def forget_old(self, topic: str, queue_id: int) -> None:
        """Forget the rows that have left the window of a queue. Ask before the rows of a send are looked for."""
        now_ms = self._clock.now_ms()
        tail = self._store.queues.tail_of(topic, queue_id)
        self.all.forget_old(self._ready[topic, queue_id], tail.next_offset, now_ms)
        if self._delayed is not None:
            self.all.forget_old(self._delayed, self._delayed_rows, now_ms)

    def stored(
        self, queue: Queue, rows: Sequence[tuple[bytes, FirstCopy]], end: int, store_ms: int, *, delayed: bool = False
    ) -> None:
        """Remember rows that were just appended to the log, up to ``end``."""
        window = self._delayed if delayed else self._ready[queue]
        assert window is not None
        if delayed:
            life = self._changes.life_begins_at(queue[0])
            rows = [(key_in_queue(key, *queue, life), copy) for key, copy in rows]
        add = self.all.add
        for key, copy in rows:
            add(window, key, copy, self._next_delayed(copy) if delayed else copy.queue_offset, store_ms)

        def written(error: FireArrowError | None) -> None:
            if error is not None:
                for key, copy in rows:
                    self.all.take_back(window, key, copy)

        self._store.on_reached(end, WRITTEN, written)

    def stored_new(self, queue: Queue, keys: Sequence[bytes], copies: FirstCopies, end: int, store_ms: int) -> None:
        """As `stored`, for rows of one append that are all new (`are_new`)."""
        window = self._ready[queue]
        self.all.add_new(window, keys, copies, store_ms)

        def written(error: FireArrowError | None) -> None:
            if error is not None:
                for key, copy in zip(keys, copies.each(), strict=True):
                    self.all.take_back(window, key, copy)

        self._store.on_reached(end, WRITTEN, written)


def _stopping() -> StoreFenced:
    return StoreFenced("the broker is stopping and takes no messages; send to another broker")

"""Brings the rows of the log to the views that make messages findable: queues, index, and whoever else looks on.

Rows come in the order of the log, a batch at a time, while running and while catching up alike. Everything done here
can be done again: a row that a view has already changes nothing. So after a crash the log is read again from what
`views` has made durable. Java: ``DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue``,
``CommitLogDispatcherBuildIndex``.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol, TypeAlias, cast

from firearrow.model.delays import delay_of_level
from firearrow.model.flags import PREPARED
from firearrow.model.java_hash import java_hash, tag_code
from firearrow.store.consumequeue import ENTRY, ENTRY_BYTES, SCHEDULE_TOPIC, ConsumeQueue, is_storable
from firearrow.store.placement import Placed, PlacedRun, Rows
from firearrow.store.propertyfields import DELAY_MARK, SEPARATOR, TAGS_MARK, field
from firearrow.store.queues import Queues

Row: TypeAlias = tuple[ConsumeQueue, int, int, int, int, int, bytes]
"""`Placed` by a table of queues: its tails are queues."""

PassedOver: TypeAlias = tuple[ConsumeQueue, int, int]
"""A queue, and the places in the log and in the queue of a row that it did not take."""

View: TypeAlias = Callable[[Rows], None]

TAGS_REMEMBERED: Final = 8192
LONGEST_DELAY_MS: Final = 366 * 86_400_000
_RELIEVED_AT_LEAST: Final = 16
_SIZE_AND_CODE = struct.Struct(">iq")


class KeyIndex(Protocol):
    """Where keys go."""

    def put(self, rows: Rows) -> None:
        """Take the keys of some rows."""
        ...


class Dispatch:
    """The one sink of the log."""

    def __init__(
        self, queues: Queues, index: KeyIndex | None, delays: tuple[int, ...], position: int = 0, last_store_ms: int = 0
    ) -> None:
        self.position = position
        """Everything below has been brought to every view."""
        self.last_store_ms = last_store_ms
        """Store time of the last row."""
        self.views: list[View] = []
        """Others who look on, after queues and index."""
        self._queues = queues
        self._index = index
        self._delays = delays
        self._tag_codes: dict[bytes, int] = {}
        self._passed_over: list[PassedOver] | None = None  # None while nobody asks

    def __call__(self, rows: Rows) -> None:
        """Bring rows to the views, in order."""
        if not rows:
            return
        if type(rows) is not PlacedRun or not self._enter_run(rows):
            self.enter_queues(rows)
        self.tell(rows)

    def tell(self, rows: Rows) -> None:
        """Bring rows that are in the queues to everybody else, in order."""
        if self._index is not None:
            self._index.put(rows)
        last = rows[-1]
        self.position = last[1] + last[2]
        self.last_store_ms = last[4]
        for view in self.views:
            view(rows)

    def enter_queues(self, rows: Rows) -> None:
        """Bring rows to the queues alone, in order."""
        queues = self._queues
        fresh, pack, codes = queues.fresh, ENTRY.pack, self._tag_codes
        added = 0
        for queue, physical, size, queue_offset, store_ms, sys_flag, properties in cast("list[Row]", rows):
            if sys_flag & PREPARED:
                continue
            # What `field` does, for the plain case, without the call.
            before, found, after = properties.rpartition(TAGS_MARK)
            code = codes.get(after.partition(b"\x02")[0]) if found else 0
            if code is None or (found and before and before[-1] != SEPARATOR):
                code = self._code(properties)
            if queue_offset != queue.max_offset or not queue.plain:
                self._enter_slowly(queue, physical, size, queue_offset, store_ms, properties, code)
                continue
            pending = queue.pending
            if pending is None:
                pending = queue.pending = bytearray()
                fresh[queue] = None
            pending += pack(physical, size, code)
            queue.max_offset = queue_offset + 1
            added += 1
        queues.pending_bytes += added * ENTRY_BYTES
        queues.relieve(max(2 * len(rows), _RELIEVED_AT_LEAST))

    def enter_queues_again(self, rows: list[Placed]) -> list[PassedOver]:
        """Bring rows to the queues alone; return those that a queue did not take."""
        passed_over = self._passed_over = []
        self.enter_queues(rows)
        self._passed_over = None
        return passed_over

    def _enter_run(self, run: PlacedRun) -> bool:
        """What `enter_queues` does with rows that are alike, at once; False when a second look at each is needed."""
        queue, count = cast("ConsumeQueue", run.tail), len(run.places)
        if run.sys_flag & PREPARED or run.queue_offset != queue.max_offset or not queue.plain:
            return False
        # They differ in their UNIQ_KEY alone, so the first one's tag is everybody's.
        fields: list[object] = [_SIZE_AND_CODE.pack(run.size, self._code(run.properties.of(0)))] * (2 * count)
        fields[0::2] = run.places
        queues = self._queues
        pending = queue.pending
        if pending is None:
            pending = queue.pending = bytearray()
            queues.fresh[queue] = None
        pending += _entries(count).pack(*fields)
        queue.max_offset += count
        queues.pending_bytes += count * ENTRY_BYTES
        queues.relieve(max(2 * count, _RELIEVED_AT_LEAST))
        return True

    def _enter_slowly(
        self, queue: ConsumeQueue, physical: int, size: int, offset: int, store_ms: int, properties: bytes, code: int
    ) -> None:
        if not is_storable(queue.topic, queue.queue_id):
            return
        if queue.topic == SCHEDULE_TOPIC:
            code = delivery_ms(properties, store_ms, self._delays) or code
        is_taken = self._queues.put(queue, offset, physical, size, code)
        if not is_taken and self._passed_over is not None:
            self._passed_over.append((queue, physical, offset))

    def _code(self, properties: bytes) -> int:
        tag = field(properties, TAGS_MARK)
        codes = self._tag_codes
        if tag in codes:
            return codes[tag]
        if len(codes) >= TAGS_REMEMBERED:
            codes.clear()
        code = codes[tag] = java_hash(tag.decode("utf-8", "replace")) if tag else 0
        return code


@lru_cache(64)
def _entries(count: int) -> struct.Struct:
    return struct.Struct(">" + "q12s" * count)


def delivery_ms(properties: bytes, store_ms: int, delays: tuple[int, ...]) -> int:
    """When a parked message is due; 0 when it does not say how long it waits."""
    level = field(properties, DELAY_MARK)
    if not level.isdigit() or int(level) == 0:
        return 0
    return store_ms + delay_of_level(delays, int(level))


def code_of(topic: str, properties: bytes, store_ms: int, delays: tuple[int, ...]) -> int:
    """The tag code that the queue entry of a record must have."""
    tag = field(properties, TAGS_MARK)
    code = tag_code(tag.decode("utf-8", "replace")) if tag else 0
    return (topic == SCHEDULE_TOPIC and delivery_ms(properties, store_ms, delays)) or code


def may_have_code(code: int, topic: str, properties: bytes, store_ms: int, delays: tuple[int, ...]) -> bool:
    """Whether a queue entry with this tag code can be that of a record.

    Parked messages may have got their time from another table of delays. Every delay is a number of whole seconds, and
    no flipped bit turns one such number into another.
    """
    if code == code_of(topic, properties, store_ms, delays):
        return True
    waits_ms = code - store_ms
    return topic == SCHEDULE_TOPIC and 0 <= waits_ms <= LONGEST_DELAY_MS and waits_ms % 1000 == 0

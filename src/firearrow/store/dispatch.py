"""Dispatch: passes the rows of the log to the queues, the index and other views.

Rows come in the order of the log, a batch at a time, both while the store runs and while it catches up. Dispatch is
idempotent: a row that a view has already changes nothing. So after a crash the log is dispatched again from the offset
up to which queues and index are durable. Java: ``DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue``,
``CommitLogDispatcherBuildIndex``.

An exception in the queues or the index fences the log (`log.progress`): a row may be missing there, and messages after
it would be acknowledged and never delivered. The other views hold no rows: they wake what waits for messages, or count.
An exception of one of them is logged, the others get the rows all the same, and the store goes on.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from operator import itemgetter
from typing import Final, Protocol, TypeAlias

from firearrow.errors import BrokenInvariant
from firearrow.model.delays import delay_of_level
from firearrow.model.flags import PREPARED
from firearrow.model.java_hash import java_hash, tag_code
from firearrow.model.numbers import whole_number
from firearrow.runtime.clock import elapsed_ms
from firearrow.store.placement import Placed, Rows, UniformRows
from firearrow.store.property_fields import DELAY_MARK, SEPARATOR, TAGS_MARK, field
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES, SCHEDULE_TOPIC, ConsumeQueue, is_storable
from firearrow.store.queue.table import Queues
from firearrow.telemetry.damped import DampedEvents

Row: TypeAlias = tuple[ConsumeQueue, int, int, int, int, int, bytes]
"""`Placed` whose tail is a queue of the table."""

PassedOver: TypeAlias = tuple[ConsumeQueue, int, int]
"""A queue, and the physical offset and queue offset of a row that the queue did not take."""

View: TypeAlias = Callable[[Rows], None]
"""Takes rows that can be read from now on. It must keep nothing that could be lost with a call."""

QueueKey: TypeAlias = tuple[str, int]
"""A topic and the number of a queue."""

TAGS_REMEMBERED: Final = 8192
LONGEST_DELAY_MS: Final = 366 * 86_400_000
_RELIEVED_AT_LEAST: Final = 16
_TAGS: Final = TAGS_MARK[:-1]
_tail = itemgetter(0)

log = logging.getLogger(__name__)


class KeyIndex(Protocol):
    """The key index as dispatch uses it."""

    def put(self, rows: Rows) -> None:
        """Take the keys of rows."""
        ...


class Dispatch:
    """The sink of the log: passes rows to every view."""

    def __init__(
        self, queues: Queues, index: KeyIndex | None, delays: tuple[int, ...], position: int = 0, last_store_ms: int = 0
    ) -> None:
        self.position = position
        """The rows of all records below this physical offset have been passed to every view."""
        self.last_store_ms = last_store_ms
        """Store time of the last row."""
        self.views: list[View] = []
        """Further views, which get all rows after queues and index: statistics, copies of tables."""
        self._watches: list[tuple[AbstractSet[QueueKey], View]] = []
        self._failed = DampedEvents()
        self._queues = queues
        self._writer = queues.writer
        self._index = index
        self._delays = delays
        self._tag_codes: dict[bytes, int] = {}
        self._passed_over: list[PassedOver] | None = None  # None outside of `enter_queues_again`

    def __call__(self, rows: Rows, *, are_in_queues: bool = False) -> None:
        """Pass rows to the views, in order; not to the queues if ``are_in_queues``."""
        if not rows:
            return
        if not are_in_queues:
            if type(rows) is UniformRows:
                self._enter_uniform(rows)
            else:
                self.enter_queues(rows)
        if self._index is not None:
            self._index.put(rows)
        last = rows[-1]
        self.position = last[1] + last[2]
        self.last_store_ms = last[4]
        for view in self.views:
            self._show(view, rows)
        keys: list[QueueKey] = []
        for queues, view in self._watches:
            if not queues:
                continue
            if not keys:
                tails = (rows.tail,) if type(rows) is UniformRows else set(map(_tail, rows))
                for tail in tails:
                    keys.append((tail.topic, tail.queue_id))
            if not queues.isdisjoint(keys):
                self._show(view, rows)

    def watch(self, queues: AbstractSet[QueueKey], view: View) -> None:
        """Call a view for rows of these queues alone, and of others that come with them; the set may change."""
        self._watches.append((queues, view))

    def _show(self, view: View, rows: Rows) -> None:
        """Pass rows to a further view. One that fails fences nothing, and gets the next rows again."""
        try:
            view(rows)
        except BrokenInvariant:
            raise
        except Exception as error:
            if self._failed.count(elapsed_ms() / 1000):
                said = f"{type(error).__name__}: {error}"
                log.exception("%r failed at new messages: %s", view, said, extra={"reason": said})

    def enter_queues(self, rows: Rows) -> None:
        """Pass rows only to the queues, in order."""
        writer = self._writer
        fresh, pack, codes = writer.fresh, ENTRY.pack, self._tag_codes
        added = 0
        table_rows: Iterable[Row] = rows  # type: ignore[assignment]  # a `cast` would cost a call
        for queue, physical, size, queue_offset, store_ms, sys_flag, properties in table_rows:
            if sys_flag & PREPARED:
                continue
            # `field` inlined for the common case, with the code of a known tag looked up at once.
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
        writer.pending_bytes += added * ENTRY_BYTES
        if writer.pending_bytes > writer.max_pending:
            writer.relieve(max(2 * len(rows), _RELIEVED_AT_LEAST))

    def enter_queues_again(self, rows: list[Placed]) -> list[PassedOver]:
        """Pass rows only to the queues; return those that a queue did not take."""
        passed_over = self._passed_over = []
        self.enter_queues(rows)
        self._passed_over = None
        return passed_over

    def _enter_uniform(self, rows: UniformRows) -> None:
        """As `enter_queues`, without a loop over the rows if they follow the last entry."""
        queue, count = rows.tail, len(rows.places)
        assert isinstance(queue, ConsumeQueue)
        if rows.sys_flag & PREPARED or rows.queue_offset != queue.max_offset or not queue.plain:
            self.enter_queues(rows)
            return
        writer = self._writer
        pending = queue.pending
        if pending is None:
            pending = queue.pending = bytearray()
            writer.fresh[queue] = None
        codes = self._codes(rows.properties.values.get(_TAGS))
        pending += b"".join(map(ENTRY.pack, rows.places, rows.sizes, codes))
        queue.max_offset += count
        writer.pending_bytes += count * ENTRY_BYTES
        if writer.pending_bytes > writer.max_pending:
            writer.relieve(max(2 * count, _RELIEVED_AT_LEAST))

    def _codes(self, tags: Sequence[bytes] | None) -> Iterable[int]:
        """The tag codes of rows with these tags; of as many rows as one likes if all have the same."""
        if tags is None:
            return repeat(0)
        return repeat(self._code_of(tags[0])) if tags.count(tags[0]) == len(tags) else map(self._code_of, tags)

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
        return self._code_of(field(properties, TAGS_MARK))

    def _code_of(self, tag: bytes) -> int:
        codes = self._tag_codes
        if tag in codes:
            return codes[tag]
        if len(codes) >= TAGS_REMEMBERED:
            codes.clear()
        code = codes[tag] = java_hash(tag.decode("utf-8", "replace")) if tag else 0
        return code


def delivery_ms(properties: bytes, store_ms: int, delays: tuple[int, ...]) -> int:
    """Return the time at which a delayed message is due; 0 when its properties name no delay."""
    level = field(properties, DELAY_MARK)
    number = whole_number(level.decode("utf-8", "replace"))
    return store_ms + delay_of_level(delays, number) if number else 0


def code_of(topic: str, properties: bytes, store_ms: int, delays: tuple[int, ...]) -> int:
    """Return the tag code that the queue entry of a record must have."""
    tag = field(properties, TAGS_MARK)
    code = tag_code(tag.decode("utf-8", "replace")) if tag else 0
    return (topic == SCHEDULE_TOPIC and delivery_ms(properties, store_ms, delays)) or code


def may_have_code(code: int, topic: str, properties: bytes, store_ms: int, delays: tuple[int, ...]) -> bool:
    """Whether a queue entry with this tag code can be that of a record.

    The time of a delayed message may come from another table of delays. Every delay is a number of whole seconds, and
    no flipped bit turns such a number into another one.
    """
    if code == code_of(topic, properties, store_ms, delays):
        return True
    waits_ms = code - store_ms
    return topic == SCHEDULE_TOPIC and 0 <= waits_ms <= LONGEST_DELAY_MS and waits_ms % 1000 == 0

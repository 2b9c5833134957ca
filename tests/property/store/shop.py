"""A whole small store on a simulated disk that never waits, and what it should hold, worked out the slow way."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from campaigns.drafts import columns_of_drafts
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels
from firearrow.model.flags import PREPARED, ROLLBACK, TRANSACTION_MASK
from firearrow.model.java_hash import java_hash
from firearrow.record.decode import RecordHead
from firearrow.record.encode import Draft
from firearrow.record.properties import decode_properties
from firearrow.store.config import LogConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.log.block_sums import BlockSums
from firearrow.store.placement import AppendedColumns, AppendPosition
from firearrow.store.queue.consume_queue import ENTRY, FILLER, SCHEDULE_TOPIC
from firearrow.store.queue.table import QueueConfig
from firearrow.store.read.lookup import Lookups
from firearrow.store.read.queue_reader import QueueReader
from firearrow.store.recovery.open_log import OpenedLog, open_log
from firearrow.store.recovery.rescan import pieces_again
from firearrow.store.running_log import RunningLog
from firearrow.store.views.views import Views, ViewsConfig
from firearrow.testing.sim.disk_image import DiskImage
from tests.simulation.store.kit import FrozenClock, InstantDisk, config

DELAYS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
SMALL_QUEUES = QueueConfig(mapped_file_size_consume_queue=100, max_open_queue_files=8, max_pending_queue_bytes=200)
SMALL_INDEX = IndexConfig(max_hash_slot_num=7, max_index_num=12)
VIEWS = ViewsConfig(queues=SMALL_QUEUES, index=SMALL_INDEX, delays_ms=DELAYS)

Entries = dict[tuple[str, int], dict[int, bytes]]
Keys = dict[tuple[str, str], list[int]]


@dataclass
class Shop:
    """An open store."""

    disk: InstantDisk
    clock: FrozenClock
    opened: OpenedLog
    views: Views
    running: RunningLog
    reader: QueueReader
    lookups: Lookups
    settings: LogConfig
    sums: BlockSums

    def append(self, draft: Draft) -> AppendPosition:
        """Append one message and have it written."""
        place = self.running.log.append(self.views.queues.tail_of(draft.topic, draft.queue_id), draft)
        self.running.log.write_pending()
        return place

    def append_batch(self, drafts: Sequence[Draft]) -> AppendedColumns:
        """Append messages of one queue."""
        envelope, columns = columns_of_drafts(drafts)
        tail = self.views.queues.tail_of(drafts[0].topic, drafts[0].queue_id)
        places = self.running.log.append_columns(envelope, [tail] * len(drafts), columns)
        self.running.log.write_pending()
        return places

    async def flush_log(self) -> None:
        """Make the log durable."""
        await self.running.flush()

    async def flush(self) -> None:
        """Make the views durable as far as they are."""
        await self.views.flush(self._flushed)

    async def flush_all(self) -> None:
        """Make everything appended durable, first in the log and then in the views."""
        await self.flush_log()
        await self.flush()

    async def close(self) -> None:
        """End in order."""
        await self.running.flush()
        await self.views.flush(self._flushed, closed=True)
        self.views.close()
        await self.running.close()

    async def _flushed(self, offset: int) -> None:
        await self.running.flush()
        assert self.running.log.flushed >= offset


async def open_shop(
    image: DiskImage,
    boot: str = "boot-1",
    *,
    sync: bool = True,
    clock: FrozenClock | None = None,
    views_config: ViewsConfig = VIEWS,
    segment: int = 8192,
    disk: InstantDisk | None = None,
) -> Shop:
    """Open, recover and catch up."""
    disk = disk or InstantDisk(image)
    clock = clock or FrozenClock()
    settings = config(sync=sync, segment=segment)
    opened = await open_log(disk, clock, settings, boot)
    views = await Views.open(disk, clock, views_config, opened)
    running = RunningLog(disk, clock, settings, opened, views.dispatch)
    await views.catch_up(opened)
    sums = BlockSums(disk, opened.segments, running.log)
    reader = QueueReader(running.log, views.queues, opened, DELAYS, sums)
    lookups = Lookups(running.log, views.queues, views.index, opened)
    return Shop(disk, clock, opened, views, running, reader, lookups, settings, sums)


@dataclass
class Truth:
    """The entries that queues and index must hold, by the log alone."""

    entries: Entries = field(default_factory=lambda: defaultdict(dict))
    keys: Keys = field(default_factory=lambda: defaultdict(list))
    records: dict[int, bytes] = field(default_factory=dict)
    heads: dict[int, RecordHead] = field(default_factory=dict)

    def add(self, record: bytes, head: RecordHead) -> None:
        """One more record of the log."""
        physical = head.physical_offset
        self.records[physical] = record
        self.heads[physical] = head
        properties = decode_properties(record[-(head.end - head.properties_start) :])
        if not head.sys_flag & PREPARED:
            code = java_hash(properties.get("TAGS", ""))
            level = int(properties.get("DELAY", "0"))
            if head.topic == SCHEDULE_TOPIC and level:
                code = head.store_timestamp + DELAYS[min(level, len(DELAYS)) - 1]
            of_queue = self.entries[head.topic, head.queue_id]
            of_queue.setdefault(head.queue_offset, ENTRY.pack(physical, head.size, code))
        if head.sys_flag & TRANSACTION_MASK != ROLLBACK:
            words = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
            for word in words:
                if word and physical not in self.keys[head.topic, word]:
                    self.keys[head.topic, word].insert(0, physical)


async def truth_of(shop: Shop, end: int | None = None) -> Truth:
    """The entries by the log."""
    truth = Truth()
    log = shop.running.log
    stop = log.written if end is None else end
    async for piece, heads in pieces_again(shop.opened.scanner, shop.opened.damage, log.min_offset, stop):
        for head in heads:
            truth.add(piece[head.start : head.end], head)
    return truth


def entries_of(shop: Shop) -> Entries:
    """The entries of the queues, fillers aside."""
    found: Entries = {}
    for queue in shop.views.queues:
        of_queue = {}
        for offset in range(queue.start, queue.max_offset):
            entry = ENTRY.pack(*shop.views.queues.entry(queue, offset))
            if entry != FILLER:
                of_queue[offset] = entry
        if of_queue:
            found[queue.topic, queue.queue_id] = of_queue
    return found


async def keys_of_index(shop: Shop, truth: Truth) -> Keys:
    """The places that the index names for every key there is, looked up one by one.

    A file that was made again may name a message that the file next to it names too.
    """
    found: Keys = {}
    assert shop.views.index is not None
    for topic, key in truth.keys:
        places = []
        async for candidate in shop.views.index.candidates(topic, key, 0, 1 << 60):
            places.append(candidate.entry.physical)
        found[topic, key] = list(dict.fromkeys(places))
    return found

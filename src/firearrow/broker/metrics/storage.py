"""The store of a broker: sizes, and how far flushing, dispatch and the disk are behind. Java:
``DefaultStoreMetricsManager``."""

from collections.abc import Iterator
from typing import Final

from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk, Usage
from firearrow.store.log.probe import probe
from firearrow.store.store import Store
from firearrow.telemetry.metrics import Family, Labels

STORAGE: Final[Labels] = (("storage_type", "local"), ("storage_medium", "disk"))


def gauge(name: str, says: str, value: float, labels: Labels = ()) -> Family:
    """Return a metric with one value that goes up and down."""
    return Family(name, "gauge", says, [(labels, value)])


def counter(name: str, says: str, value: float, labels: Labels = ()) -> Family:
    """Return a metric with one value that only grows."""
    return Family(name, "counter", says, [(labels, value)])


class StorageMetrics:
    """The store of one broker."""

    def __init__(self, store: Store, disk: Disk, clock: Clock) -> None:
        self._store: Store = store
        self._disk = disk
        self._clock = clock
        self._first = (-1, 0)  # the start of the log, and when its first message was stored

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        store, log, usage = self._store, self._store.log, self._disk.usage()
        behind = max(log.tail - store.views.dispatch.position, 0)
        yield gauge("rocketmq_storage_size", "Bytes used on the disk of the store", usage.total - usage.free, STORAGE)
        yield gauge("rocketmq_storage_flush_behind_bytes", "Bytes not synced", log.tail - log.flushed, STORAGE)
        yield gauge("rocketmq_storage_dispatch_behind_bytes", "Bytes not yet in queues and index", behind, STORAGE)
        stored_ms = self._first[1]
        kept_ms = max(self._clock.now_ms() - stored_ms, 0) if stored_ms else 0
        yield gauge("rocketmq_storage_message_reserve_time", "Age of the oldest message in ms", kept_ms, STORAGE)
        yield gauge("firearrow_disk_used_ratio", "Part of the disk of the store that is used", _used(usage))
        yield gauge("firearrow_disk_free_bytes", "Bytes free on the disk of the store", usage.free)
        yield gauge("firearrow_log_bytes", "Size of the commit log", log.tail - log.min_offset)
        yield counter("firearrow_log_end_bytes_total", "Bytes appended to the commit log since ever", log.tail)
        yield gauge("firearrow_log_unwritten_bytes", "Bytes that the disk has not taken", log.tail - log.written)
        yield gauge("firearrow_store_fenced", "1 after a failed sync: restart", float(log.fenced is not None))
        refuses = float(store.retention.refusal is not None)
        yield gauge("firearrow_store_refuses", "1 while sends are refused for lack of room", refuses)
        yield gauge("firearrow_queues", "Consume queues", len(store.queues))
        waiting = store.views.waiting_bytes
        yield gauge("firearrow_views_waiting_bytes", "Queue and index entries not yet on disk", waiting)
        yield Family("firearrow_sync_seconds", "histogram", "Syncs of the commit log", [((), store.sync_seconds)])

    async def look(self) -> None:
        """Find out when the oldest message was stored, if the log begins elsewhere now."""
        log = self._store.log
        if log.min_offset == self._first[0] or log.min_offset >= log.written:
            return
        first = await probe(self._store.opened.segments, log.min_offset)
        if first is not None:
            self._first = (log.min_offset, first.store_ms)


def _used(usage: Usage) -> float:
    return (usage.total - usage.free) / usage.total if usage.total else 0.0

"""Reads queues for pulls, with Apache's limits, and filters what was read.

A pull that filters by tags, or not at all, reads its messages. A pull with a `MessageFilter` scans a bounded number of
records, so that a filter that lets little through cannot hold a turn of the loop: the answer says how far it came.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from firearrow.broker.pull.answer import joined
from firearrow.broker.pull.checks import AdmittedPull
from firearrow.broker.pull.filter_budget import FilterCost
from firearrow.broker.pull.filter_costs import FilterCosts
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.broker.pull.scanner import Scanner
from firearrow.broker.settings.pull_settings import LARGE_PULL_BYTES, LARGE_PULL_MESSAGES, PullConfig
from firearrow.protocol.requests.message.pull import Pull
from firearrow.record.decode import peek
from firearrow.store.read.queue_reader import ReadRequest, ReadResult
from firearrow.store.store import Store

SCANNED_MESSAGES: Final = 800
"""The most messages that a filter looks at for one answer; Apache looks at as many (``maxFilterMessageSize``)."""
SCANNED_BYTES: Final = 1 << 20
"""The most bytes of records that a filter looks at for one answer."""

Made = dict[tuple[str, int, ReadRequest, MessageFilter | None], tuple[ReadResult | None, FilterCost]]
"""The reads of one turn of the loop, by topic, queue, read request and filter, and their costs; None: not in memory."""


class PullReader:
    """Reads for pulls."""

    def __init__(
        self,
        store: Store,
        memory_bytes: int,
        config: PullConfig,
        scanner: Scanner,
        costs: FilterCosts,
        time_for_filter: Callable[[], Awaitable[None]],
    ) -> None:
        self._scanner = scanner
        self._time_for_filter = time_for_filter
        self._costs = costs
        self._store = store
        self._memory_bytes = memory_bytes
        self.configure(config)

    def configure(self, config: PullConfig) -> None:
        """Apply changed settings."""
        self._config = config
        self._hot_distance = self._memory_bytes * config.access_message_in_memory_max_ratio // 100

    def most_bytes(self, request: Pull) -> int:
        """Return the most bytes that the answer may have; a single message may be larger."""
        if request.large and request.max_msg_bytes is not None:
            return min(max(request.max_msg_bytes, 0), LARGE_PULL_BYTES)
        return self._config.max_transfer_bytes_on_message_in_memory

    def suggested_broker(self, admitted: AdmittedPull, pulled: ReadResult) -> int:
        """Return the id of the broker to pull from next: a slave for a reader whose messages left the memory."""
        if admitted.slow_broker == admitted.usual_broker or not pulled.buffers:
            return admitted.usual_broker
        head = peek(pulled.buffers[0])
        is_far = self._store.log.tail - head.physical_offset > self._hot_distance
        return admitted.slow_broker if is_far else admitted.usual_broker

    def read_hot(self, admitted: AdmittedPull) -> ReadResult | None:
        """Read from memory; None when `read` is needed."""
        return self._read_hot(admitted, FilterCost())

    def _read_hot(self, admitted: AdmittedPull, cost: FilterCost) -> ReadResult | None:
        request, limited = admitted.request, self._limited(admitted)
        wanted = admitted.wanted
        if not isinstance(wanted, MessageFilter):
            return self._store.read_hot(request.topic, request.queue_id, limited)
        scanned = self._store.read_hot(request.topic, request.queue_id, _scan(limited))
        return None if scanned is None else self._kept(admitted, wanted, scanned, limited, cost)

    def read_once(self, admitted: AdmittedPull, made: Made) -> ReadResult | None:
        """Do what `read_hot` does, but do equal reads of one turn of the loop once."""
        request, wanted = admitted.request, admitted.wanted
        own = wanted if isinstance(wanted, MessageFilter) else None
        key = request.topic, request.queue_id, self._limited(admitted), own
        known = made.get(key)
        if known is not None:
            self._costs.add_of_shared_scan(request.consumer_group, request.topic, known[1])
            return known[0]
        cost = FilterCost()
        pulled = self._read_hot(admitted, cost)
        if pulled is not None and pulled.buffers:
            pulled = pulled._replace(buffers=(joined(pulled.buffers),))
        made[key] = pulled, cost
        return pulled

    async def read(self, admitted: AdmittedPull) -> ReadResult:
        """Read with Apache's limits; messages far from the log's end count as on disk and have limits of their own."""
        request, config, wanted = admitted.request, self._config, admitted.wanted
        near = self._limited(admitted)
        most, size = config.max_transfer_count_on_message_in_disk, config.max_transfer_bytes_on_message_in_disk
        far = _limited(admitted, most, size)
        if isinstance(wanted, MessageFilter):
            scanned = await self._store.read(request.topic, request.queue_id, _scan(near))
            await self._time_for_filter()
            return self._kept(admitted, wanted, scanned, near, FilterCost())
        return await self._store.read(request.topic, request.queue_id, near, far=far, near_bytes=self._hot_distance)

    def _kept(
        self, admitted: AdmittedPull, wanted: MessageFilter, scanned: ReadResult, limited: ReadRequest, cost: FilterCost
    ) -> ReadResult:
        """Return what passes of a scan, whose cost is the pull's group's."""
        found = self._scanner.kept(scanned, wanted, limited.max_messages, limited.max_bytes, cost)
        self._costs.add(admitted.request.consumer_group, admitted.request.topic, cost)
        return found

    def _limited(self, admitted: AdmittedPull) -> ReadRequest:
        config = self._config
        most, size = config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory
        return _limited(admitted, most, size)


def _limited(admitted: AdmittedPull, most: int, size: int) -> ReadRequest:
    """Return the read for a pull, with Apache's limits or those of a consumer that asked for large answers."""
    request, wanted = admitted.request, admitted.wanted
    if request.large and request.max_msg_bytes is not None:
        most, size = LARGE_PULL_MESSAGES, min(request.max_msg_bytes, LARGE_PULL_BYTES)
    tags = None if isinstance(wanted, MessageFilter) else wanted
    return ReadRequest(request.queue_offset, max(1, min(request.max_msg_nums, most)), size, tags)


def _scan(limited: ReadRequest) -> ReadRequest:
    return ReadRequest(limited.offset, SCANNED_MESSAGES, SCANNED_BYTES)

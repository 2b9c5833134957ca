"""Running values: the table of a broker's running values, and single statistics.

The table has Apache's names and units, and both spellings of ``getTransferredTps``, because tools of 4.9 know only the
older one. This broker has no thread pools: Apache's values about their queues are reported as empty, except that
of the requests to end a transaction.
Java: ``AdminBrokerProcessor.prepareRuntimeInfo``, ``StoreStatsService.getRuntimeInfo``.
"""

import asyncio
from typing import Final

from firearrow.broker.delivery.schedule import DelayedDelivery
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.self_check import INSTANCE_KEY
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.statistics.watch import Watch
from firearrow.broker.timer.timers import Timers
from firearrow.broker.transaction.ends import MAX_WAITING, EndRequests
from firearrow.model.versions import CURRENT_VERSION, version_name
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.maintenance import CleanExpiredConsumeQueue, DeleteExpiredCommitLog
from firearrow.protocol.requests.admin.stats import (
    LONGEST_STEP_KEY,
    REFUSAL_KEY,
    GetBrokerRuntimeInfo,
    ViewBrokerStatsData,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import watched
from firearrow.store.log.probe import probe
from firearrow.store.store import Store

_POOLS: Final = {"send": 10_000, "pull": 100_000, "litePull": 100_000, "query": 20_000, "ack": 100_000}
_KIB: Final = 1024
_UNITS: Final = "KMGTPE"
_DAY_S: Final = 86_400


class StorageRows:
    """The rows about the log and its disk."""

    def __init__(self, store: Store, disk: Disk, settings: LiveSettings) -> None:
        self._store = store
        self._disk = disk
        self._settings = settings

    def table(self) -> dict[str, str]:
        """Return the rows."""
        log, usage = self._store.log, self._disk.usage()
        used = (usage.total - usage.free) / usage.total if usage.total else 0.0
        root = self._settings.broker.store_path_root_dir
        return {
            "commitLogMinOffset": str(log.min_offset),
            "commitLogMaxOffset": str(log.tail),
            "commitLogDiskRatio": str(used),
            f"commitLogDiskRatio_{root}/commitlog": str(used),
            "consumeQueueDiskRatio": str(used),
            "commitLogDirCapacity": f"Total : {_size(usage.total)}, Free : {_size(usage.free)}.",
            "dispatchBehindBytes": str(max(log.tail - self._store.views.dispatch.position, 0)),
            "remainHowManyDataToFlush": _size(log.tail - log.flushed),
            "remainTransientStoreBufferNumbs": "2147483647",
            "startAcceptSendRequestTimeStamp": str(self._settings.broker.start_accept_send_request_time_stamp),
            **self._refusal(),
        }

    def _refusal(self) -> dict[str, str]:
        """Return why the store takes no messages; nothing while it takes them. Apache's brokers do not tell that."""
        why = self._store.log.fenced or self._store.retention.refusal
        return {} if why is None else {REFUSAL_KEY: str(why)}

    async def earliest_ms(self) -> int:
        """Return the store time of the oldest message; -1 when there is no message."""
        log = self._store.log
        if log.min_offset >= log.written:
            return -1
        first = await probe(self._store.opened.segments, log.min_offset)
        return -1 if first is None else first.store_ms


class RuntimeHandlers:
    """Reports running values to operators."""

    def __init__(
        self,
        rows: StorageRows,
        store: Store,
        watch: Watch,
        delays: DelayedDelivery,
        timers: Timers,
        ends: EndRequests,
        *,
        stats: BrokerStats,
        lanes: Lanes,
        booted_ms: int,
        instance: str,
    ) -> None:
        self._rows = rows
        self._store = store
        self._stats = stats
        self._watch = watch
        self._delays = delays
        self._timers = timers
        self._ends = ends
        self._lanes = lanes
        self._instance = instance
        self._booted_ms = booted_ms

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(GetBrokerRuntimeInfo, self.runtime, urgent=True)
        handlers.on(ViewBrokerStatsData, self.statistic, urgent=True)
        handlers.on(DeleteExpiredCommitLog, self.delete_expired, urgent=True)
        handlers.on(CleanExpiredConsumeQueue, self.clean_queues, urgent=True)

    def statistic(self, request: ViewBrokerStatsData, call: Call) -> Later:
        """Return one statistic over a minute, an hour and a day."""
        return self._lanes.do(call, WaitKind.TURNS, self._statistic(request))

    async def _statistic(self, request: ViewBrokerStatsData) -> Answer:
        await self._stats.refresh()
        found = self._stats.view(request.stats_name, request.stats_key, elapsed_ms())
        if found is None:
            remark = f"The stats <{request.stats_name}> <{request.stats_key}> not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return Answer(body=encode_body(found))

    def delete_expired(self, _request: DeleteExpiredCommitLog, _call: Call) -> None:
        """Delete log files that are old enough, whatever the hour."""
        self._store.retention.delete_expired_now()

    def clean_queues(self, _request: CleanExpiredConsumeQueue, call: Call) -> Later:
        """Delete queue files whose messages are gone."""
        return self._lanes.do(call, WaitKind.CHANGE, self._clean_queues())

    async def _clean_queues(self) -> None:
        await self._store.queues.drop_files_below(self._store.log.min_offset, 1 << 30)

    def runtime(self, _request: GetBrokerRuntimeInfo, call: Call) -> Later:
        """Return the table of running values."""
        return self._lanes.do(call, WaitKind.TURNS, self._runtime())

    async def _runtime(self) -> Answer:
        await self._stats.refresh()
        table = {
            **self._traffic(),
            **self._watch.table(),
            **self._rows.table(),
            **self._days(),
            **_no_pools(),
            "EndTransactionQueueSize": str(len(self._ends)),
            "EndTransactionThreadPoolQueueCapacity": str(MAX_WAITING),
            **self._levels(),
            **self._timers.runtime(),
            **_longest_step(),
        }
        table["earliestMessageTimeStamp"] = str(await self._rows.earliest_ms())
        return Answer(body=encode_body(KVTable(table=table)))

    # ---- the table

    def _traffic(self) -> dict[str, str]:
        stats, now_ms = self._stats, elapsed_ms()
        stored, size = stats.put.total, stats.put_size.total
        transferred = stats.rates(stats.got, now_ms)
        found, missed = stats.rates(stats.found, now_ms), stats.rates(stats.missed_pulls, now_ms)
        totals = zip(found.split(), missed.split(), strict=True)
        return {
            "brokerVersionDesc": version_name(CURRENT_VERSION),
            "brokerVersion": str(CURRENT_VERSION),
            "brokerActive": "true",
            INSTANCE_KEY: self._instance,
            "bootTimestamp": str(self._booted_ms),
            "runtime": _span((now_ms - stats.started_ms) // 1000),
            "putMessageTimesTotal": str(max(stored, 1)),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": str(size / max(stored, 1)),
            "putMessageDistributeTime": "",
            "getMessageEntireTimeMax": "0",
            "dispatchMaxBuffer": "0",
            "putTps": stats.rates(stats.put, now_ms),
            "getFoundTps": found,
            "getMissTps": missed,
            "getTotalTps": " ".join(str(float(hit) + float(miss)) for hit, miss in totals),
            "getTransferredTps": transferred,
            "getTransferedTps": transferred,
            "putLatency99": "0.00",
            "putLatency999": "0.00",
        }

    def _days(self) -> dict[str, str]:
        put_before, put_this, got_before, got_this = self._stats.days
        return {
            "msgPutTotalYesterdayMorning": str(put_before),
            "msgPutTotalTodayMorning": str(put_this),
            "msgPutTotalTodayNow": str(self._stats.put.total),
            "msgGetTotalYesterdayMorning": str(got_before),
            "msgGetTotalTodayMorning": str(got_this),
            "msgGetTotalTodayNow": str(self._stats.got.total),
        }

    def _levels(self) -> dict[str, str]:
        levels = range(1, self._delays.count + 1)
        return {f"scheduleMessageOffset_{n}": f"{self._delays.offsets[n]},{self._delays.end_of(n)}" for n in levels}


def _longest_step() -> dict[str, str]:
    """Return the longest step of the loop since the start; nothing while the loop is not watched."""
    turn = watched()
    return {LONGEST_STEP_KEY: turn.longest_step} if turn is not None and turn.longest_step else {}


def _no_pools() -> dict[str, str]:
    table = {}
    for name, capacity in _POOLS.items():
        table[f"{name}ThreadPoolQueueSize"] = "0"
        table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return table


def _span(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(count: int) -> str:
    """Format bytes as ``MixAll.humanReadableByteCount`` does: ``1.5 GiB``."""
    if count < _KIB:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_UNITS))
    return f"{count / _KIB**power:.1f} {_UNITS[power - 1]}iB"


async def begin_days(stats: BrokerStats, clock: Clock) -> None:
    """Record the sums at every midnight, until cancelled."""
    while True:
        until_midnight = _DAY_S - clock.now_ms() // 1000 % _DAY_S
        await asyncio.sleep(until_midnight)
        await stats.begin_day()

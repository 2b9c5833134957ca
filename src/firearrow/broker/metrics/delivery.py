"""Transactions, timed and delayed messages, and the copies of the log at slaves."""

from collections.abc import Iterator

from firearrow.broker.delivery.schedule import DelayedDelivery
from firearrow.broker.metrics.storage import counter, gauge
from firearrow.broker.replication.replication import Replication
from firearrow.broker.timer.timers import Timers
from firearrow.broker.transaction.ledger import Outcome
from firearrow.broker.transaction.transactions import Transactions
from firearrow.model.names import TIMER_TOPIC
from firearrow.runtime.clock import Clock
from firearrow.store.store import Store
from firearrow.telemetry.metrics import Family


class DeliveryMetrics:
    """Metrics of the messages that a broker delivers later, or copies elsewhere."""

    def __init__(
        self,
        delays: DelayedDelivery,
        timers: Timers,
        transactions: Transactions,
        replication: Replication,
        *,
        store: Store,
        clock: Clock,
    ) -> None:
        self._store = store
        self._clock = clock
        self._delays = delays
        self._timers = timers
        self._transactions = transactions
        self._replication = replication

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        ends = self._transactions.ends
        halves = len(self._transactions.journal.ledger.pending)
        yield gauge("rocketmq_half_messages", "Half messages that are not ended", halves)
        yield counter("rocketmq_commit_messages_total", "Transactions committed", ends.ended[Outcome.COMMITTED])
        yield counter("rocketmq_rollback_messages_total", "Transactions rolled back", ends.ended[Outcome.ROLLED_BACK])
        yield gauge("firearrow_transaction_ends_waiting", "Requests to end a transaction that wait", len(ends))
        yield from self._timing(self._timers)
        delays = self._delays
        levels = range(1, delays.count + 1)
        waiting = [((("level", str(n)),), float(max(delays.end_of(n) - delays.offsets[n], 0))) for n in levels]
        yield Family("firearrow_delayed_messages", "gauge", "Messages that wait at a delay level", waiting)
        yield from self._copies()

    def _timing(self, timers: Timers) -> Iterator[Family]:
        files, counts = timers.files, timers.counts
        if files is None:
            return
        behind = max(self._store.max_offset(TIMER_TOPIC, 0) - files.queue_offset, 0)
        late_ms = max(self._clock.now_ms() - files.read_ms, 0) if files.wheel.used else 0
        yield gauge("rocketmq_timer_enqueue_lag", "Timed messages not yet in the wheel", behind)
        yield gauge("rocketmq_timer_dequeue_latency", "Milliseconds that timers are late", late_ms)
        yield counter("rocketmq_timer_enqueue_total", "Messages put into the wheel", counts.added)
        yield counter("rocketmq_timer_dequeue_total", "Timed messages delivered", counts.delivered)
        waiting = [((("topic", topic),), float(count)) for topic, count in counts.by_topic()]
        yield Family("rocketmq_timing_messages", "gauge", "Timed messages that wait", waiting)

    def _copies(self) -> Iterator[Family]:
        master, slave = self._replication.master, self._replication.slave
        end = self._store.log.written
        if master is not None:
            feeds = master.feeds
            lags = [((("slave", str(feed.address)),), float(max(end - feed.acked, 0))) for feed in feeds]
            yield gauge("firearrow_slaves", "Slaves that copy this log", len(feeds))
            yield Family("firearrow_replication_lag_bytes", "gauge", "Bytes that a slave has not acknowledged", lags)
        if slave is not None:
            yield gauge("firearrow_master_connected", "1 while the master's log is copied", float(slave.is_connected))

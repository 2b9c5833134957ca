"""The side of a broker that operators see: handlers and metrics. Wiring only."""

from firearrow.broker.assembly import Assembly, HandlerOwner
from firearrow.broker.consumer_side import ConsumerSide
from firearrow.broker.handlers.admin.runtime import RuntimeHandlers, StorageRows
from firearrow.broker.handlers.admin.timer import TimerHandlers
from firearrow.broker.handlers.admin.topic import TopicHandlers
from firearrow.broker.handlers.admin.topic_deletion import TopicDeletionHandlers
from firearrow.broker.handlers.admin.unserved import UnservedHandlers
from firearrow.broker.handlers.message.query import QueryHandlers
from firearrow.broker.metrics.delivery import DeliveryMetrics
from firearrow.broker.metrics.lag import LagMetrics
from firearrow.broker.metrics.load import LoadMetrics
from firearrow.broker.metrics.metrics import BrokerMetrics
from firearrow.broker.metrics.storage import StorageMetrics
from firearrow.broker.metrics.table_sizes import TableMetrics
from firearrow.broker.metrics.traffic import RecordSizes, TrafficMetrics
from firearrow.broker.registration import Registration
from firearrow.broker.replication.replication import Replication
from firearrow.broker.statistics.watch import Watch
from firearrow.broker.transaction.transactions import Transactions
from firearrow.runtime.service import Lifetime


def operator_handlers(
    assembly: Assembly,
    watch: Watch,
    consuming: ConsumerSide,
    transactions: Transactions,
    registration: Registration,
    *,
    instance: str,
) -> list[HandlerOwner]:
    """Return the handlers for operators."""
    store, settings, topics = assembly.store, assembly.settings, assembly.topics
    lanes, stats = assembly.lanes, assembly.stats
    return [
        TopicHandlers(
            registration.announced, topics=topics, store=store, lanes=lanes, gate=assembly.gate, settings=settings,
            identity=assembly.identity, stats=stats
        ),
        TopicDeletionHandlers(
            topics=topics, store=store, lanes=lanes, gate=assembly.gate, settings=settings, offsets=assembly.offsets,
            stats=stats, changes=assembly.changes
        ),
        RuntimeHandlers(
            StorageRows(store, assembly.disk, settings), store, watch, consuming.delays, consuming.timers,
            transactions.ends, stats=stats, lanes=lanes, booted_ms=assembly.clock.now_ms(), instance=instance
        ),
        TimerHandlers(consuming.timers),
        QueryHandlers(store, assembly.clients, lanes),
        UnservedHandlers(assembly.identity.ip, timers=settings.value.timers.timer_wheel_enable),
    ]  # fmt: skip


def show(
    assembly: Assembly,
    life: Lifetime,
    metrics: BrokerMetrics,
    load: LoadMetrics,
    consuming: ConsumerSide,
    transactions: Transactions,
    replication: Replication,
) -> None:
    """Show the parts of the broker, if metrics are shown at all."""
    if not metrics.is_on:
        return
    store, clock = assembly.store, assembly.clock
    limit = assembly.settings.value.operation.metrics_otel_cardinality_limit
    sizes = RecordSizes()
    store.views.dispatch.views.append(sizes.arrived)
    metrics.watch(
        life,
        TrafficMetrics(assembly.stats, assembly.topics, sizes, limit),
        LagMetrics(limit, offsets=assembly.offsets.table, topics=assembly.topics, store=store, clock=clock),
        StorageMetrics(store, assembly.disk, clock),
        TableMetrics(
            assembly.settings, assembly.topics, assembly.groups, new_names=assembly.new_names, clients=assembly.clients,
            offsets=assembly.offsets.table, locks=assembly.locks
        ),
        load,
        DeliveryMetrics(consuming.delays, consuming.timers, transactions, replication, store=store, clock=clock),
    )  # fmt: skip

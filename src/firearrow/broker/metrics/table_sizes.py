"""The tables of a broker and their clients: topics, groups, offsets, locks, members."""

from collections.abc import Iterator
from typing import Final

from firearrow.broker.metrics.storage import counter, gauge
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.clients import ClientTable
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.locks import QueueLocks
from firearrow.broker.tables.new_names import NewNames
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model.names import is_system_group
from firearrow.protocol.bodies.group.heartbeat import ConsumeType
from firearrow.telemetry.metrics import Family, Sample

REMOTING: Final = ("protocol_type", "remoting")
MODES: Final = {
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_POP: "pop",
}
"""The names in Apache's label ``consume_mode`` of the ways in which groups get messages."""


class TableMetrics:
    """Metrics of the tables of one broker."""

    def __init__(
        self,
        settings: LiveSettings,
        topics: TopicBook,
        groups: GroupBook,
        *,
        new_names: NewNames,
        clients: ClientTable,
        offsets: OffsetTable,
        locks: QueueLocks,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._groups = groups
        self._new_names = new_names
        self._clients = clients
        self._offsets = offsets
        self._locks = locks

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        yield gauge("rocketmq_broker_permission", "2 write, 4 read, 6 both", self._settings.broker.broker_permission)
        yield gauge("rocketmq_topic_number", "Topics", len(self._topics.table))
        yield gauge("rocketmq_consumer_group_number", "Consumer groups", len(self._groups.table))
        refused = self._new_names.refused
        yield counter("firearrow_new_names_refused_total", "Topics and groups not made for a bound", refused)
        yield gauge("firearrow_subscription_bytes", "Memory that groups and subscriptions count", self._clients.held)
        yield gauge("firearrow_consumer_offsets", "Offsets of groups in queues", len(self._offsets))
        yield gauge("firearrow_queue_locks", "Queues held by consumers in order", len(self._locks))
        yield Family("rocketmq_producer_connections", "gauge", "Producers", self._producers())
        yield Family("rocketmq_consumer_connections", "gauge", "Consumers", self._consumers())

    def _producers(self) -> Iterator[Sample]:
        for (language, version), count in list(self._clients.producer_kinds.items()):
            yield (("language", language.lower()), ("version", version.lower()), REMOTING), float(count)

    def _consumers(self) -> Iterator[Sample]:
        """Yield the members of every group. Groups may come and go between two of them."""
        for group in list(self._clients.groups()):
            name, mode = ("consumer_group", group.name), ("consume_mode", _mode(group.consume_type))
            system = ("is_system", "true" if is_system_group(group.name) else "false")
            for (language, version), count in list(group.kinds.items()):
                own = (name, ("language", language.lower()), ("version", version.lower()), mode)
                yield (*own, REMOTING, system), float(count)


def _mode(consume_type: str | None) -> str:
    found = next((mode for kind, mode in MODES.items() if kind == consume_type), None)
    return found or str(consume_type).lower()

"""``topicList``, ``topicRoute``, ``topicStatus``, ``topicClusterList``, ``allocateMQ``, ``statsAll``."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from firearrow.admin.topics import divided
from firearrow.cli.mqadmin.java_text import front, time_text
from firearrow.cli.mqadmin.session import ClusterView, Session, sorted_brokers
from firearrow.cli.mqadmin.topic.changes import TOPIC
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import FireArrowError
from firearrow.model import MessageQueue
from firearrow.model.flags import PERM_READ
from firearrow.model.names import DLQ_PREFIX, RETRY_PREFIX
from firearrow.protocol.bodies.admin.stats import ConsumeStats, OffsetWrapper
from firearrow.protocol.bodies.admin.topic import TopicOffset, TopicStatsTable
from firearrow.protocol.bodies.naming.route import TopicRouteData

ROUTE_FORM: Final = "%-45s %-32s %-50s %-10s %-11s %-5s"
STATUS_HEAD: Final = "%-32s  %-4s  %-20s  %-20s    %s"
STATUS_ROW: Final = "%-32s  %-4d  %-20d  %-20d    %s"
STATS_FORM: Final = "%-64s  %-64s %12s %11s %11s %14s %14s"


async def topics(session: Session) -> list[str]:
    """Return the names of all topics, sorted: Apache's tool has them in the order of a hash table."""
    return sorted(await session.cluster_admin.name_servers.topics())


async def consumers(session: Session, topic: str) -> list[str]:
    """Return the groups that consume a topic."""
    found: dict[str, None] = {}
    for _, address in await session.holders(topic):
        found |= dict.fromkeys(await session.admin.topics.at_broker.consumers(address, topic))
    return sorted(found)


async def topic_list(session: Session, given: OptionValues) -> None:
    """Print the names of all topics; with -c their clusters and groups, too."""
    if not given.has("c"):
        for topic in await topics(session):
            session.line("%s", topic)
        return
    cluster = await session.cluster()
    session.line("%-20s  %-48s  %-48s", "#Cluster Name", "#Topic", "#Consumer Group")
    for topic in await topics(session):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        name, groups = "", [""]
        try:
            name = _cluster_of(cluster, await session.route(topic))
            groups = await consumers(session, topic) or [""]
        except FireArrowError:
            pass  # a topic that goes away meanwhile keeps its line, as in Apache's tool
        for group in groups:
            session.line("%-20s  %-64s  %-64s", front(name, 20), front(topic, 64), front(group, 64))


def _cluster_of(cluster: ClusterView, route: TopicRouteData) -> str:
    broker = sorted_brokers(route)[0].broker_name
    return next((name for name, members in cluster.clusters.items() if broker in members), "null")


async def topic_route(session: Session, given: OptionValues) -> None:
    """Print the route of a topic, as JSON or as a table."""
    route = await session.route(given.text("t"))
    if not given.has("l"):
        session.line("%s", json_text(route))
        return
    queues = {data.broker_name: data for data in route.queue_datas}
    session.line(ROUTE_FORM, "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    for data in sorted_brokers(route):
        own = queues[data.broker_name]
        session.line(
            ROUTE_FORM, data.cluster, data.broker_name, data.broker_addrs, own.read_queue_nums, own.write_queue_nums,
            own.perm,
        )  # fmt: skip
    session.line("-" * 158)
    reads = sum(data.read_queue_nums for data in queues.values())
    writes = sum(data.write_queue_nums for data in queues.values())
    session.line(ROUTE_FORM, "Total:", len(queues), "", reads, writes, "")


def json_text(body: Any) -> str:  # noqa: ANN401 - any body, or plain values
    """Return a body as indented JSON, with the tabs of fastjson 2."""
    plain = msgspec.to_builtins(body, str_keys=False)
    return _indented(plain, "")


def _indented(value: Any, margin: str) -> str:  # noqa: ANN401
    inner = margin + "\t"
    if isinstance(value, dict):
        if not value:
            return "{}"
        members = [
            f"{inner}{key if isinstance(key, int) else _scalar(key)}:{_indented(each, inner)}"
            for key, each in value.items()
        ]
        return "{\n" + ",\n".join(members) + f"\n{margin}}}"
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        return "[\n" + ",\n".join(inner + _indented(each, inner) for each in value) + f"\n{margin}]"
    return _scalar(value)


def _scalar(value: Any) -> str:  # noqa: ANN401
    return msgspec.json.encode(value).decode()


async def topic_status(session: Session, given: OptionValues) -> None:
    """Print what each queue of a topic holds."""
    topic = given.text("t")
    table = await topic_stats(session, topic, given.text("c") or topic)
    session.line(STATUS_HEAD, "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    for queue in sorted(table.offset_table):
        held = table.offset_table[queue]
        when = time_text(held.last_update_timestamp) if held.last_update_timestamp > 0 else ""
        name = front(queue.broker_name, 32)
        session.line(STATUS_ROW, name, queue.queue_id, held.min_offset, held.max_offset, when)
    session.line("")
    session.line("Topic Put TPS: %s", str(float(table.topic_put_tps)))


async def topic_stats(session: Session, topic: str, route_of: str) -> TopicStatsTable:
    """Return the offsets of a topic at all brokers of a route."""
    offsets: dict[MessageQueue, TopicOffset] = {}
    tps = 0.0
    for _, address in await session.holders(route_of):
        found = await session.admin.topics.at_broker.stats(address, topic)
        offsets |= found.offset_table
        tps += found.topic_put_tps
    return TopicStatsTable(offset_table=offsets, topic_put_tps=tps)


async def topic_cluster_list(session: Session, given: OptionValues) -> None:
    """Print the clusters of a topic."""
    brokers = {data.broker_name for data in (await session.route(given.text("t"))).broker_datas}
    for name, members in (await session.cluster()).clusters.items():
        if brokers.intersection(members):
            session.line("%s", name)


async def allocate_mq(session: Session, given: OptionValues) -> None:
    """Print how the queues of a topic would be divided among clients."""
    route, topic = await session.route(given.text("t")), given.text("t")
    counts = {data.broker_name or "": data.read_queue_nums for data in route.queue_datas if data.perm & PERM_READ}
    queues = sorted(MessageQueue(topic, name, number) for name, count in counts.items() for number in range(count))
    clients = given.text("i").split(",")
    session.line("%s", msgspec.json.encode({"result": divided(queues, clients)}).decode())


async def stats_all(session: Session, given: OptionValues) -> None:
    """Print the traffic of every topic and of every group that consumes it."""
    session.line(
        STATS_FORM, "#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour"
    )
    for topic in await topics(session):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or (given.has("t") and topic != given.text("t")):
            continue
        try:
            await _print_traffic(session, topic, active=given.has("a"))
        except FireArrowError:
            continue  # as in Apache's tool: a topic that cannot be asked has no line


async def _print_traffic(session: Session, topic: str, *, active: bool) -> None:
    route = await session.route(topic)
    masters = [data.broker_addrs[0] for data in sorted_brokers(route) if 0 in data.broker_addrs]
    came_tps, came = await sums(session, masters, "TOPIC_PUT_NUMS", topic)
    groups = await consumers(session, topic)
    for group in groups:
        went_tps, went = await sums(session, masters, "GROUP_GET_NUMS", f"{topic}@{group}")
        behind = 0
        with suppress(FireArrowError):  # a group without offsets has none behind
            behind = max(0, total_diff(await consume_stats(session, group, topic)))
        if not active or came or went:
            session.line(
                "%-64s  %-64s %12d %11.2f %11.2f %14d %14d",
                front(topic, 64), front(group, 64), behind, came_tps, went_tps, came, went,
            )  # fmt: skip
    if not groups and (not active or came):
        session.line(
            "%-64s  %-64s %12d %11.2f %11s %14d %14s", front(topic, 64), "", 0, came_tps, "", came, "NO_CONSUMER"
        )


async def sums(session: Session, masters: Iterable[str], name: str, key: str) -> tuple[float, int]:
    """Return a statistic of masters, a second and over a day; a broker that has counted nothing refuses."""
    tps, count = 0.0, 0
    for address in masters:
        try:
            data = await session.admin.operations.statistics(address, name, key)
        except FireArrowError:
            continue
        tps += data.stats_minute.tps if data.stats_minute else 0.0
        spans = (data.stats_day, data.stats_hour, data.stats_minute)
        count += next((span.sum for span in spans if span is not None and span.sum), 0)
    return tps, count


async def consume_stats(session: Session, group: str, topic: str = "") -> ConsumeStats:
    """Return how far a group is, from every broker of its retry topic, or of the topic."""
    routes = [f"{RETRY_PREFIX}{group}", *([topic] if topic else [])]
    holders: list[tuple[str, str]] = []
    for number, name in enumerate(routes):
        try:
            holders = list(await session.holders(name))
            break
        except FireArrowError:
            if number == len(routes) - 1:
                raise
    offsets: dict[MessageQueue, OffsetWrapper] = {}
    tps = 0.0
    for _, address in holders:
        found = await session.admin.groups.at_broker.progress(address, group, topic)
        offsets |= found.offset_table
        tps += found.consume_tps
    return ConsumeStats(offset_table=offsets, consume_tps=tps)


def total_diff(stats: ConsumeStats) -> int:
    """Return how many messages a group is behind."""
    return sum(each.broker_offset - each.consumer_offset for each in stats.offset_table.values())


VERBS: Final = (
    Verb("topicRoute", "Examine topic route info.",
         (TOPIC, VerbOption("l", "list", "Use list format to print data", alone=True)), topic_route),
    Verb("topicStatus", "Examine topic Status info.",
         (TOPIC, VerbOption("c", "cluster", "cluster name or lmq parent topic, lmq is used to find the route.")),
         topic_status),
    Verb("topicClusterList", "Get cluster info for topic.", (TOPIC,), topic_cluster_list),
    Verb("topicList", "Fetch all topic list from name server.",
         (VerbOption("c", "clusterModel", "clusterModel", alone=True),), topic_list),
    Verb("allocateMQ", "Allocate MQ.", (TOPIC, VerbOption("i", "ipList", "ipList", required=True)), allocate_mq),
    Verb("statsAll", "Topic and Consumer tps stats.",
         (VerbOption("a", "activeTopic", "print active topic only", alone=True),
          VerbOption("t", "topic", "print select topic only")), stats_all),
)  # fmt: skip

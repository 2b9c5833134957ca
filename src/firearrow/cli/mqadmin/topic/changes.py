"""``updateTopic``, ``updateTopicList``, ``updateTopicPerm``, ``deleteTopic``, ``updateOrderConf``."""

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from firearrow import fastjson
from firearrow.cli.mqadmin.java_text import java
from firearrow.cli.mqadmin.places import masters
from firearrow.cli.mqadmin.session import Session, sorted_brokers
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption, usage_needed
from firearrow.errors import BadBody, NoSuchName, SettingsError
from firearrow.model.flags import perm_text, topic_sys_flag
from firearrow.protocol.bodies.admin.topic import TopicConfig

T = TypeVar("T", bound=msgspec.Struct)

QUEUES: Final = 8
PERM: Final = 6


def attributes_of(text: str) -> dict[str, str]:
    """Read ``+a=b,+c=d,-e`` into its changes, by name with their signs."""
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, sign, value = part.partition("=")
        if name[:1] not in ("+", "-") or (name[0] == "+") != bool(sign):
            raise SettingsError(f"the attribute {part!r} is neither +name=value nor -name; write it as one of the two")
        found[name] = value
    return found


def topic_text(config: TopicConfig) -> str:
    """Return a topic as ``TopicConfig.toString`` does."""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={java(config.order)}, attributes={java(config.attributes)}]"
    )


async def update_topic(session: Session, given: OptionValues) -> None:
    """Make or change a topic at one broker or at all masters of a cluster."""
    config = TopicConfig(
        topic_name=given.text("t"),
        read_queue_nums=given.number("r", QUEUES),
        write_queue_nums=given.number("w", QUEUES),
        perm=given.number("p", PERM),
        order=given.truth("o"),
        topic_sys_flag=topic_sys_flag(unit=given.truth("u"), unit_sub=given.truth("s")),
        attributes=attributes_of(given.text("a")),
    )
    if given.has("b"):
        address = given.text("b")
        await session.admin.topics.at_broker.put(address, config)
        if config.order:
            part = f"{(await session.cluster()).name_of(address)}:{config.write_queue_nums}"
            await _add_order(session, given.text("t"), part)
            session.line("set broker orderConf. isOrder=%s, orderConf=[%s]", config.order, part)
        session.line("create topic to %s success.", address)
    else:
        cluster = await session.cluster()
        for address in cluster.masters(given.text("c")):
            await session.admin.topics.at_broker.put(address, config)
            session.line("create topic to %s success.", address)
        if config.order:
            text = ";".join(f"{name}:{config.write_queue_nums}" for name in cluster.names(given.text("c")))
            await session.cluster_admin.topics.put_order_text(given.text("t"), text)
            session.line("set cluster orderConf. isOrder=%s, orderConf=[%s]", config.order, text)
    session.line("%s", topic_text(config))


async def _add_order(session: Session, topic: str, part: str) -> None:
    topics = session.cluster_admin.topics
    before = await topics.order_text(topic) or ""
    parts = {each.partition(":")[0]: each for each in before.split(";") if each}
    await topics.put_order_text(topic, ";".join((parts | {part.partition(":")[0]: part}).values()))


async def update_topic_list(session: Session, given: OptionValues) -> None:
    """Make or change the topics of a JSON file."""
    configs = read_list(given.text("f"), TopicConfig)
    if not configs:
        return
    for address in await masters(session, given):
        await session.admin.topics.at_broker.put_all(address, configs)
        session.line("submit batch of topic config to %s success, please check the result later.", address)


def read_list(file: str, kind: type[T]) -> list[T]:
    """Read a JSON array of settings from a file."""
    try:
        return fastjson.decode(Path(file).read_bytes(), list[kind])  # type: ignore[valid-type]
    except OSError as error:
        raise SettingsError(f"the file path {file} does not exists, or cannot be read: {error}; check -f") from error
    except BadBody as error:
        raise SettingsError(f"{file} is no JSON array of {kind.__name__}: {error}") from error


async def update_topic_perm(session: Session, given: OptionValues) -> None:
    """Change the permission of a topic at one broker or at all masters of a cluster."""
    topic, perm = given.text("t"), given.number("p")
    route = await session.route(topic)
    by_broker = {data.broker_name: data for data in route.queue_datas}
    first = route.queue_datas[0]
    config = TopicConfig(
        topic_name=topic,
        read_queue_nums=first.read_queue_nums,
        write_queue_nums=first.write_queue_nums,
        topic_sys_flag=first.topic_sys_flag,
        perm=perm,
    )
    if given.has("b"):
        address = given.text("b")
        name = next((data.broker_name for data in sorted_brokers(route) if data.broker_addrs.get(0) == address), None)
        if name is None:
            raise NoSuchName(
                f"{address} is no master that has topic {topic!r}; mqadmin topicRoute -t {topic} shows the addresses"
            )
        before = by_broker[name].perm if name in by_broker else 0
        if before == perm:
            session.line("new perm equals to the old one!")
            return
        await session.admin.topics.at_broker.put(address, config)
        session.line("update topic perm from %s to %s in %s success.", before, perm, address)
        session.line("%s.", topic_text(config))
    elif given.has("c"):
        for address in (await session.cluster()).masters(given.text("c")):
            await session.admin.topics.at_broker.put(address, config)
            session.line("update topic perm from %s to %s in %s success.", first.perm, perm, address)
    else:
        usage_needed()


async def delete_topic(session: Session, given: OptionValues) -> None:
    """Delete a topic at all masters of a cluster and at the name servers."""
    await drop_topic(session, given.text("t"), given.text("c"))
    session.line("delete topic [%s] from cluster [%s] success.", given.text("t"), given.text("c"))
    session.line("delete topic [%s] from NameServer success.", given.text("t"))


async def drop_topic(session: Session, topic: str, cluster: str) -> None:
    """Delete a topic at all masters of a cluster and at the name servers, without a word."""
    for address in (await session.cluster()).masters(cluster):
        await session.admin.topics.at_broker.delete(address, topic)
    await session.admin.name_servers.forget_topic(topic, cluster)


async def update_order_conf(session: Session, given: OptionValues) -> None:
    """Show, set or remove the text of strict order of a topic."""
    topic, method = given.text("t"), given.text("m")
    if method == "get":
        found = await session.cluster_admin.topics.order_text(topic)
        if found is None:
            raise NoSuchName(f"topic {topic!r} has no order conf (code 22); set one with -m put -v BROKER:QUEUES")
        session.write("get orderConf success. topic=[%s], orderConf=[%s] ", topic, found)
    elif method == "put":
        if not given.text("v"):
            raise SettingsError("please set orderConf with option -v.")
        await session.cluster_admin.topics.put_order_text(topic, given.text("v"))
        session.write("update orderConf success. topic=[%s], orderConf=[%s]", topic, given.text("v"))
    elif method == "delete":
        await session.cluster_admin.topics.delete_order_text(topic)
        session.write("delete orderConf success. topic=[%s]", topic)
    else:
        usage_needed()


PLACE: Final = (
    VerbOption("b", "brokerAddr", "create topic to which broker"),
    VerbOption("c", "clusterName", "create topic to which cluster"),
)
PERM_HELP: Final = "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"
TOPIC: Final = VerbOption("t", "topic", "topic name", required=True)
VERBS: Final = (
    Verb("updateTopic", "Update or create topic.",
         (*PLACE, VerbOption("a", "attributes", "attribute(+a=b,+c=d,-e)"), TOPIC,
          VerbOption("r", "readQueueNums", "set read queue nums"), VerbOption("w", "writeQueueNums",
          "set write queue nums"),
          VerbOption("p", "perm", PERM_HELP), VerbOption("o", "order", "set topic's order(true|false)"),
          VerbOption("u", "unit", "is unit topic (true|false)"), VerbOption("s", "hasUnitSub",
          "has unit sub (true|false)")),
         update_topic, either=(("b", "c"),)),
    Verb("updateTopicList", "create or update topic in batch",
         (*PLACE, VerbOption("f", "filename", "Path to a file with list of TopicConfig in json format", required=True)),
         update_topic_list, either=(("b", "c"),)),
    Verb("updateTopicPerm", "Update topic perm.", (*PLACE, TOPIC, VerbOption("p", "perm", PERM_HELP, required=True)),
         update_topic_perm),
    Verb("deleteTopic", "Delete topic from broker and NameServer.",
         (TOPIC, VerbOption("c", "clusterName", "delete topic from which cluster", required=True)), delete_topic),
    Verb("updateOrderConf", "Create or update or delete order conf.",
         (TOPIC, VerbOption("v", "orderConf", "set order conf [eg. brokerName1:num;brokerName2:num]"),
          VerbOption("m", "method", "option type [eg. put|get|delete", required=True)),
         update_order_conf),
)  # fmt: skip

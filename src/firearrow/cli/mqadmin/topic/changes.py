"""``updateTopic``, ``updateTopicList``, ``updateTopicPerm``, ``deleteTopic``, ``updateOrderConf``."""

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from firearrow import fastjson
from firearrow.admin.topics import ORDER_TOPIC_CONFIG
from firearrow.cli.mqadmin.java_text import java
from firearrow.cli.mqadmin.session import Session, sorted_brokers
from firearrow.cli.mqadmin.verb import Given, Option, Verb, usage_needed
from firearrow.errors import BadBody, NoSuchName, SettingsError
from firearrow.model.flags import perm_text, topic_sys_flag
from firearrow.model.names import AUTO_CREATE_TOPIC
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker, UpdateAndCreateTopic, UpdateAndCreateTopicList
from firearrow.protocol.requests.naming.kv_config import DeleteKvConfig, GetKvConfig, PutKvConfig
from firearrow.protocol.requests.naming.route import DeleteTopicInNamesrv

T = TypeVar("T", bound=msgspec.Struct)

QUEUES: Final = 8
PERM: Final = 6
_FOUND_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})


def attributes_of(text: str) -> dict[str, str]:
    """Read ``+a=b,+c=d,-e`` into its changes, by name with their signs."""
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, sign, value = part.partition("=")
        if name[:1] not in ("+", "-") or (name[0] == "+") != bool(sign):
            raise SettingsError(f"the attribute {part!r} is neither +name=value nor -name; write it as one of the two")
        found[name] = value
    return found


def attribute_text(changes: dict[str, str]) -> str:
    """Return the changes in the form in which they are sent."""
    return ",".join(f"{name}={value}" if name.startswith("+") else name for name, value in changes.items())


def topic_text(config: TopicConfig) -> str:
    """Return a topic as ``TopicConfig.toString`` does."""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={java(config.order)}, attributes={java(config.attributes)}]"
    )


def request_of(config: TopicConfig) -> UpdateAndCreateTopic:
    """Return the request that makes or changes a topic."""
    return UpdateAndCreateTopic(
        topic=config.topic_name or "",
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=attribute_text(config.attributes),
    )


async def update_topic(session: Session, given: Given) -> None:
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
        await session.ask(address, request_of(config))
        if config.order:
            part = f"{(await session.cluster()).name_of(address)}:{config.write_queue_nums}"
            await _add_order(session, given.text("t"), part)
            session.line("set broker orderConf. isOrder=%s, orderConf=[%s]", config.order, part)
        session.line("create topic to %s success.", address)
    else:
        cluster = await session.cluster()
        for address in cluster.masters(given.text("c")):
            await session.ask(address, request_of(config))
            session.line("create topic to %s success.", address)
        if config.order:
            text = ";".join(f"{name}:{config.write_queue_nums}" for name in cluster.names(given.text("c")))
            await _put_order(session, given.text("t"), text)
            session.line("set cluster orderConf. isOrder=%s, orderConf=[%s]", config.order, text)
    session.line("%s", topic_text(config))


async def _put_order(session: Session, topic: str, text: str) -> None:
    await session.tell_name_servers(PutKvConfig(namespace=ORDER_TOPIC_CONFIG, key=topic, value=text))


async def _add_order(session: Session, topic: str, part: str) -> None:
    before = await _order(session, topic) or ""
    parts = {each.partition(":")[0]: each for each in before.split(";") if each}
    await _put_order(session, topic, ";".join((parts | {part.partition(":")[0]: part}).values()))


async def _order(session: Session, topic: str) -> str | None:
    session.check_name_servers()
    request = GetKvConfig(namespace=ORDER_TOPIC_CONFIG, key=topic)
    reply = await session.admin.brokers.ask_name_server(request, accept=_FOUND_OR_NOT)
    return reply.answer.value if reply.code == ResponseCode.SUCCESS else None


async def update_topic_list(session: Session, given: Given) -> None:
    """Make or change the topics of a JSON file."""
    configs = read_list(given.text("f"), TopicConfig)
    if not configs:
        return
    body = encode_body(CreateTopicListBody(topic_config_list=configs))
    there = [given.text("b")] if given.has("b") else (await session.cluster()).masters(given.text("c"))
    for address in there:
        await session.ask(address, UpdateAndCreateTopicList(), body)
        session.line("submit batch of topic config to %s success, please check the result later.", address)


def read_list(file: str, kind: type[T]) -> list[T]:
    """Read a JSON array of settings from a file."""
    try:
        return fastjson.decode(Path(file).read_bytes(), list[kind])  # type: ignore[valid-type]
    except OSError as error:
        raise SettingsError(f"the file path {file} does not exists, or cannot be read: {error}; check -f") from error
    except BadBody as error:
        raise SettingsError(f"{file} is no JSON array of {kind.__name__}: {error}") from error


async def update_topic_perm(session: Session, given: Given) -> None:
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
        await session.ask(address, request_of(config))
        session.line("update topic perm from %s to %s in %s success.", before, perm, address)
        session.line("%s.", topic_text(config))
    elif given.has("c"):
        for address in (await session.cluster()).masters(given.text("c")):
            await session.ask(address, request_of(config))
            session.line("update topic perm from %s to %s in %s success.", first.perm, perm, address)
    else:
        usage_needed()


async def delete_topic(session: Session, given: Given) -> None:
    """Delete a topic at all masters of a cluster and at the name servers."""
    await drop_topic(session, given.text("t"), given.text("c"))
    session.line("delete topic [%s] from cluster [%s] success.", given.text("t"), given.text("c"))
    session.line("delete topic [%s] from NameServer success.", given.text("t"))


async def drop_topic(session: Session, topic: str, cluster: str) -> None:
    """Delete a topic at all masters of a cluster and at the name servers, without a word."""
    for address in (await session.cluster()).masters(cluster):
        await session.ask(address, DeleteTopicInBroker(topic=topic))
    await session.tell_name_servers(DeleteTopicInNamesrv(topic=topic, cluster_name=cluster))


async def update_order_conf(session: Session, given: Given) -> None:
    """Show, set or remove the text of strict order of a topic."""
    topic, method = given.text("t"), given.text("m")
    if method == "get":
        found = await _order(session, topic)
        if found is None:
            raise NoSuchName(f"topic {topic!r} has no order conf (code 22); set one with -m put -v BROKER:QUEUES")
        session.write("get orderConf success. topic=[%s], orderConf=[%s] ", topic, found)
    elif method == "put":
        if not given.text("v"):
            raise SettingsError("please set orderConf with option -v.")
        await _put_order(session, topic, given.text("v"))
        session.write("update orderConf success. topic=[%s], orderConf=[%s]", topic, given.text("v"))
    elif method == "delete":
        await session.tell_name_servers(DeleteKvConfig(namespace=ORDER_TOPIC_CONFIG, key=topic))
        session.write("delete orderConf success. topic=[%s]", topic)
    else:
        usage_needed()


PLACE: Final = (
    Option("b", "brokerAddr", "create topic to which broker"),
    Option("c", "clusterName", "create topic to which cluster"),
)
PERM_HELP: Final = "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"
TOPIC: Final = Option("t", "topic", "topic name", required=True)
VERBS: Final = (
    Verb(
        "updateTopic",
        "Update or create topic.",
        (
            *PLACE,
            Option("a", "attributes", "attribute(+a=b,+c=d,-e)"),
            TOPIC,
            Option("r", "readQueueNums", "set read queue nums"),
            Option("w", "writeQueueNums", "set write queue nums"),
            Option("p", "perm", PERM_HELP),
            Option("o", "order", "set topic's order(true|false)"),
            Option("u", "unit", "is unit topic (true|false)"),
            Option("s", "hasUnitSub", "has unit sub (true|false)"),
        ),
        update_topic,
        either=(("b", "c"),),
    ),
    Verb(
        "updateTopicList",
        "create or update topic in batch",
        (
            *PLACE,
            Option("f", "filename", "Path to a file with list of TopicConfig in json format", required=True),
        ),
        update_topic_list,
        either=(("b", "c"),),
    ),
    Verb(
        "updateTopicPerm",
        "Update topic perm.",
        (*PLACE, TOPIC, Option("p", "perm", PERM_HELP, required=True)),
        update_topic_perm,
    ),
    Verb(
        "deleteTopic",
        "Delete topic from broker and NameServer.",
        (TOPIC, Option("c", "clusterName", "delete topic from which cluster", required=True)),
        delete_topic,
    ),
    Verb(
        "updateOrderConf",
        "Create or update or delete order conf.",
        (
            TOPIC,
            Option("v", "orderConf", "set order conf [eg. brokerName1:num;brokerName2:num]"),
            Option("m", "method", "option type [eg. put|get|delete", required=True),
        ),
        update_order_conf,
    ),
)

"""``queryMsgById``, ``queryMsgByKey``, ``queryMsgByUniqueKey``, ``queryMsgByOffset``, ``queryMsgTraceById``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from firearrow.admin.messages import LATEST_MS
from firearrow.cli.mqadmin.group.clients import TYPE, running_info
from firearrow.cli.mqadmin.java_text import java
from firearrow.cli.mqadmin.message.message_text import offset_id, print_message, pulled_properties, shown_id, tracks
from firearrow.cli.mqadmin.message.sending import producing, result_text
from firearrow.cli.mqadmin.message.trace_text import print_traces
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.client import MessageQueue, PullConsumer, PulledBytes, PullStatus
from firearrow.errors import FireArrowError, NoSuchName, SettingsError
from firearrow.model import Message, StoredMessage
from firearrow.model.names import TOOLS_CONSUMER_GROUP, TRACE_TOPIC
from firearrow.protocol.bodies.group.heartbeat import ConsumeType
from firearrow.protocol.bodies.group.running_info import ConsumeMessageDirectlyResult

if TYPE_CHECKING:
    from firearrow.admin.messages import FoundMessage

KEYS_MOST: Final = 64
KEYS: Final = "K"
TAGS: Final = "T"
HOUR_MS: Final = 3_600_000


async def query_by_id(session: Session, given: OptionValues) -> None:
    """Print a message, let a member consume it now (-g -d), or send it again (-s true)."""
    messages, topic, cluster = session.cluster_admin.messages, given.text("t"), given.text("c")
    is_push, is_again = given.has("g") and given.has("d"), given.has("s")
    if is_again and not (is_push or given.truth("s")):
        return
    for each in (text.strip() for text in given.text("i").split(",") if text.strip()):
        found = (await messages.get(each, topic, cluster))[0]
        if is_push:
            await _push(session, found, given.text("g"), given.text("d"))
        elif is_again:
            await _send_again(session, found.stored, each)
        else:
            await print_found(session, found.stored, given.text("f"))


async def print_found(
    session: Session, message: StoredMessage, charset: str = "", more: Mapping[str, str] | None = None
) -> None:
    """Print a message and where groups stand with it."""
    session.line("%-20s %s", "OffsetID:", offset_id(message))
    print_message(session, message, charset, more=more)
    await _print_tracks(session, message, "\n")


async def _print_tracks(session: Session, message: StoredMessage, end: str) -> None:
    try:
        found = await tracks(session, message)
    except FireArrowError as error:
        session.failed(error)
        return
    session.write("\n\n" if found else "\n\nWARN: No Consumer")
    for track in found:
        session.write(f"%s{end}", track)


async def _push(session: Session, found: "FoundMessage", group: str, client: str) -> None:
    info = await running_info(session, group, client)
    if info.properties.get(TYPE) != ConsumeType.CONSUME_PASSIVELY:
        session.line("this %s client is not push consumer ,not support direct push ", client)
        return
    session.write("%s", direct_text(await session.admin.messages.consume_again(found, group, client)))


def direct_text(result: ConsumeMessageDirectlyResult) -> str:
    """Return what came of a message that was consumed on request, as Java does."""
    return (
        f"ConsumeMessageDirectlyResult [order={java(result.order)}, autoCommit={java(result.auto_commit)}, "
        f"consumeResult={java(result.consume_result)}, remark={java(result.remark)}, "
        f"spentTimeMills={result.spent_time_mills}]"
    )


async def _send_again(session: Session, message: StoredMessage, message_id: str) -> None:
    session.write("prepare resend msg. originalMsgId=%s", message_id)
    async with producing(session, "ReSendMsgById") as producer:
        again = Message(message.topic, message.body, message.properties, message.flag)
        session.write("%s", result_text(await producer.send(again)))


async def query_by_key(session: Session, given: OptionValues) -> None:
    """Print the messages of a topic that have a key."""
    kind = given.text("p", KEYS)
    if kind not in (KEYS, TAGS):
        raise SettingsError("index type error, just support K for keys or T for tags")
    if kind == TAGS:
        raise SettingsError("tags are indexed in RocksDB alone, which is not supported; filter with printMsg -s TAG")
    found = await session.admin.messages.query(
        given.text("t"),
        given.text("k"),
        begin_ms=given.number("b"),
        end_ms=given.number("e", LATEST_MS),
        most=given.number("m", KEYS_MOST),
        cluster=given.text("c"),
    )
    session.line("%-50s %4s %40s %-200s", "#Message ID", "#QID", "#Offset", "#IndexKey")
    for stored in (each.stored for each in found):
        hour = stored.store_timestamp // HOUR_MS * HOUR_MS
        key = f"{hour}@{stored.topic}@{kind}@{given.text('k')}@{shown_id(stored)}@{stored.physical_offset}"
        session.line("%-50s %4d %40d %-200s", shown_id(stored), stored.queue_id, stored.queue_offset, key)


async def query_by_unique_key(session: Session, given: OptionValues) -> None:
    """Print the messages with the id that a producer gave, or let a member consume it now (-g -d)."""
    found = await _by_unique_key(session, given)
    if given.has("g") and given.has("d"):
        await _push(session, found[0], given.text("g"), given.text("d"))
        return
    for number, each in enumerate(found if given.has("a") else found[:1]):
        print_message(session, each.stored, suffix=f"_{number}" if number else "")
        await _print_tracks(session, each.stored, "")


async def _by_unique_key(session: Session, given: OptionValues) -> Sequence["FoundMessage"]:
    message_id, topic, cluster = given.text("i"), given.text("t"), given.text("c")
    messages = session.cluster_admin.messages
    if not (given.has("s") and given.has("e")):  # Apache's tool takes both or none
        return await messages.get(message_id, topic, cluster)
    begin, end = given.number("s"), given.number("e")
    found = await messages.by_unique_key(topic, message_id, begin_ms=begin, end_ms=end, cluster=cluster)
    if not found:
        raise NoSuchName(f"topic {topic!r} has no message {message_id} that was stored from {begin} to {end}")
    return found


async def query_by_offset(session: Session, given: OptionValues) -> None:
    """Print the message at an offset of a queue; -r names the topic by which its broker is found."""
    queue = MessageQueue(given.text("t"), given.text("b"), given.number("i"))
    pulled = await (_pulled_by_route if given.has("r") else _pulled)(session, given, queue)
    if pulled.status is not PullStatus.FOUND:
        raise NoSuchName(
            f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name} has no message at {given.number('o')}; "
            f"mqadmin topicStatus -t {queue.topic} shows its bounds"
        )
    more = pulled_properties(pulled.min_offset, pulled.max_offset)
    await print_found(session, pulled.messages()[0], given.text("f"), more)


async def _pulled(session: Session, given: OptionValues, queue: MessageQueue) -> PulledBytes:
    async with PullConsumer(session.name_servers, group=TOOLS_CONSUMER_GROUP, **session.reach) as consumer:
        return await consumer.pull_bytes(queue, given.number("o"), max_messages=1)


async def _pulled_by_route(session: Session, given: OptionValues, queue: MessageQueue) -> PulledBytes:
    """Pull from a topic that name servers do not know, such as those in which delayed messages wait."""
    route = given.text("r")
    address = dict(await session.holders(route)).get(queue.broker_name)
    if address is None:
        raise NoSuchName(
            f"topic {route!r} has no queue at broker {queue.broker_name!r}; mqadmin topicRoute -t {route} shows where"
        )
    return await session.admin.messages.pull_one(address, queue, given.number("o"), TOOLS_CONSUMER_GROUP)


async def query_trace(session: Session, given: OptionValues) -> None:
    """Print who sent and consumed a message, from the trace topic."""
    topic = given.text("t", TRACE_TOPIC)
    found = await session.admin.messages.query(
        topic,
        given.text("i"),
        begin_ms=given.number("b"),
        end_ms=given.number("e", LATEST_MS),
        most=given.number("c", KEYS_MOST),
    )
    print_traces(session, given.text("i"), [each.stored for each in found])


TOPIC: Final = VerbOption("t", "topic", "topic name", required=True)
CLUSTER: Final = VerbOption("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route.")
SPAN: Final = (
    VerbOption("b", "beginTimestamp", "Begin timestamp(ms). default:0, eg:1676730526212"),
    VerbOption("e", "endTimestamp", "End timestamp(ms). default:Long.MAX_VALUE, eg:1676730526212"),
)
MEMBER: Final = (
    VerbOption("g", "consumerGroup", "consumer group name"),
    VerbOption("d", "clientId", "The consumer's client id"),
)
VERBS: Final = (
    Verb("queryMsgById", "Query Message by Id.",
         (TOPIC, VerbOption("i", "msgId", "Message Id", required=True), *MEMBER,
          VerbOption("s", "sendMessage", "resend message"),
          VerbOption("u", "unitName", "unit name",
                 why_not="units are not offered; leave it away, the message is sent again without a unit"),
          VerbOption("f", "bodyFormat", "print message body by the specified format"), CLUSTER),
         query_by_id),
    Verb("queryMsgByKey", "Query Message by Key.",
         (VerbOption("t", "topic", "Topic name", required=True), VerbOption("k", "msgKey", "Message Key",
         required=True),
          *SPAN, VerbOption("m", "maxNum", "The maximum number of messages returned by the query, default:64"), CLUSTER,
          VerbOption("p", "keyType",
                 "Index key type, default index key type is K, you can use K for keys OR T for tags"),
          VerbOption("l", "lastKey", "Last Key",
                 why_not="it goes on in an index in RocksDB, and there is none; use -b and -e for a part")),
         query_by_key),
    Verb("queryMsgByUniqueKey", "Query Message by Unique key.",
         (VerbOption("i", "msgId", "Message Id", required=True), *MEMBER,
          VerbOption("t", "topic", "The topic of msg", required=True),
          VerbOption("a", "showAll", "Print all message, the limit is 32", alone=True), CLUSTER,
          VerbOption("s", "startTime", "startTime"), VerbOption("e", "endTime", "endTime")),
         query_by_unique_key),
    Verb("queryMsgByOffset", "Query Message by offset.",
         (TOPIC, VerbOption("b", "brokerName", "Broker Name", required=True),
          VerbOption("i", "queueId", "Queue Id", required=True), VerbOption("o", "offset", "Queue Offset",
          required=True),
          VerbOption("f", "bodyFormat", "print message body by the specified format"),
          VerbOption("r", "routeTopic", "the topic which is used to find route info")),
         query_by_offset),
    Verb("queryMsgTraceById", "Query a message trace.",
         (VerbOption("i", "msgId", "Message Id", required=True),
          VerbOption("t", "traceTopic", "The name value of message trace topic"), *SPAN,
          VerbOption("c", "maxNum", "The maximum number of messages returned by the query, default:64")),
         query_trace),
)  # fmt: skip

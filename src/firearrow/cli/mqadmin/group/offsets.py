"""``resetOffsetByTime``, ``skipAccumulatedMessage``, ``cloneGroupOffset``."""

from typing import Final

from firearrow.cli.mqadmin.java_text import front, read_time
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.views import consume_stats
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import RequestRefused
from firearrow.model import MessageQueue
from firearrow.model.names import TIMER_TOPIC
from firearrow.protocol.bodies.admin.stats import OffsetWrapper
from firearrow.protocol.codes import ResponseCode
from firearrow.runtime.clock import SystemClock

TO_THE_END: Final = -1
LIGHT_QUEUES: Final = "%LMQ%"
NEW_FORM: Final = "%-40s  %-40s  %-40s"
OLD_FORM: Final = "%-20s  %-20s  %-20s  %-20s  %-20s  %-20s"
OLD_HEAD: Final = ("#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset")
Rollback = tuple[str | None, int, int, int, int, int]


async def reset_offset_by_time(session: Session, given: OptionValues) -> None:
    """Move a group to a time: through the broker while it has members, else by writing its offsets."""
    group, topic, told = given.text("g"), given.text("t"), given.text("s")
    ms = SystemClock().now_ms() if told == "now" else read_time(told)
    if given.has("b") and given.has("q"):
        await _reset_queue(session, given, ms)
        return
    force = given.truth("f", True)
    words = "group[%s], topic[%s], force[%s], timestamp(string)[%s], timestamp(long)[%s]"
    routed = _routed(given, topic)
    moved = await _reset(session, group, topic, ms, routed, force=force)
    if moved is None:
        rows = await _rollbacks(session, group, topic, ms, routed, force=force)
        session.line(f"reset consumer offset by specified consumer{words.capitalize()}", group, topic, force, told, ms)
        _print_rollbacks(session, rows, "#resetOffset")
        return
    session.line(f"start reset consumer offset by specified, {words}", group, topic, force, told, ms)
    _print_moves(session, moved)


def _routed(given: OptionValues, topic: str) -> str:
    """Return the topic whose route is asked for: that of ``-c`` for a topic that name servers do not know."""
    is_hidden = topic == TIMER_TOPIC or topic.startswith(LIGHT_QUEUES)
    return given.text("c") if given.has("c") and is_hidden else topic


async def _reset_queue(session: Session, given: OptionValues, ms: int) -> None:
    group, topic, address, number = given.text("g"), given.text("t"), given.text("b"), given.number("q")
    session.line(
        "start reset consumer offset by specified, group[%s], topic[%s], queueId[%s], broker[%s], "
        "timestamp(string)[%s], timestamp(long)[%s]",
        group, topic, number, address, given.text("s"), ms,
    )  # fmt: skip
    offsets, queue = session.admin.offsets.at_broker, MessageQueue(topic, "", number)
    offset = given.number("o") if given.has("o") else await offsets.at_time(address, queue, ms)
    session.line("reset consumer offset to %d", offset)
    if offset > 0:
        await offsets.write(address, group, queue, offset)
        await offsets.reset_queue(address, group, queue, offset)


async def _reset(
    session: Session, group: str, topic: str, ms: int, routed: str, *, force: bool
) -> dict[MessageQueue, int] | None:
    """Ask brokers to move a group; None if it has no members at one of them."""
    found: dict[MessageQueue, int] = {}
    for _, address in await session.holders(routed):
        try:
            found |= await session.admin.offsets.at_broker.reset(address, group, topic, ms, force=force)
        except RequestRefused as refusal:
            if refusal.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
    return found


def _print_moves(session: Session, moved: dict[MessageQueue, int]) -> None:
    session.line(NEW_FORM, "#brokerName", "#queueId", "#offset")
    for queue, offset in sorted(moved.items()):
        session.line(NEW_FORM, front(queue.broker_name, 32), queue.queue_id, offset)


async def _rollbacks(session: Session, group: str, topic: str, ms: int, routed: str, *, force: bool) -> list[Rollback]:
    """Write the offsets of a group without members."""
    rows = []
    route = await session.route(routed)
    counts = {data.broker_name: data.read_queue_nums for data in route.queue_datas}
    for name, address in await session.holders(routed):
        stats = await session.admin.groups.at_broker.progress(address, group)
        held = {queue: each for queue, each in stats.offset_table.items() if queue.topic == topic}
        if not held:
            table = (await session.admin.topics.at_broker.stats(address, topic)).offset_table
            queues = [MessageQueue(topic, name, number) for number in range(counts.get(name, 0))]
            held = {
                queue: OffsetWrapper(broker_offset=table[queue].max_offset, consumer_offset=table[queue].min_offset)
                for queue in queues
                if queue in table
            }
        for queue in sorted(held):
            rows.append(await _rollback(session, address, group, queue, held[queue], ms, force=force))
    return rows


async def _rollback(
    session: Session, address: str, group: str, queue: MessageQueue, held: OffsetWrapper, ms: int, *, force: bool
) -> Rollback:
    offsets = session.admin.offsets.at_broker
    offset = await (offsets.end(address, queue) if ms == TO_THE_END else offsets.at_time(address, queue, ms))
    moved = force or offset <= held.consumer_offset
    if moved:
        await offsets.write(address, group, queue, offset)
    reached = offset if moved else held.consumer_offset
    return front(queue.broker_name, 32), queue.queue_id, held.broker_offset, held.consumer_offset, offset, reached


def _print_rollbacks(session: Session, rows: list[Rollback], last: str) -> None:
    session.line(OLD_FORM, *OLD_HEAD, last)
    for row in rows:
        session.line(OLD_FORM, *row)


async def skip_accumulated(session: Session, given: OptionValues) -> None:
    """Move a group behind the last message of a topic."""
    group, topic, force = given.text("g"), given.text("t"), given.truth("f", True)
    routed = _routed(given, topic)
    moved = await _reset(session, group, topic, TO_THE_END, routed, force=force)
    if moved is None:
        rows = await _rollbacks(session, group, topic, TO_THE_END, routed, force=force)
        _print_rollbacks(session, rows, "#rollbackOffset")
    else:
        _print_moves(session, moved)


async def clone_group_offset(session: Session, given: OptionValues) -> None:
    """Give a group the offsets of another one, in all topics of that one, as Apache's tool does."""
    source, target, topic = given.text("s"), given.text("d"), given.text("t")
    stats = await consume_stats(session, source)
    addresses = dict(await session.holders(topic)) if stats.offset_table else {}
    for queue, each in sorted(stats.offset_table.items()):
        if each.consumer_offset >= 0 and queue.broker_name in addresses:
            address = addresses[queue.broker_name]
            await session.admin.offsets.at_broker.write(address, target, queue, each.consumer_offset)
    session.write("clone group offset success. srcGroup[%s], destGroup=[%s], topic[%s]", source, target, topic)


GROUP: Final = VerbOption("g", "group", "set the consumer group", required=True)
TOPIC: Final = VerbOption("t", "topic", "set the topic", required=True)
CLUSTER: Final = VerbOption("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route.")
VERBS: Final = (
    Verb("cloneGroupOffset", "Clone offset from other group.",
         (VerbOption("s", "srcGroup", "set source consumer group", required=True),
          VerbOption("d", "destGroup", "set destination consumer group", required=True), TOPIC,
          VerbOption("o", "offline", "the group or the topic is offline", is_idle=True)),
         clone_group_offset),
    Verb("resetOffsetByTime", "Reset consumer offset by timestamp(without client restart).",
         (GROUP, TOPIC,
          VerbOption("s", "timestamp", "set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]",
          required=True),
          VerbOption("f", "force", "set the force rollback by timestamp switch[true|false]. Deprecated."),
          VerbOption("b", "broker", "broker addr"), VerbOption("q", "queue", "queue id"),
          VerbOption("o", "offset", "Expect queue offset, not support old version broker"), CLUSTER),
         reset_offset_by_time),
    Verb("skipAccumulatedMessage", "Skip all messages that are accumulated (not consumed) currently.",
         (GROUP, TOPIC, VerbOption("f", "force", "set the force rollback by timestamp switch[true|false]"), CLUSTER),
         skip_accumulated),
)  # fmt: skip

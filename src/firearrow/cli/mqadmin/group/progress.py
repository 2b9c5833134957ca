"""``consumerProgress``, ``brokerConsumeStats``."""

from contextlib import suppress
from typing import Final

from firearrow.cli.mqadmin.group.clients import consumer_connections, running_info
from firearrow.cli.mqadmin.java_text import front, second_text
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.views import consume_stats, topics, total_diff
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import FireArrowError
from firearrow.model import MessageQueue
from firearrow.model.names import RETRY_PREFIX
from firearrow.model.versions import version_name
from firearrow.protocol.bodies.admin.stats import ConsumeStats
from firearrow.protocol.bodies.group.heartbeat import ConsumerConnection, ConsumeType

COLUMNS: Final = ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
WITH_CLIENT: Final = "%-64s  %-32s  %-4{0}  %-20{0}  %-20{0}  %-20s %-20{0} %-20{0}"
WITHOUT: Final = "%-64s  %-32s  %-4{0}  %-20{0}  %-20{0}  %-20{0} %-20{0}"
GROUPS_FORM: Final = "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s"
STATS_TIMEOUT_MS: Final = 50_000
STATS_FORM: Final = "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"


async def consumer_progress(session: Session, given: OptionValues) -> None:
    """Print how far a group is, queue by queue; without -g, how far every group is."""
    if given.has("g"):
        await _progress(session, given.text("g"), given.text("t"), shows_client=given.truth("s"))
    else:
        await _all_groups(session)


async def _progress(session: Session, group: str, topic: str, *, shows_client: bool) -> None:
    stats = await consume_stats(session, group, topic)
    holders = await _holders(session, group) if shows_client else {}
    form = WITH_CLIENT if shows_client else WITHOUT
    client_head = ("#Client IP",) if shows_client else ()
    session.line(form.format("s") + "%s", *COLUMNS, *client_head, "#Diff", "#Inflight", "#LastTime")
    behind = inflight = 0
    for queue in sorted(stats.offset_table):
        each = stats.offset_table[queue]
        diff, unacknowledged = each.broker_offset - each.consumer_offset, each.pull_offset - each.consumer_offset
        behind, inflight = behind + diff, inflight + unacknowledged
        client = (holders.get(queue, "N/A"),) if shows_client else ()
        session.line(
            form.format("d") + " %s",
            front(queue.topic, 64), front(queue.broker_name, 32), queue.queue_id, each.broker_offset,
            each.consumer_offset, *client, diff, unacknowledged,
            second_text(each.last_timestamp) if each.last_timestamp else "N/A",
        )  # fmt: skip
    session.line("")
    session.line("Consume TPS: %.2f", stats.consume_tps)
    session.line("Consume Diff Total: %d", behind)
    session.line("Consume Inflight Total: %d", inflight)


async def _holders(session: Session, group: str) -> dict[MessageQueue, str]:
    """Return the address of the client that holds a queue, as far as clients answer."""
    found: dict[MessageQueue, str] = {}
    try:
        for connection in (await consumer_connections(session, group)).connection_set:
            client = connection.client_id or ""
            info = await running_info(session, group, client)
            found |= dict.fromkeys(info.mq_table, client.partition("@")[0])
    except FireArrowError:
        return found
    return found


async def _all_groups(session: Session) -> None:
    session.line(GROUPS_FORM, "#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    for topic in await topics(session):
        if topic.startswith(RETRY_PREFIX):
            await _print_group(session, topic.removeprefix(RETRY_PREFIX))


async def _print_group(session: Session, group: str) -> None:
    stats, members = ConsumeStats(), ConsumerConnection()
    with suppress(FireArrowError):  # a group that has consumed nothing
        stats = await consume_stats(session, group)
    with suppress(FireArrowError):  # a group without members
        members = await consumer_connections(session, group)
    count = len(members.connection_set)
    version = min((each.version for each in members.connection_set), default=0)
    is_pull = members.consume_type == ConsumeType.CONSUME_ACTIVELY
    is_push = members.consume_type == ConsumeType.CONSUME_PASSIVELY
    session.line(
        GROUPS_FORM,
        front(group, 64),
        count,
        version_name(version) if count else "OFFLINE",
        ("PULL" if is_pull else "PUSH") if count else "",
        members.message_model if count and is_push else "",
        int(stats.consume_tps),
        total_diff(stats),
    )


async def broker_consume_stats(session: Session, given: OptionValues) -> None:
    """Print how far every group of a broker is."""
    listed = await session.admin.groups.at_broker.progress_of_all(
        given.text("b"), in_order=given.truth("o"), timeout_ms=given.number("t", STATS_TIMEOUT_MS)
    )
    level = given.number("l")
    session.line(
        STATS_FORM, "#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff",
        "#LastTime",
    )  # fmt: skip
    for group, stats in ((name, each) for entry in listed.consume_stats_list for name, all_ in entry.items()
                         for each in all_):  # fmt: skip
        for queue in sorted(stats.offset_table):
            each = stats.offset_table[queue]
            diff = each.broker_offset - each.consumer_offset
            if diff >= level and each.last_timestamp > 0:
                session.line(
                    STATS_FORM, front(queue.topic, 64), group, front(queue.broker_name, 32), queue.queue_id,
                    each.broker_offset, each.consumer_offset, diff, second_text(each.last_timestamp),
                )  # fmt: skip
    session.line("\nDiff Total: %d", listed.total_diff)


VERBS: Final = (
    Verb("consumerProgress", "Query consumer's progress, speed.",
         (VerbOption("g", "groupName", "consumer group name"),
          VerbOption("t", "topicName", "topic name"),
          VerbOption("s", "showClientIP", "Show Client IP per Queue"),
          VerbOption("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route.", is_idle=True)),
         consumer_progress),
    Verb("brokerConsumeStats", "Fetch broker consume stats data.",
         (VerbOption("b", "brokerAddr", "Broker address", required=True),
          VerbOption("t", "timeoutMillis", "request timeout Millis"),
          VerbOption("l", "level", "threshold of print diff"),
          VerbOption("o", "order", "order topic")),
         broker_consume_stats),
)  # fmt: skip

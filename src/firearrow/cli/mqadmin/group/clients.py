"""``consumerConnection``, ``producerConnection``, ``producer``, ``consumerStatus``."""

from pathlib import Path
from typing import Final

from msgspec.structs import astuple

from firearrow.cli.mqadmin.java_text import formed, java, queue_text, time_digits
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import FireArrowError, NoSuchName, SettingsError
from firearrow.model.names import RETRY_PREFIX
from firearrow.model.versions import version_name
from firearrow.protocol.bodies.group.heartbeat import ConsumerConnection, ConsumeType
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo, PopProcessQueueInfo, ProcessQueueInfo
from firearrow.runtime.clock import SystemClock

CONSUMER_FORM: Final = "%-36s %-22s %-10s %s"
QUEUE_HEAD: Final = "%-64s  %-32s  %-4s  %-20s"
STATUS_FORM: Final = "%-10s %-40s %-20s %s"
A_WHILE_MS: Final = 120_000
STUCK_MS: Final = 60_000
START: Final = "PROP_CONSUMER_START_TIMESTAMP"
TYPE: Final = "PROP_CONSUME_TYPE"
ORDERLY: Final = "PROP_CONSUMEORDERLY"


async def consumer_connections(session: Session, group: str, address: str = "") -> ConsumerConnection:
    """Return the connections of a group; raise if it has none."""
    address = address or await session.holder_by_chance(f"{RETRY_PREFIX}{group}")
    found = await session.admin.groups.at_broker.connections(address, group)
    if not found.connection_set:
        raise NoSuchName(f"the consumer group {group!r} has no member that is connected (code 206)")
    return found


async def running_info(session: Session, group: str, client: str, *, jstack: bool = False) -> ConsumerRunningInfo:
    """Return what a member says of itself, through a broker."""
    (_, address), *_ = await session.holders(f"{RETRY_PREFIX}{group}")
    return await session.admin.groups.at_broker.running_info(address, group, client, stacks=jstack)


async def consumer_connection(session: Session, given: OptionValues) -> None:
    """Print the members of a group and what they subscribe to."""
    found = await consumer_connections(session, given.text("g"), given.text("b"))
    session.line(CONSUMER_FORM, "#ClientId", "#ClientAddr", "#Language", "#Version")
    for each in sorted(found.connection_set, key=lambda connection: connection.client_id or ""):
        session.line(CONSUMER_FORM, each.client_id, each.client_addr, each.language, version_name(each.version))
    session.line("\nBelow is subscription:")
    session.line("%-20s %s", "#Topic", "#SubExpression")
    for _, data in sorted(found.subscription_table.items()):
        session.line("%-20s %s", data.topic, data.sub_string)
    session.line("")
    session.line("ConsumeType: %s", found.consume_type)
    session.line("MessageModel: %s", found.message_model)
    session.line("ConsumeFromWhere: %s", found.consume_from_where)


async def producer_connection(session: Session, given: OptionValues) -> None:
    """Print the connections of a producer group."""
    group = given.text("g")
    address = await session.holder_by_chance(given.text("t"))
    found = await session.admin.groups.at_broker.producer_connections(address, group)
    if not found.connection_set:
        raise NoSuchName(f"the producer group {group!r} has no member that is connected")
    for number, each in enumerate(sorted(found.connection_set, key=lambda it: it.client_id or ""), 1):
        session.line(
            "%04d  %-32s %-22s %-8s %s", number, each.client_id, each.client_addr, each.language,
            version_name(each.version),
        )  # fmt: skip


async def producer(session: Session, given: OptionValues) -> None:
    """Print all producers of a broker."""
    found = await session.admin.groups.at_broker.producers(given.text("b"))
    for group, members in sorted((found.data or {}).items()):
        if not members:
            session.line("producer group (%s) instances are empty", group)
        for each in members:
            session.line(
                "producer group (%s) instance : clientId=%s,remoteIP=%s, language=%s, version=%d, "
                "lastUpdateTimestamp=%d",
                group, each.client_id, each.remote_ip, each.language, each.version, each.last_update_timestamp,
            )  # fmt: skip


async def consumer_status(session: Session, given: OptionValues) -> None:
    """Print what members of a group say of themselves: one of them, or all, each into a file."""
    group, jstack = given.text("g"), given.has("s")
    members = await consumer_connections(session, group, given.text("b"))
    if given.has("i"):
        session.write("%s", info_text(await running_info(session, group, given.text("i"), jstack=jstack)))
        return
    now, infos = SystemClock().now_ms(), {}
    session.line(STATUS_FORM, "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
    for each in sorted(members.connection_set, key=lambda it: it.client_id or ""):
        client = each.client_id or ""
        try:
            info = await running_info(session, group, client, jstack=jstack)
        except FireArrowError as error:
            session.failed(error)
            continue
        infos[client] = info
        file = _saved(now, client, info_text(info))
        session.line(STATUS_FORM, len(infos), client, version_name(each.version), file)
    if infos:
        _print_judgement(session, infos, now)


def _saved(now: int, client: str, text: str) -> Path:
    file = Path(str(now)) / client.replace("/", "_")
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error}; run mqadmin where files can be made") from error
    return file


def _print_judgement(session: Session, infos: dict[str, ConsumerRunningInfo], now: int) -> None:
    if not same_subscription(list(infos.values()), now):
        session.write("\n\nWARN: Different subscription in the same group of consumer!!!")
        return
    session.write("\n\nSame subscription in the same group of consumer")
    session.line("\n\nRebalance OK")
    for client, info in infos.items():
        for line in stuck_queues(client, info, now):
            session.line("%s", line)


def same_subscription(infos: list[ConsumerRunningInfo], now: int) -> bool:
    """Whether members that push and have run for a while subscribe to the same."""
    last = infos[-1]
    has_run = now - int(last.properties.get(START, now)) > A_WHILE_MS
    if not has_run or last.properties.get(TYPE) != ConsumeType.CONSUME_PASSIVELY:
        return True
    return len({java([(data.topic, data.sub_string) for data in info.subscription_set]) for info in infos}) == 1


def stuck_queues(client: str, info: ConsumerRunningInfo, now: int) -> list[str]:
    """Return a line for every queue that a member that pushes does not get on with."""
    if info.properties.get(TYPE) != ConsumeType.CONSUME_PASSIVELY:
        return []
    is_orderly = info.properties.get(ORDERLY, "").lower() == "true"
    found = []
    for queue, held in sorted(info.mq_table.items()):
        name, quiet_ms = f"{client} {queue_text(queue)}", now - held.last_consume_timestamp
        if is_orderly and not held.locked:
            found.append(f"{name} can't lock for a while, {now - held.last_lock_timestamp}ms")
        elif is_orderly and held.droped and held.try_unlock_times > 0:
            found.append(f"{name} unlock {held.try_unlock_times} times, still failed")
        elif not is_orderly and quiet_ms > STUCK_MS and held.cached_msg_count > 0:
            found.append(f"{name} can't consume for a while, maybe blocked, {quiet_ms}ms")
    return found


def info_text(info: ConsumerRunningInfo) -> str:
    """Return what a member says of itself as Java formats it."""
    sections = {
        "#Consumer Properties#": [f"{name:<40}: {value}" for name, value in sorted(info.properties.items())],
        "#Consumer Subscription#": _subscriptions(info),
        "#Consumer Offset#": [
            formed(QUEUE_HEAD, "#Topic", "#Broker Name", "#QID", "#Consumer Offset"),
            *(
                formed("%-32s  %-32s  %-4d  %-20d", *astuple(queue), held.commit_offset)
                for queue, held in sorted(info.mq_table.items())
            ),
        ],
        "#Consumer MQ Detail#": [
            formed(QUEUE_HEAD, "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"),
            *(
                formed("%-64s  %-32s  %-4d  %s", *astuple(queue), _held(held))
                for queue, held in sorted(info.mq_table.items())
            ),
        ],
        "#Consumer Pop Detail#": [
            formed("%-32s  %-32s  %-4s  %-20s", "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"),
            *(
                formed("%-32s  %-32s  %-4d  %s", *astuple(queue), _popped(popped))
                for queue, popped in sorted(info.mq_pop_table.items())
            ),
        ],
        "#Consumer RT&TPS#": _rates(info),
        "#User Consume Info#": [f"{name:<40}: {value}" for name, value in sorted(info.user_consumer_info.items())],
    }
    text = "\n\n".join("\n".join([head, *lines, ""]) for head, lines in sections.items())
    return text if info.jstack is None else f"{text}\n\n#Consumer jstack#\n{info.jstack}"


def _subscriptions(info: ConsumerRunningInfo) -> list[str]:
    form = "%03d Topic: %-40s ClassFilter: %-8s SubExpression: %s"
    wanted = sorted(info.subscription_set, key=lambda each: each.topic or "")
    return [
        formed(form, number, each.topic, each.class_filter_mode, each.sub_string)
        for number, each in enumerate(wanted, 1)
    ]


def _rates(info: ConsumerRunningInfo) -> list[str]:
    head = ("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS")
    return [
        formed("%-64s  %14s %14s %14s %14s %18s %25s", *head, "#ConsumeFailedMsgsInHour"),
        *(
            formed(
                "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d",
                topic,
                each.pull_rt,
                each.pull_tps,
                each.consume_rt,
                each.consume_ok_tps,
                each.consume_failed_tps,
                each.consume_failed_msgs,
            )
            for topic, each in sorted(info.status_table.items())
        ),
    ]


def _held(held: ProcessQueueInfo) -> str:
    return (
        f"ProcessQueueInfo [commitOffset={held.commit_offset}, cachedMsgMinOffset={held.cached_msg_min_offset}, "
        f"cachedMsgMaxOffset={held.cached_msg_max_offset}, cachedMsgCount={held.cached_msg_count}, "
        f"cachedMsgSizeInMiB={held.cached_msg_size_in_mib}, transactionMsgMinOffset={held.transaction_msg_min_offset}, "
        f"transactionMsgMaxOffset={held.transaction_msg_max_offset}, transactionMsgCount={held.transaction_msg_count}, "
        f"locked={java(held.locked)}, tryUnlockTimes={held.try_unlock_times}, "
        f"lastLockTimestamp={time_digits(held.last_lock_timestamp)}, droped={java(held.droped)}, "
        f"lastPullTimestamp={time_digits(held.last_pull_timestamp)}, "
        f"lastConsumeTimestamp={time_digits(held.last_consume_timestamp)}]"
    )


def _popped(held: PopProcessQueueInfo) -> str:
    return (
        f"PopProcessQueueInfo [waitAckCount:{held.wait_ack_count}, droped:{java(held.droped)}, "
        f"lastPopTimestamp:{held.last_pop_timestamp}]"
    )


GROUP: Final = VerbOption("g", "consumerGroup", "consumer group name", required=True)
VERBS: Final = (
    Verb("producerConnection", "Query producer's socket connection and client version.",
         (VerbOption("g", "producerGroup", "producer group name", required=True),
          VerbOption("t", "topic", "topic name", required=True)),
         producer_connection),
    Verb("consumerConnection", "Query consumer's socket connection, client version and subscription.",
         (GROUP, VerbOption("b", "brokerAddr", "broker address")), consumer_connection),
    Verb("consumerStatus", "Query consumer's internal data structure.",
         (GROUP,
          VerbOption("i", "clientId", "The consumer's client id"),
          VerbOption("b", "brokerAddr", "broker address"),
          VerbOption("s", "jstack", "Run jstack command in the consumer progress", alone=True)),
         consumer_status),
    Verb("producer", "Query producer's instances, connection, status, etc.",
         (VerbOption("b", "broker", "broker address", required=True),), producer),
)  # fmt: skip

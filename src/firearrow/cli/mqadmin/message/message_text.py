"""A message as Java prints it, and its body as a file. Where groups stand with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from firearrow.cli.mqadmin.group.clients import consumer_connections
from firearrow.cli.mqadmin.java_text import java, time_text
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.views import consume_stats, consumers
from firearrow.errors import FireArrowError, NoSuchName, RequestRefused, SettingsError
from firearrow.model import Host, StoredMessage, keys
from firearrow.protocol.bodies.group.heartbeat import ConsumeType, MessageModel
from firearrow.protocol.codes import ResponseCode
from firearrow.record.hosts import host_bytes
from firearrow.record.message_id import offset_message_id

if TYPE_CHECKING:
    from firearrow.protocol.bodies.group.heartbeat import ConsumerConnection

BODIES: Final = Path("/tmp/rocketmq/msgbodys")  # noqa: S108 - where Apache's tool puts them, and runbooks look for them
BYTE_SIGN: Final = 128


def offset_id(message: StoredMessage) -> str:
    """Return the id that its broker made."""
    return offset_message_id(host_bytes(message.store_host), message.physical_offset)


def shown_id(message: StoredMessage) -> str:
    """Return the id that its producer made, else the one that its broker made."""
    return message.unique_key or offset_id(message)


def message_text(message: StoredMessage, broker: str | None, more: Mapping[str, str]) -> str:
    """Return a message as ``MessageExt.toString`` does; ``more`` are properties that a pull adds."""
    properties = {**message.properties, **more}
    transaction = message.unique_key if properties.get(keys.TRAN_MSG) == "true" else None
    body = java([byte - 2 * BYTE_SIGN if byte >= BYTE_SIGN else byte for byte in message.body])
    plain = (
        f"Message{{topic='{message.topic}', flag={message.flag}, properties={java(properties)}, body={body}, "
        f"transactionId='{java(transaction)}'}}"
    )
    return (
        f"MessageExt [brokerName={java(broker)}, queueId={message.queue_id}, storeSize={message.store_size}, "
        f"queueOffset={message.queue_offset}, sysFlag={message.sys_flag}, bornTimestamp={message.born_timestamp}, "
        f"bornHost={_host(message.born_host)}, storeTimestamp={message.store_timestamp}, "
        f"storeHost={_host(message.store_host)}, msgId={offset_id(message)}, "
        f"commitLogOffset={message.physical_offset}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, toString()={plain}]"
    )


def _host(host: Host) -> str:
    return f"/{host.ip}:{host.port}"


def pulled_properties(least: int, end: int) -> dict[str, str]:
    """Return the properties that a client adds to what it pulls: the bounds of the queue."""
    return {keys.MIN_OFFSET: str(least), keys.MAX_OFFSET: str(end)}


def print_message(
    session: Session, message: StoredMessage, charset: str = "", suffix: str = "", more: Mapping[str, str] | None = None
) -> None:
    """Print the fields of a message, and write its body into a file."""
    rows = {
        "Topic:": message.topic,
        "Tags:": f"[{java(message.properties.get(keys.TAGS))}]",
        "Keys:": f"[{java(message.properties.get(keys.KEYS))}]",
        "Queue ID:": message.queue_id,
        "Queue Offset:": message.queue_offset,
        "CommitLog Offset:": message.physical_offset,
        "Reconsume Times:": message.reconsume_times,
        "Born Timestamp:": time_text(message.born_timestamp),
        "Store Timestamp:": time_text(message.store_timestamp),
        "Born Host:": str(message.born_host),
        "Store Host:": str(message.store_host),
        "System Flag:": message.sys_flag,
        "Properties:": {**message.properties, **(more or {})},
        "Message Body Path:": saved_body(message, suffix),
    }
    for name, value in rows.items():
        session.line("%-20s %s", name, value)
    if charset:
        session.line("%-20s %s", "Message Body:", text_of(message.body, charset))


def text_of(body: bytes, charset: str) -> str:
    """Return a body as text."""
    try:
        return body.decode(charset, errors="replace")
    except LookupError as error:
        raise SettingsError(
            f"there is no charset {charset!r}; write UTF-8, GBK or another that Python knows"
        ) from error


def saved_body(message: StoredMessage, suffix: str) -> Path:
    """Write the body of a message into a file and return its path."""
    file = BODIES / f"{shown_id(message)}{suffix}"
    try:
        BODIES.mkdir(parents=True, exist_ok=True)
        file.write_bytes(message.body)
    except OSError as error:
        raise SettingsError(f"the body cannot be written to {file}: {error}; make {BODIES} writable") from error
    return file


async def tracks(session: Session, message: StoredMessage) -> list[str]:
    """Return where every group that consumes its topic stands with a message."""
    return [await _track(session, message, group) for group in await consumers(session, message.topic)]


async def _track(session: Session, message: StoredMessage, group: str) -> str:
    kind, fault = "UNKNOWN", None
    try:
        members = await consumer_connections(session, group)
        kind = await _stand(session, message, group, members)
    except RequestRefused as refusal:
        kind = "NOT_ONLINE" if refusal.code == ResponseCode.CONSUMER_NOT_ONLINE else kind
        fault = f"CODE:{refusal.code} DESC:{refusal.remark}"
    except NoSuchName as error:
        kind, fault = "NOT_ONLINE", str(error)
    except FireArrowError as error:
        fault = str(error)
    return f"MessageTrack [consumerGroup={group}, trackType={kind}, exceptionDesc={java(fault)}]"


async def _stand(session: Session, message: StoredMessage, group: str, members: "ConsumerConnection") -> str:
    if members.consume_type == ConsumeType.CONSUME_ACTIVELY:
        return "PULL"
    if members.message_model == MessageModel.BROADCASTING:
        return "CONSUME_BROADCASTING"
    if members.consume_type != ConsumeType.CONSUME_PASSIVELY:
        return "UNKNOWN"
    if not await _is_consumed(session, message, group):
        return "NOT_CONSUME_YET"
    wanted = members.subscription_table.get(message.topic)
    tags = set() if wanted is None else set(wanted.tags_set)
    return "CONSUMED" if not tags or "*" in tags or message.tag in tags else "CONSUMED_BUT_FILTERED"


async def _is_consumed(session: Session, message: StoredMessage, group: str) -> bool:
    brokers = (await session.cluster()).brokers
    at = str(message.store_host)
    return any(
        each.consumer_offset > message.queue_offset
        for queue, each in (await consume_stats(session, group)).offset_table.items()
        if queue.topic == message.topic
        and queue.queue_id == message.queue_id
        and queue.broker_name in brokers
        and brokers[queue.broker_name].broker_addrs.get(0) == at
    )

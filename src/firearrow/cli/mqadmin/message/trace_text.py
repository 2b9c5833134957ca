"""Traces: what producers and consumers of 4.x and 5.x write into the trace topic about a message."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from firearrow.cli.mqadmin.java_text import second_text
from firearrow.cli.mqadmin.session import Session
from firearrow.model import Message, StoredMessage
from firearrow.model.names import TRACE_TOPIC
from firearrow.record.message_id import parse_offset_message_id

if TYPE_CHECKING:
    from firearrow.client import SendResult

BETWEEN_ENTRIES: Final = "\x02"
BETWEEN_FIELDS: Final = "\x01"
FORM: Final = "%-10s %-20s %-20s %-20s %-10s %-10s"
NORMAL: Final = 0
"""The number of an ordinary message among ``MessageType``."""
PUB_FIELDS: Final = 12
SUB_FIELDS: Final = 9


class TraceAct(Struct, frozen=True):
    """One act on a message: ``Pub`` or ``Sub``."""

    act: str
    group: str
    client: str
    time_ms: int
    took_ms: str
    success: bool


def read_traces(message_id: str, message: StoredMessage) -> list[TraceAct]:
    """Return the acts on a message that a message of the trace topic holds."""
    found = []
    for entry in message.body.decode(errors="replace").split(BETWEEN_ENTRIES):
        fields = entry.split(BETWEEN_FIELDS)
        host = message.born_host.ip
        if fields[0] == "Pub" and len(fields) > PUB_FIELDS and fields[5] == message_id:
            success = fields[13] if len(fields) > PUB_FIELDS + 1 else fields[12]
            found.append(TraceAct("Pub", fields[3], host, int(fields[1]), fields[10], success == "true"))
        elif fields[0] == "SubAfter" and len(fields) >= SUB_FIELDS and fields[2] == message_id:
            found.append(TraceAct("Sub", fields[8], host, int(fields[7]), fields[3], fields[4] == "true"))
    return found


def written_pub(message: Message, result: "SendResult", group: str, now_ms: int, took_ms: int) -> Message:
    """Return the message of the trace topic about one that was sent. Java: ``TraceDataEncoder``."""
    host, _ = parse_offset_message_id(result.offset_message_id)
    keys = " ".join(message.keys)
    fields = (
        "Pub", now_ms - took_ms, result.region, group, message.topic, result.message_id, message.tag, keys,
        f"{host.ip}:{host.port}", len(message.body), took_ms, NORMAL, result.offset_message_id, "true",
    )  # fmt: skip
    body = BETWEEN_FIELDS.join(map(str, fields)) + BETWEEN_ENTRIES
    return Message(TRACE_TOPIC, body.encode(), keys=[result.message_id, *message.keys])


def print_traces(session: Session, message_id: str, messages: Iterable[StoredMessage]) -> None:
    """Print who sent a message, then who consumed it, group by group."""
    found = [trace for message in messages for trace in read_traces(message_id, message)]
    for trace in found:
        if trace.act == "Pub":
            session.line(FORM, "#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status")
            _print(session, trace)
            session.line("")
    groups: dict[str, list[TraceAct]] = {}
    for trace in found:
        if trace.act == "Sub":
            groups.setdefault(trace.group, []).append(trace)
    for _, traces in sorted(groups.items()):
        session.line(FORM, "#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status")
        for trace in traces:
            _print(session, trace)
        session.line("")


def _print(session: Session, trace: TraceAct) -> None:
    status = "success" if trace.success else "failed"
    session.line(FORM, trace.act, trace.group, trace.client, second_text(trace.time_ms), f"{trace.took_ms}ms", status)

"""A message or a batch that passed every check, on its way to the log."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from firearrow.broker.gate.gate import KeptAnswer
from firearrow.broker.statistics.meters import TrafficCounts
from firearrow.errors import BadBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import Send, ShortSend
from firearrow.record.batch import columns_of
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import Draft
from firearrow.record.hosts import HostBytes
from firearrow.remoting.handlers import Call
from firearrow.store.placement import AppendedColumns, QueueTail

AnySend = Send | ShortSend
Again = Callable[[], KeptAnswer]
"""Begins a send anew, from its first check on."""


class SentBatch(NamedTuple):
    """The messages of a batch, and the envelope that they share."""

    envelope: Envelope
    columns: MessageColumns


class SentMessage(Struct, gc=False):
    """A message or a batch as it is stored, and what its ending needs. Nothing that it holds leads back to it."""

    call: Call
    topic: str
    """The topic and the queue that it is for; it may be stored elsewhere until it is due or committed."""
    queue_id: int
    content: Draft | SentBatch
    tail: QueueTail
    """The queue that it is stored in."""
    counts: TrafficCounts
    """The counter of the topic that it is stored in."""
    unique: str | None
    waits: bool = True
    """Whether the answer waits until the record is kept, not just written."""
    handle: str | None = None
    """The handle for taking a timed message back."""
    remember: tuple[Callable[[Any], object], ...] = ()
    """Called with the place where it was stored: windows of rows, checked topics, dead letters."""
    places_of: Callable[[AppendedColumns], tuple[Sequence[int], int]] | None = None
    """Returns the physical offsets and the first queue offset that the answer names: of a batch with repeated rows."""


def check_batch_size(body: bytes, max_body: int) -> None:
    """Refuse a batch that is larger than a message may be."""
    if len(body) > max_body:
        raise Refused(ResponseCode.SYSTEM_ERROR, "message body size exceeded")


def batch_of(
    request: AnySend, body: bytes, queue_id: int, added_flags: int, born: HostBytes, store_host: HostBytes
) -> SentBatch:
    """Return the messages of a batch; raise ``Refused`` when the batch is empty or cannot be read."""
    envelope = Envelope(request.topic, born, store_host, request.sys_flag | added_flags, request.reconsume_times or 0)
    try:
        columns = columns_of(body, queue_id, request.born_timestamp)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
    if not columns.bodies:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the batch is empty")
    return SentBatch(envelope, columns)

"""Reads the batch of a client: its messages as columns, and the envelope that they share."""

from firearrow.errors import BadBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import Send, ShortSend
from firearrow.record.batch import columns_of
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.hosts import HostBytes


def check_batch_size(body: bytes, max_body: int) -> None:
    """Refuse a batch that is larger than a message may be."""
    if len(body) > max_body:
        raise Refused(ResponseCode.SYSTEM_ERROR, "message body size exceeded")


def batch_of(
    request: Send | ShortSend, body: bytes, queue_id: int, added_flags: int, born: HostBytes, store_host: HostBytes
) -> tuple[Envelope, MessageColumns]:
    """Return the envelope and the columns of a batch; raise ``Refused`` when the batch is empty or cannot be read."""
    envelope = Envelope(request.topic, born, store_host, request.sys_flag | added_flags, request.reconsume_times or 0)
    try:
        columns = columns_of(body, queue_id, request.born_timestamp)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
    if not columns.bodies:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the batch is empty")
    return envelope, columns

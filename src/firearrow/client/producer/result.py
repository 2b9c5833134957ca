"""The result of a message that a broker acknowledged.

All four statuses mean that the broker stored the message. OK means stored as configured; the others mean that a sync or
a slave was not ready in time, and only a broker that waits for disk or slave returns them. Java: ``SendResult``,
``SendStatus``.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from firearrow.errors import BadHeader
from firearrow.model import MessageQueue
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.send import SendAnswer


class SendStatus(StrEnum):
    """The state of a stored message: flushed and copied as the broker is set to, or not in time."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """In the broker's memory; a power loss now would lose it."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """On the master; a slave has not confirmed in time."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """On the master; there is no slave that keeps up."""


STATUS_BY_CODE: Final = {
    int(ResponseCode.SUCCESS): SendStatus.OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
STORED: Final = frozenset(STATUS_BY_CODE)
"""The codes that acknowledge a message."""


class SendResult(Struct, frozen=True):
    """The place of a stored message, and the status of the send."""

    status: SendStatus
    message_id: str
    """The unique key from the producer, which consumers show as the message id."""
    offset_message_id: str
    """The message id from the position of its record: broker address and physical offset."""
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region: str | None = None
    is_traced: bool = False
    recall_handle: str | None = None
    """Takes a timed message back while it is not due: ``producer.recall``. None for other messages."""

    @property
    def is_ok(self) -> bool:
        """Whether the message is stored as configured."""
        return self.status is SendStatus.OK


def read_result(code: int, answer: SendAnswer, queue: MessageQueue, unique_key: str) -> SendResult:
    """Return the result of a single send."""
    stored_in = MessageQueue(queue.topic, queue.broker_name, answer.queue_id)
    return SendResult(
        STATUS_BY_CODE[code],
        unique_key,
        answer.msg_id,
        stored_in,
        answer.queue_offset,
        answer.transaction_id,
        answer.msg_region,
        bool(answer.trace_on),
        answer.recall_handle,
    )


def read_batch_result(code: int, answer: SendAnswer, queue: MessageQueue, unique_keys: list[str]) -> list[SendResult]:
    """Return a result for each message of a batch; their queue offsets are consecutive."""
    ids = answer.msg_id.split(",")
    if len(ids) != len(unique_keys):
        ids = [answer.msg_id] * len(unique_keys)  # a topic with batch queues has one record for all
    if answer.queue_offset < 0:
        raise BadHeader(f"a broker acknowledged a batch at offset {answer.queue_offset}")
    stored_in = MessageQueue(queue.topic, queue.broker_name, answer.queue_id)
    status, traced = STATUS_BY_CODE[code], bool(answer.trace_on)
    return [
        SendResult(status, key, ids[index], stored_in, answer.queue_offset + index, None, answer.msg_region, traced)
        for index, key in enumerate(unique_keys)
    ]

"""Turns the result of a read of a queue into the answer to a pull. Pure.

::

    messages found                        SUCCESS                 continue behind them
    only messages that the filter skips   PULL_RETRY_IMMEDIATELY  continue behind them
    offset at the end of the queue        PULL_NOT_FOUND          wait there
    offset outside the queue, or moved    PULL_OFFSET_MOVED       continue at the offset of the answer

In an empty queue offset 0 is at the end and every other offset is outside.
Java: ``PullMessageProcessor.composeResponseHeader``.
"""

from collections.abc import Sequence
from typing import Final

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.pull import PullAnswer
from firearrow.remoting.handlers import Answer, Buffer
from firearrow.store.read.queue_reader import ReadResult, ReadStatus

MASTER_ID: Final = 0
OFFSET_RESET: Final = "OFFSET_RESET"

_CODES: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
}
_EMPTY: Final = (ReadStatus.NO_MATCHED_LOGIC_QUEUE, ReadStatus.NO_MESSAGE_IN_QUEUE)


def code_of(pulled: ReadResult, asked_offset: int) -> ResponseCode:
    """Return the response code for a pull from an offset."""
    if asked_offset == 0 and pulled.status in _EMPTY:
        return ResponseCode.PULL_NOT_FOUND
    return _CODES[pulled.status]


def answer(pulled: ReadResult, code: int, topic_sys_flag: int, group_sys_flag: int, broker: int = MASTER_ID) -> Answer:
    """Return the answer to a pull: the next offset, and the records as the log's own bytes."""
    fields = PullAnswer(
        suggest_which_broker_id=broker,
        next_begin_offset=pulled.next_offset,
        min_offset=pulled.min_offset,
        max_offset=pulled.max_offset,
        topic_sys_flag=topic_sys_flag,
        group_sys_flag=group_sys_flag,
    )
    return Answer(fields, joined(pulled.buffers), code, pulled.status.value)


def moved(offset: int, least: int, end: int, topic_sys_flag: int, group_sys_flag: int) -> Answer:
    """Return the answer to a pull of a group whose offset an operator has moved."""
    fields = _nothing(offset, least, end, topic_sys_flag, group_sys_flag)
    return Answer(fields, b"", ResponseCode.PULL_OFFSET_MOVED, OFFSET_RESET)


def again(offset: int, least: int, end: int, topic_sys_flag: int, group_sys_flag: int) -> Answer:
    """Return the answer to a pull that cannot get its messages now: the consumer asks for the same offset again."""
    fields = _nothing(offset, least, end, topic_sys_flag, group_sys_flag)
    return Answer(fields, b"", ResponseCode.PULL_RETRY_IMMEDIATELY, ReadStatus.NO_MATCHED_MESSAGE.value)


def _nothing(offset: int, least: int, end: int, topic_sys_flag: int, group_sys_flag: int) -> PullAnswer:
    return PullAnswer(
        suggest_which_broker_id=MASTER_ID,
        next_begin_offset=offset,
        min_offset=least,
        max_offset=end,
        topic_sys_flag=topic_sys_flag,
        group_sys_flag=group_sys_flag,
    )


def joined(buffers: Sequence[Buffer]) -> Buffer:
    """Join pieces of the log into one buffer."""
    if not buffers:
        return b""
    return buffers[0] if len(buffers) == 1 else b"".join(buffers)

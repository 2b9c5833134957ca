"""From what a read of a queue found to what the consumer is told. Pure.

::

    found something                        SUCCESS                 go on behind it
    found only what the filter passes over PULL_RETRY_IMMEDIATELY  go on behind it
    at the end of the queue                PULL_NOT_FOUND          wait there
    outside the queue, or sent elsewhere   PULL_OFFSET_MOVED       go on from there

An empty queue is at its end for who asks for offset 0 and outside for everybody else.
Java: ``PullMessageProcessor.composeResponseHeader``.
"""

from collections.abc import Sequence
from typing import Final

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.pull import PullAnswer
from firearrow.remoting.handlers import Answer, Buffer
from firearrow.store.pulling import Pulled, ReadStatus

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


def code_of(pulled: Pulled, asked_offset: int) -> ResponseCode:
    """How a pull from an offset is answered."""
    if asked_offset == 0 and pulled.status in _EMPTY:
        return ResponseCode.PULL_NOT_FOUND
    return _CODES[pulled.status]


def answer(pulled: Pulled, code: int, topic_sys_flag: int, group_sys_flag: int) -> Answer:
    """The answer to a pull: where to go on, and the log's own bytes."""
    fields = PullAnswer(
        suggest_which_broker_id=MASTER_ID,
        next_begin_offset=pulled.next_offset,
        min_offset=pulled.min_offset,
        max_offset=pulled.max_offset,
        topic_sys_flag=topic_sys_flag,
        group_sys_flag=group_sys_flag,
    )
    return Answer(fields, joined(pulled.buffers), code, pulled.status.value)


def moved(offset: int, least: int, end: int, topic_sys_flag: int, group_sys_flag: int) -> Answer:
    """The answer to a pull of a group that an operator has sent elsewhere."""
    fields = _nothing(offset, least, end, topic_sys_flag, group_sys_flag)
    return Answer(fields, b"", ResponseCode.PULL_OFFSET_MOVED, OFFSET_RESET)


def again(offset: int, least: int, end: int, topic_sys_flag: int, group_sys_flag: int) -> Answer:
    """The answer to a pull that cannot be handed its messages now: ask for the same once more."""
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
    """Pieces of the log as one."""
    if not buffers:
        return b""
    return buffers[0] if len(buffers) == 1 else b"".join(buffers)

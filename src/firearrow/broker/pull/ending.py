"""The ending of a pull: what was read is counted once and becomes the answer, wherever the pull has waited before.

Java: ``PullMessageProcessor``, ``DefaultPullMessageResultHandler``.
"""

from collections.abc import Callable
from typing import Final

from firearrow.broker.pull import answer as pullanswer
from firearrow.broker.pull.checks import AdmittedPull
from firearrow.broker.pull.pull_reader import PullReader
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.pull import Pull
from firearrow.remoting.handlers import Answer, Later
from firearrow.store.read.queue_reader import ReadResult, ReadStatus
from firearrow.store.store import Store

SUSPEND_FLAG: Final = 0x2
LOOKED: Final = (ReadStatus.FOUND, ReadStatus.NO_MATCHED_MESSAGE)
"""The reads that looked at messages; others move a pull to where messages are."""


def finish(later: Later, look: Callable[[], Answer | Later | None]) -> int:
    """Answer a pull that has waited, or refuse it; return how many bytes of messages it was handed.

    An error stays with its pull. ``look`` returns no `Answer` for a pull that goes on waiting.
    """
    if not later.is_owed:
        return 0
    try:
        answer = look()
    except Exception as error:  # noqa: BLE001 - the other pulls in the line must still be served
        later.fail(error)
        return 0
    if not isinstance(answer, Answer):
        return 0
    later.answer(answer)
    return len(answer.body)


class PullEnding:
    """Makes the answers of pulls, and counts them."""

    def __init__(self, store: Store, offsets: OffsetTable, stats: BrokerStats, reader: PullReader) -> None:
        self._store = store
        self._offsets = offsets
        self._stats = stats
        self._reader = reader

    def answer(self, admitted: AdmittedPull, pulled: ReadResult, *, may_wait: bool) -> Answer | None:
        """Count what a pull was handed and return its answer; None when it should wait for messages."""
        request, wanted = admitted.request, admitted.wanted
        group, topic = request.consumer_group, request.topic
        self._offsets.note_pulled(group, topic, request.queue_id, pulled.next_offset)
        code = pullanswer.code_of(pulled, request.queue_offset)
        if may_wait and self.waits(request, pulled):
            return None
        if wanted is not None and pulled.status in LOOKED and pulled.next_offset > request.queue_offset:
            self._stats.filtered(group, topic, pulled.next_offset - request.queue_offset - pulled.messages)
        if code == ResponseCode.SUCCESS:
            self._stats.pulled(group, topic, pulled.messages, pulled.size)
        else:
            self._stats.missed()
        broker = self._reader.suggested_broker(admitted, pulled)
        return pullanswer.answer(pulled, code, admitted.topic_flag, admitted.group_flag, broker)

    def waits(self, request: Pull, pulled: ReadResult) -> bool:
        """Whether a pull found nothing and asks to wait."""
        found = pullanswer.code_of(pulled, request.queue_offset)
        return found is ResponseCode.PULL_NOT_FOUND and bool(request.sys_flag & SUSPEND_FLAG)

    def moved(self, admitted: AdmittedPull) -> Answer | None:
        """Return the answer to a pull of a group whose offset an operator has moved; None where it was not moved."""
        request = admitted.request
        offset = self._offsets.take_move(request.consumer_group, request.topic, request.queue_id)
        if offset is None:
            return None
        return pullanswer.moved(offset, *self._ends(request), admitted.topic_flag, admitted.group_flag)

    def again(self, admitted: AdmittedPull) -> Answer:
        """Return the answer to a pull that is to ask for the same offset again."""
        request = admitted.request
        return pullanswer.again(request.queue_offset, *self._ends(request), admitted.topic_flag, admitted.group_flag)

    def _ends(self, request: Pull) -> tuple[int, int]:
        """Return the first offset of a pull's queue and the offset after the last."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        if queue is None:
            return 0, 0
        return self._store.queues.min_offset(queue, self._store.log.min_offset), queue.max_offset

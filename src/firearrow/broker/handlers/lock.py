"""Locks for ordered consumption. Java: ``AdminBrokerProcessor.lockBatchMQ`` and its neighbour."""

from collections.abc import Callable

from firearrow import fastjson
from firearrow.broker.locks import QueueLocks
from firearrow.errors import BadBody
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.lock import LockBatchBody, LockedQueues
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from firearrow.remoting.handlers import Answer, Call, Handlers


class LockHandlers:
    """Who consumes what in order."""

    def __init__(self, locks: QueueLocks, elapsed_ms: Callable[[], int]) -> None:
        self._locks = locks
        self._elapsed_ms = elapsed_ms

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(LockBatchMq, self.lock, urgent=True)
        handlers.on(UnlockBatchMq, self.unlock, urgent=True)

    def lock(self, _request: LockBatchMq, call: Call) -> Answer:
        """Lock queues for a client."""
        asked = _decoded(call.body)
        client = asked.client_id or ""
        gained = self._locks.lock(asked.consumer_group or "", asked.mq_set, client, self._elapsed_ms())
        return Answer(body=encode_body(LockedQueues(locked=gained)))

    def unlock(self, _request: UnlockBatchMq, call: Call) -> None:
        """Let go of queues."""
        asked = _decoded(call.body)
        self._locks.unlock(asked.consumer_group or "", asked.mq_set, asked.client_id or "")


def _decoded(body: bytes) -> LockBatchBody:
    try:
        return fastjson.decode(body, LockBatchBody)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error

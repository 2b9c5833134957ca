"""Queue locks for ordered consumption. Java: ``AdminBrokerProcessor.lockBatchMQ`` and ``unlockBatchMQ``."""

from firearrow.broker.tables.locks import QueueLocks
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.lock import LockBatchBody, LockedQueues
from firearrow.protocol.refusal import request_body
from firearrow.protocol.requests.group.lock import LockBatchMq, UnlockBatchMq
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.clock import elapsed_ms


class LockHandlers:
    """Locks and unlocks queues for clients."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(LockBatchMq, self.lock, urgent=True)
        handlers.on(UnlockBatchMq, self.unlock, urgent=True)

    def lock(self, _request: LockBatchMq, call: Call) -> Answer:
        """Lock queues for a client."""
        asked = request_body(call.body, LockBatchBody)
        client = asked.client_id or ""
        gained = self._locks.lock(asked.consumer_group or "", asked.mq_set, client, elapsed_ms())
        return Answer(body=encode_body(LockedQueues(locked=gained)))

    def unlock(self, _request: UnlockBatchMq, call: Call) -> None:
        """Unlock queues."""
        asked = request_body(call.body, LockBatchBody)
        self._locks.unlock(asked.consumer_group or "", asked.mq_set, asked.client_id or "")

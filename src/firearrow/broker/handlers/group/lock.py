"""Queue locks for ordered consumption. Java: ``AdminBrokerProcessor.lockBatchMQ`` and ``unlockBatchMQ``.

Only queues of this broker are locked, for groups that it knows: names that somebody invents are not remembered.
"""

from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.locks import QueueLocks
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.lock import LockBatchBody, LockedQueues
from firearrow.protocol.refusal import request_body
from firearrow.protocol.requests.group.lock import LockBatchMq, UnlockBatchMq
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.clock import elapsed_ms


class LockHandlers:
    """Locks and unlocks queues for clients."""

    def __init__(self, locks: QueueLocks, topics: TopicBook, groups: GroupBook) -> None:
        self._locks = locks
        self._topics = topics
        self._groups = groups

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(LockBatchMq, self.lock, urgent=True)
        handlers.on(UnlockBatchMq, self.unlock, urgent=True)

    def lock(self, _request: LockBatchMq, call: Call) -> Answer:
        """Lock queues for a client."""
        asked = request_body(call.body, LockBatchBody)
        client, group = asked.client_id or "", asked.consumer_group or ""
        known = [queue for queue in asked.mq_set if self._is_here(queue)] if self._groups.get(group) is not None else []
        gained = self._locks.lock(group, known, client, elapsed_ms())
        return Answer(body=encode_body(LockedQueues(locked=gained)))

    def _is_here(self, queue: MessageQueue) -> bool:
        topic = self._topics.get(queue.topic)
        return topic is not None and 0 <= queue.queue_id < max(topic.read_queue_nums, topic.write_queue_nums)

    def unlock(self, _request: UnlockBatchMq, call: Call) -> None:
        """Unlock queues."""
        asked = request_body(call.body, LockBatchBody)
        self._locks.unlock(asked.consumer_group or "", asked.mq_set, asked.client_id or "")

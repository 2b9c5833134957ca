"""A consumer could not handle a message. Java: ``AbstractSendMessageProcessor.consumerSendMsgBack``.

The consumer goes on behind the message once it is answered and never comes back to it, also when the broker restarts
meanwhile. So the answer waits as that of a send does: for its topic to be durable, and for the sync where the broker
syncs. Apache's leaves before it.
"""

import random
from collections.abc import Callable
from typing import Final, Protocol

from firearrow.broker.errands import Errands
from firearrow.broker.grouping import Groups
from firearrow.broker.handlers.pull import ConsumeCounts
from firearrow.broker.retry import most_attempts, retried
from firearrow.errors import DiskError, IllegalMessage, OffsetNotStored
from firearrow.model.flags import PERM_WRITE
from firearrow.model.names import dlq_topic, retry_topic
from firearrow.protocol.bodies.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.send import ConsumerSendMsgBack
from firearrow.record.decode import peek
from firearrow.record.hosts import HostBytes
from firearrow.remoting.handlers import Call, Handlers, Later
from firearrow.store.placement import Level
from firearrow.store.store import Store

DLQ_QUEUES: Final = 1


class MadeTopics(Protocol):
    """Where topics are looked up and made."""

    def get(self, topic: str, /) -> TopicConfig | None:
        """A topic, if it is there."""
        ...

    def ensure(self, name: str, queues: int, *, sys_flag: int = 0) -> bool:
        """Make a topic unless it is there; whether it was made."""
        ...

    def ensure_retry(self, group: str, queues: int) -> bool:
        """Make the retry topic of a group unless it is there; whether it was made."""
        ...

    async def kept(self, name: str) -> None:
        """Return once a topic, as it is now, is durable; raise the error that prevents it."""
        ...


class SendBackHandlers:
    """Messages that come back."""

    def __init__(
        self,
        store: Store,
        topics: MadeTopics,
        groups: Groups,
        errands: Errands,
        rng: random.Random,
        *,
        store_host: HostBytes,
        levels: int,
        is_writable: Callable[[], bool],
        broker_ip: str,
        counts: ConsumeCounts,
        kept_at: Level,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._errands = errands
        self._rng = rng
        self._store_host = store_host
        self._levels = levels
        self._is_writable = is_writable
        self._broker_ip = broker_ip
        self._counts = counts
        self._kept_at = kept_at

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(ConsumerSendMsgBack, self.send_back)

    def send_back(self, request: ConsumerSendMsgBack, call: Call) -> Later | None:
        """Try a message again later, or give it up."""
        group = self._groups.get(request.group)
        if group is None:
            remark = f"subscription group not exist, {request.group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not self._is_writable():
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return None
        self._check_topic(retry_topic(request.group), group.retry_queue_nums)
        return self._errands.do(call, self._store_again(request, call.version, group))

    def _check_topic(self, name: str, queues: int) -> None:
        self._topics.ensure(name, queues)
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"topic[{name}] not exist")
        if not topic.perm & PERM_WRITE:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")

    async def _store_again(self, request: ConsumerSendMsgBack, version: int, group: SubscriptionGroupConfig) -> None:
        try:
            record = await self._store.lookups.by_physical(request.offset)
        except OffsetNotStored as missing:
            remark = f"look message by offset failed, {request.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from missing
        retry = retried(
            peek(record),
            record,
            request,
            most=most_attempts(request, version, group.retry_max_times),
            queue_id=self._rng.randrange(group.retry_queue_nums),
            levels=self._levels,
            store_host=self._store_host,
        )
        topic = retry_topic(request.group)
        if retry.is_dead:
            topic = dlq_topic(request.group)
            self._check_topic(topic, DLQ_QUEUES)
        try:
            await self._topics.kept(topic)
            await self._store.reached(self._store.append(retry.draft).end, self._kept_at)
        except (DiskError, IllegalMessage) as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        self._counts.sent_back(request.group, retry.came_from)

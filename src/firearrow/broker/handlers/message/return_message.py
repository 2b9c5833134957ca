"""Send-backs of messages that a consumer could not handle. Java: ``AbstractSendMessageProcessor.consumerSendMsgBack``.

After the answer the consumer continues behind the message and never reads it again, even if the broker restarts or is
replaced. So the answer waits as that of a send does: until the topic is durable, then at the gate.
"""

import random
from functools import partial

from firearrow.broker.delivery.retry import most_attempts, retried
from firearrow.broker.gate.gate import NOTHING_PLACED, Gate, KeptAnswer
from firearrow.broker.identity import Identity
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.tables.topics import DLQ_QUEUES
from firearrow.errors import DiskError, IllegalMessage, OffsetNotStored
from firearrow.model.flags import PERM_WRITE
from firearrow.model.names import dlq_topic, retry_topic
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from firearrow.record.decode import peek
from firearrow.remoting.handlers import Call, Handlers
from firearrow.store.store import Store


class SendBackHandlers:
    """Takes send-backs from consumers."""

    def __init__(
        self,
        *,
        store: Store,
        gate: Gate,
        topics: TopicBook,
        groups: GroupBook,
        lanes: Lanes,
        chance: random.Random,
        settings: LiveSettings,
        identity: Identity,
        stats: BrokerStats,
    ) -> None:
        self._store = store
        self._gate = gate
        self._topics = topics
        self._groups = groups
        self._lanes = lanes
        self._chance = chance
        self._settings = settings
        self._broker_ip = identity.ip
        self._store_host = identity.store_host
        self._stats = stats
        self._levels = len(settings.broker.delays_ms)

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        self._gate.before(handlers).on(ConsumerSendMsgBack, self.send_back)

    def send_back(self, request: ConsumerSendMsgBack, call: Call) -> KeptAnswer:
        """Store a message in the group's retry topic, or in its dead-letter topic after the last attempt."""
        group = self._groups.of_client(request.group, call.peer)
        if isinstance(group, str):
            remark = f"subscription group not exist, {request.group}: {group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not self._settings.broker.is_writable:
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return NOTHING_PLACED
        self._gate.check()
        self._check_topic(retry_topic(request.group), group.retry_queue_nums)
        return self._gate.job(self._lanes.do, call, WaitKind.SYNC, self._store_again(request, call, group))

    def _check_topic(self, name: str, queues: int) -> None:
        self._topics.ensure(name, queues)
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"topic[{name}] not exist")
        if not topic.perm & PERM_WRITE:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")

    async def _store_again(
        self, request: ConsumerSendMsgBack, call: Call, group: SubscriptionGroupConfig
    ) -> KeptAnswer:
        try:
            record = await self._store.lookups.by_physical(request.offset)
        except OffsetNotStored as missing:
            remark = f"look message by offset failed, {request.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from missing
        retry = retried(
            peek(record),
            record,
            request,
            most=most_attempts(request, call.version, group.retry_max_times),
            queue_id=self._chance.randrange(group.retry_queue_nums),
            levels=self._levels,
            store_host=self._store_host,
        )
        topic = retry_topic(request.group)
        if retry.is_dead:
            topic = dlq_topic(request.group)
            self._check_topic(topic, DLQ_QUEUES)
        try:
            await self._topics.kept(topic)
            self._gate.check()
            end = self._store.append(retry.draft).end
        except (DiskError, IllegalMessage) as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        remember = [partial(self._stats.sent_back, request.group, retry.came_from)]
        if retry.is_dead:
            remember.append(partial(self._stats.died, request.group, retry.came_from))
        return self._gate.placed(call, end, remember=remember)

"""Requests that brokers send to a consumer, and its answers. Java: ``ClientRemotingProcessor``.

There are five: members changed (divide the queues again), reset offsets, report offsets, report the running state, and
consume one message directly.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from firearrow.client.consumer import direct_message as direct
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.consumer.window import MIB
from firearrow.client.tasks import Tasks
from firearrow.model import MessageQueue
from firearrow.model.versions import CURRENT_VERSION, version_name
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumeType
from firearrow.protocol.bodies.group.offset import GetConsumerStatusBody, read_reset_offsets
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo, ProcessQueueInfo
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.group.heartbeat import NotifyConsumerIdsChanged
from firearrow.protocol.requests.group.push import ConsumeMessageDirectly, GetConsumerRunningInfo
from firearrow.protocol.requests.group.reset import GetConsumerStatusFromClient, ResetConsumerClientOffset
from firearrow.record.decode import decode
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.serializers import Deserializer


class OwnedQueues(Protocol):
    """The queues of a consumer, as broker requests use them."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Return what the consumer has counted since it was opened."""
        ...

    @property
    def flows(self) -> Mapping[MessageQueue, OwnedQueue]:
        """Return every owned queue."""
        ...

    def reset(self, queue: MessageQueue, offset: int) -> bool:
        """Continue a queue at another offset."""
        ...


class BrokerRequests:
    """Answers the requests of brokers, on behalf of one consumer."""

    def __init__(
        self,
        settings: ConsumerSettings,
        subscriptions: Mapping[str, Subscription],
        rebalance: Callable[[], None],
        wall_ms: Callable[[float], int],
        began_ms: int,
        deserializer: Deserializer[Any] | None = None,
    ) -> None:
        self.receiver: OwnedQueues | None = None
        self.tasks: Tasks | None = None
        self.call: direct.Call | None = None
        self._settings = settings
        self._subscriptions = subscriptions
        self._rebalance = rebalance
        self._wall_ms = wall_ms
        self._deserializer = deserializer
        self._began_ms = began_ms
        self.handlers: Final = Handlers()
        self.handlers.on(NotifyConsumerIdsChanged, self.members_changed)
        self.handlers.on(ResetConsumerClientOffset, self.reset)
        self.handlers.on(GetConsumerStatusFromClient, self.status)
        self.handlers.on(GetConsumerRunningInfo, self.running_info)
        self.handlers.on(ConsumeMessageDirectly, self.consume_directly)

    def members_changed(self, _request: NotifyConsumerIdsChanged, _call: Call) -> None:
        """Divide the queues again."""
        self._rebalance()

    def reset(self, request: ResetConsumerClientOffset, call: Call) -> None:
        """Continue at the offsets in the body."""
        if self.receiver is None or request.group != self._settings.group:
            return
        for queue, offset in read_reset_offsets(call.body).offset_table.items():
            self.receiver.reset(queue, offset)

    def status(self, request: GetConsumerStatusFromClient, _call: Call) -> Answer:
        """Report the offset of every queue of a topic."""
        flows = self.receiver.flows if self.receiver is not None else {}
        table = {queue: flow.window.committable for queue, flow in flows.items() if queue.topic == request.topic}
        return Answer(body=encode_body(GetConsumerStatusBody(message_queue_table=table)))

    def running_info(self, _request: GetConsumerRunningInfo, _call: Call) -> Answer:
        """Report settings, subscriptions and queues, for operators."""
        flows: Mapping[MessageQueue, OwnedQueue] = self.receiver.flows if self.receiver is not None else {}
        info = ConsumerRunningInfo(
            mq_table={queue: self._queue_info(flow) for queue, flow in flows.items()},
            properties=self._properties(),
            subscription_set=[subscription.data() for subscription in self._subscriptions.values()],
        )
        return Answer(body=encode_body(info))

    def consume_directly(self, request: ConsumeMessageDirectly, call: Call) -> Later:
        """Call the running handler with a message."""
        if self.call is None or self.tasks is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, "this consumer has no handler: it iterates, or run has not been called"
            )
        stored = decode(call.body, max_body_bytes=self._settings.max_body_bytes, keep_bad_bodies=True)
        later = call.later()
        settler = direct.DirectSettler(self._deserializer)
        work = direct.consume_directly(
            self.call, settler, stored, request.broker_name or "", later, ordered=self._settings.ordered
        )
        self.tasks.spawn(work, "direct")
        return later

    def _properties(self) -> dict[str, str]:
        settings = self._settings
        counts: Mapping[str, int] = self.receiver.counts if self.receiver is not None else {}
        return {
            "PROP_CLIENT_VERSION": version_name(CURRENT_VERSION),
            "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.value,
            "PROP_CONSUMEORDERLY": str(settings.ordered).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._began_ms),
            "PROP_THREADPOOL_CORE_SIZE": str(settings.workers),
            "consumerGroup": settings.group,
            **{name: str(count) for name, count in counts.items()},
        }

    def _queue_info(self, flow: OwnedQueue) -> ProcessQueueInfo:
        window = flow.window
        held: dict[str, Any] = {}
        if len(window):
            held = {"cached_msg_min_offset": window.committable, "cached_msg_max_offset": window.next_offset - 1}
        return ProcessQueueInfo(
            cached_msg_count=len(window),
            cached_msg_size_in_mib=window.size_bytes // MIB,
            commit_offset=window.committable,
            droped=window.is_dropped,
            last_consume_timestamp=self._wall_ms(flow.last_consume_at),
            last_pull_timestamp=self._wall_ms(flow.last_pull_at),
            locked=flow.ordered and flow.locked_until > 0,
            **held,
        )

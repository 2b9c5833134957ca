"""Moving groups to other places. Java: ``AdminBrokerProcessor.resetOffset``, ``cloneGroupOffset``.

The broker moves a group by itself: the next pull of each queue is answered with PULL_OFFSET_MOVED and the new place,
which every client obeys, also those that ignore pushes. Pulls that wait are answered at once. Commits of the old place
are ignored until then. A group that is off line finds its new offsets when it comes. The operator is answered when the
new offsets are durable.
"""

from collections.abc import Callable

from firearrow.broker.clients import ClientTable
from firearrow.broker.errands import Errands
from firearrow.broker.grouping import Groups
from firearrow.broker.offsets import OffsetTable
from firearrow.broker.pullchecks import KnownTopics
from firearrow.broker.saved import keep
from firearrow.broker.statefile import StateFile
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.offset import ResetOffsetBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.reset import CloneGroupOffset, InvokeBrokerToResetOffset
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.store.store import Store

Recall = Callable[[str, str, int], None]
"""Tells waiting pulls of a group, a topic and a queue to look again."""


class ResetHandlers:
    """Groups that an operator moves."""

    def __init__(
        self,
        store: Store,
        topics: KnownTopics,
        groups: Groups,
        clients: ClientTable,
        offsets: OffsetTable,
        offset_file: StateFile,
        errands: Errands,
        *,
        broker_name: str,
        recall: Recall,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._offset_file = offset_file
        self._errands = errands
        self._broker_name = broker_name
        self._recall = recall

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(InvokeBrokerToResetOffset, self.reset, urgent=True)
        handlers.on(CloneGroupOffset, self.clone, urgent=True)

    def reset(self, request: InvokeBrokerToResetOffset, call: Call) -> Later:
        """Move a group to a time, or one queue to a place."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {request.topic} does not exist")
        if request.group not in self._groups.table:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {request.group} does not exist")
        return self._errands.do(call, self._reset(request, topic.read_queue_nums))

    async def _reset(self, request: InvokeBrokerToResetOffset, queues: int) -> Answer:
        if request.queue_id < 0:
            places = {one: await self._at_time(request.topic, one, request.timestamp) for one in range(queues)}
        elif request.offset is None or request.offset == -1:
            places = {request.queue_id: await self._at_time(request.topic, request.queue_id, request.timestamp)}
        else:
            places = {request.queue_id: self._in_range(request.topic, request.queue_id, request.offset)}
        if not places:
            raise Refused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        for queue_id, offset in places.items():
            self._offsets.move(request.group, request.topic, queue_id, offset)
            self._recall(request.group, request.topic, queue_id)
        await keep(self._offset_file.changed)
        table = {MessageQueue(request.topic, self._broker_name, one): offset for one, offset in places.items()}
        return Answer(body=encode_body(ResetOffsetBody(offset_table=table)))

    async def _at_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """The first message at a time or later; below zero means the end."""
        queue = self._store.queues.find(topic, queue_id)
        if queue is None:
            return 0
        if time_ms < 0:
            return queue.max_offset
        return await self._store.lookups.offset_by_time(queue, time_ms)

    def _in_range(self, topic: str, queue_id: int, offset: int) -> int:
        queue = self._store.queues.find(topic, queue_id)
        least = 0 if queue is None else self._store.queues.min_offset(queue, self._store.log.min_offset)
        end = 0 if queue is None else queue.max_offset
        if not least <= offset <= end + 1:
            remark = f"Target offset {offset} not in consume queue range [{least}-{end}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return min(offset, end)

    def clone(self, request: CloneGroupOffset, call: Call) -> Later:
        """Give one group the offsets of another."""
        source = request.src_group
        for topic in [request.topic] if request.topic else self._offsets.topics_of(source):
            if self._topics.get(topic) is None:
                continue
            group = self._clients.group(source)
            if not request.offline and group is not None and group.subscriptions and topic not in group.subscriptions:
                continue
            self._offsets.clone(source, request.dest_group, topic)
        return self._errands.do(call, keep(self._offset_file.changed))

"""Moves groups to other offsets. Java: ``AdminBrokerProcessor.resetOffset``, ``cloneGroupOffset``.

The broker moves a group without its consumers' help: the next pull of every queue is answered with PULL_OFFSET_MOVED
and the new offset, which every client obeys, also clients that ignore requests from the broker. Parked pulls are
answered at once. Until then, commits are ignored. A group without members finds its new offsets when it connects. The
operator is answered when the new offsets are durable.
"""

from collections.abc import Callable

from firearrow.broker.state.saved import keep
from firearrow.broker.tables.tables import Tables
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.offset import ResetOffsetBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.group.reset import CloneGroupOffset, InvokeBrokerToResetOffset
from firearrow.remoting.handlers import Answer, Call, Handlers, Later

Recall = Callable[[str, str, int], None]
"""Wakes the parked pulls of a group at a queue; the arguments are group, topic and queue number."""


class ResetHandlers:
    """Moves groups for operators."""

    def __init__(self, tables: Tables, recall: Recall) -> None:
        self._store = tables.store
        self._topics = tables.topics
        self._groups = tables.groups
        self._clients = tables.clients
        self._offsets = tables.offsets
        self._offset_file = tables.offset_file
        self._jobs = tables.jobs
        self._broker_name = tables.identity.name
        self._recall = recall

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(InvokeBrokerToResetOffset, self.reset, urgent=True)
        handlers.on(CloneGroupOffset, self.clone, urgent=True)

    def reset(self, request: InvokeBrokerToResetOffset, call: Call) -> Later:
        """Move a group to a store time, or to an offset of one queue."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {request.topic} does not exist")
        if request.group not in self._groups.table:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {request.group} does not exist")
        return self._jobs.do(call, self._reset(request, topic.read_queue_nums))

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
        """Return the offset of the first message stored at ``time_ms`` or later; a negative time means the end."""
        queue = self._store.queues.find(topic, queue_id)
        if queue is None:
            return 0
        if time_ms < 0:
            return queue.max_offset
        return await self._store.lookups.offset_by_time(queue, time_ms)

    def _in_range(self, topic: str, queue_id: int, offset: int) -> int:
        least, end = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        if not least <= offset <= end + 1:
            remark = f"Target offset {offset} not in consume queue range [{least}-{end}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return min(offset, end)

    def clone(self, request: CloneGroupOffset, call: Call) -> Later:
        """Copy the offsets of one group to another."""
        source = request.src_group
        for topic in [request.topic] if request.topic else self._offsets.topics_of(source):
            if self._topics.get(topic) is None:
                continue
            group = self._clients.group(source)
            if not request.offline and group is not None and group.subscriptions and topic not in group.subscriptions:
                continue
            self._offsets.clone(source, request.dest_group, topic)
        return self._jobs.do(call, keep(self._offset_file.changed))

"""Moves groups to other offsets. Java: ``AdminBrokerProcessor.resetOffset``, ``cloneGroupOffset``.

The broker moves a group without its consumers' help: the next pull of every queue is answered with PULL_OFFSET_MOVED
and the new offset, which every client obeys, also clients that ignore requests from the broker. Parked pulls are
answered at once. Until then, commits are ignored. A group without members finds its new offsets when it connects. The
operator is answered when the new offsets are durable. In a topic that was deleted and created again a group is moved
when the deletion is complete; one that was deleted while its offsets were looked up is not moved.

A topic may have very many queues and a group very many topics, so other requests have their turn between. Everything
that a request needs is looked up and checked before its first offset is changed. A request that is refused halfway all
the same says how far it came, and that part is kept.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from firearrow.broker.gate.gate import Gate, GatedAnswer, KeptAnswer
from firearrow.broker.handlers.admin.large_answer import put_together, topics_of
from firearrow.broker.handlers.group.offset_bounds import OffsetBounds
from firearrow.broker.identity import Identity
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.state.saved import keep
from firearrow.broker.state.state_file import in_pieces
from firearrow.broker.tables.clients import ClientTable
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.group.reset import CloneGroupOffset, InvokeBrokerToResetOffset
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.turn import Pace
from firearrow.store.store import Store

AT_ONCE: Final = 100
"""Queues or topics handled in one turn of the loop."""

Recall = Callable[[str, str, int], None]
"""Wakes the parked pulls of a group at a queue; the arguments are group, topic and queue number."""


class ResetHandlers:
    """Moves groups for operators."""

    def __init__(
        self,
        recall: Recall,
        *,
        store: Store,
        gate: Gate,
        topics: TopicBook,
        groups: GroupBook,
        clients: ClientTable,
        offsets: OffsetBook,
        lanes: Lanes,
        identity: Identity,
    ) -> None:
        self._store = store
        self._gate = gate
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets.table
        self._bounds = OffsetBounds(store, offsets.table)
        self._offset_file = offsets.file
        self._lanes = lanes
        self._broker_name = identity.name
        self._recall = recall

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(InvokeBrokerToResetOffset, self.reset, urgent=True)
        kept.on(CloneGroupOffset, self.clone, urgent=True)

    def reset(self, request: InvokeBrokerToResetOffset, call: Call) -> KeptAnswer:
        """Move a group to a store time, or to an offset of one queue."""
        self._topic(request.topic)
        if request.group not in self._groups.table:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {request.group} does not exist")
        self._gate.check_change()
        return self._gate.job(self._lanes.do, call, WaitKind.CHANGE, self._reset(request, call))

    def _topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name} does not exist")
        return topic

    async def _reset(self, request: InvokeBrokerToResetOffset, call: Call) -> GatedAnswer:
        topic = await self._settled(request.topic)
        places = await self._places(request, topic)
        body = await self._body(request.topic, places)
        await self._check_room(request.group, [(request.topic, places)])
        await self._settled(request.topic)
        await self._carry_out(self._moves(request, topic.life, places), len(places), "queues")
        return self._gate.changed(call, Answer(body=body))

    def _moves(self, request: InvokeBrokerToResetOffset, life: int | None, places: dict[int, int]) -> Iterator[int]:
        """Move a group in some queues a step, in the life of the topic in which the offsets were looked up."""
        left = iter(places.items())
        while some := dict(islice(left, AT_ONCE)):
            topic = self._topics.get(request.topic)
            if topic is None or topic.life != life or request.group not in self._groups.table:
                remark = f"Topic {request.topic} or group {request.group} was deleted meanwhile"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
            self._bounds.check_room(request.group, request.topic, some)
            for queue_id, offset in some.items():
                self._offsets.move(request.group, request.topic, queue_id, offset)
                self._recall(request.group, request.topic, queue_id)
            yield len(some)

    async def _body(self, topic: str, places: dict[int, int]) -> bytes:
        """Return the body of the answer: a `ResetOffsetBody` with the new offsets of a topic, by queue."""
        broker_name, name = msgspec.json.encode(self._broker_name), msgspec.json.encode(topic)
        rows = (
            b'{"brokerName":%b,"queueId":%d,"topic":%b}:%d' % (broker_name, queue_id, name, offset)
            for queue_id, offset in places.items()
        )
        what = f"the new offsets of {len(places)} queues are {{}}: move the group queue by queue"
        return bytes(await put_together(in_pieces(rows, b'{"offsetTable":{', b"}}"), what))

    async def _check_room(self, group: str, rows: Iterable[tuple[str, dict[int, int]]]) -> None:
        """Refuse the offsets of a group, by topic and queue, when there is no room for all that are new."""
        pace, new = Pace(AT_ONCE), dict[str, int]()
        for topic, queues in rows:
            for queue_id in tuple(queues):
                if queue_id not in self._offsets.of(group, topic):
                    new[topic] = new.get(topic, 0) + 1
                await pace.did()
            await pace.did()
        self._bounds.check_room_of_all(group, new)

    async def _carry_out(self, steps: Iterator[int], count: int, what: str) -> None:
        """Take the steps of a change, and wait until they are durable: when one is refused, the steps before it."""
        pace, done = Pace(AT_ONCE), 0
        try:
            for number in steps:
                done += number
                await pace.did(number)
        except Refused as refusal:
            if done:
                await keep(self._offset_file.changed)
            raise Refused(refusal.code, f"{refusal.remark}; {done} of {count} {what} are done") from refusal
        await keep(self._offset_file.changed)

    async def _settled(self, name: str) -> TopicConfig:
        """Return a topic whose changes are complete: a deletion that still runs would delete moved offsets, too."""
        await self._topics.kept(name)
        return self._topic(name)

    async def _places(self, request: InvokeBrokerToResetOffset, topic: TopicConfig) -> dict[int, int]:
        """Return the offsets that are asked for, by queue."""
        name, queue_id = request.topic, request.queue_id
        if queue_id >= 0:
            self._bounds.check_queue(name, topic, queue_id)
            if request.offset is not None and request.offset != -1:
                return {queue_id: self._in_range(name, queue_id, request.offset)}
        queues = [queue_id] if queue_id >= 0 else range(topic.read_queue_nums)
        pace, places = Pace(AT_ONCE), dict[int, int]()
        for one in queues:
            places[one] = await self._at_time(name, one, request.timestamp)
            await pace.did()
        if not places:
            raise Refused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        return places

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

    def clone(self, request: CloneGroupOffset, call: Call) -> KeptAnswer:
        """Copy the offsets of one group to another."""
        self._bounds.check_group(request.dest_group)
        self._gate.check_change()
        return self._gate.job(self._lanes.do, call, WaitKind.CHANGE, self._clone(request, call))

    async def _clone(self, request: CloneGroupOffset, call: Call) -> GatedAnswer:
        source, target = request.src_group, request.dest_group
        groups = [group for group in (source, target) if group in self._groups.table]
        lives = await self._cloned_topics(request)
        await self._check_room(target, ((topic, self._offsets.of(source, topic)) for topic in lives))
        await self._carry_out(self._clones(source, target, groups, lives), len(lives), "topics")
        return self._gate.changed(call)

    async def _cloned_topics(self, request: CloneGroupOffset) -> dict[str, int | None]:
        """Return the topics whose offsets are copied, with their lives."""
        source, pace, lives = request.src_group, Pace(AT_ONCE), dict[str, int | None]()
        for name in [request.topic] if request.topic else await topics_of(self._offsets, source):
            await self._topics.kept(name)
            topic, group = self._topics.get(name), self._clients.group(source)
            subscriptions = group.subscriptions if group is not None and not request.offline else None
            if topic is not None and (not subscriptions or name in subscriptions):
                lives[name] = topic.life
            await pace.did()
        return lives

    def _clones(self, source: str, target: str, groups: list[str], lives: dict[str, int | None]) -> Iterator[int]:
        """Copy offsets topic by topic while ``groups`` are there; a topic that was deleted meanwhile is left out."""
        for name, life in lives.items():
            gone = [group for group in groups if group not in self._groups.table]
            if gone:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"Group {gone[0]} was deleted meanwhile")
            topic = self._topics.get(name)
            if topic is not None and topic.life == life:
                self._bounds.check_room(target, name, self._offsets.of(source, name))
                self._offsets.clone(source, target, name)
            yield 1

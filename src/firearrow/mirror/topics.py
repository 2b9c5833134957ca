"""The topics of a mirror: which are copied, and the topics at the target that take the copies.

A target topic has the permissions, the order and the attributes of its source, and at least as many queues. It can be
written in any case, else it could take no copies. Its attribute ``lake.retention`` is left out: it is about the lake
of one cluster. A topic that exists with fewer queues is
given more, because every source queue needs a queue of its own. Queues that the source topic has lost by shrinking are
copied too, as long as the log has their messages.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from firearrow.admin import Admin, TopicOnBroker, TopicSummary
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.client.consumer.log_consumer import LogConsumer
from firearrow.errors import NoSuchName, RequestRefused, SettingsError
from firearrow.mirror.lane import made_anew
from firearrow.mirror.left_out import LeftOutQueues
from firearrow.mirror.marks import Marks, QueueMark
from firearrow.mirror.placement import place, queue_counts
from firearrow.model import MessageQueue
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.model.names import LAKE_RETENTION

NORMAL: Final = "normal"
WILD: Final = "*?["


def chosen(topics: Sequence[TopicSummary], patterns: Sequence[str]) -> list[TopicSummary]:
    """Return the topics that patterns name; raise if a plain name is not there or cannot be copied."""
    by_name = {topic.name: topic for topic in topics}
    for pattern in patterns:
        if any(sign in pattern for sign in WILD):
            continue
        if pattern not in by_name:
            raise NoSuchName(f"the source has no topic {pattern!r}; firearrow topic list shows those that are there")
        if by_name[pattern].kind != NORMAL:
            raise SettingsError(
                f"topic {pattern!r} is a {by_name[pattern].kind} topic, which is not copied: retries and dead letters "
                "belong to groups of their cluster, system topics to its brokers"
            )
    return [
        topic
        for topic in topics
        if topic.kind == NORMAL and any(fnmatchcase(topic.name, pattern) for pattern in patterns)
    ]


class TargetTopics:
    """Makes topics at the target."""

    def __init__(
        self,
        source: LogConsumer,
        target: Admin,
        marks: Marks,
        cluster: str,
        left_out: LeftOutQueues,
        say: Callable[[str], None],
    ) -> None:
        self._source = source
        self._target = target
        self._marks = marks
        self._cluster = cluster
        self._left_out = left_out
        self._say = say

    async def prepare(self, topic: TopicSummary) -> list[QueueMark]:
        """Return the marks of a topic's queues; when this returns, all their target queues exist."""
        known = await self._marks.read(topic.name)
        held = await self._source.held_queues(topic.name, known)
        sources = self._sources(topic, held)
        self._note_left_out(topic.name, held)
        masters = await self._target.brokers.masters(self._cluster)
        placed = place(sources, [member.name for member in masters], known)
        await self._make(topic, queue_counts(placed.values()))
        marks = self._marks.add(placed)
        present = set(sources)
        for mark in marks:
            if mark.source in held:
                self._note_life(mark, held[mark.source].life)
        return [mark for mark in marks if mark.source in present]

    def _note_left_out(self, topic: str, held: Mapping[MessageQueue, QueueExtent]) -> None:
        """Note queues that are not copied: their broker permits no reads of the topic, or has it no longer."""
        marks = self._marks.of_topic(topic)
        brokers = {queue.broker_name for queue in held}
        reasons = {
            queue: f"{queue.broker_name} does not have the topic now; start the broker, or, if the topic was deleted "
            f"there for good, remove the queue's entry from {topic}.json in the --state directory"
            for queue in marks
            if queue.broker_name not in brokers
        }
        for queue, each in held.items():
            copied = (marks[queue].next or 0) if queue in marks else each.bounds.first
            if not each.is_readable and each.bounds.end > copied:
                reasons[queue] = (
                    f"the topic has no permission to read on {queue.broker_name}, and messages wait; permit reads: "
                    f"firearrow topic update {topic} --broker {queue.broker_name} --perm rw"
                )
        self._left_out.replace(topic, reasons)

    def _note_life(self, mark: QueueMark, life: int) -> None:
        """Note the life of a mark's topic; raise if messages of another life were copied."""
        if not life or life == mark.life:
            return
        if mark.life and mark.next:
            raise made_anew(mark.source, mark.next)
        if mark.life:
            queue = mark.source
            self._say(
                f"topic {queue.topic} was made anew at the source before queue {queue.broker_name}:{queue.queue_id} "
                "was copied; messages that the earlier one had there are gone"
            )
        mark.life, mark.is_dirty = life, True

    def _sources(self, topic: TopicSummary, queues: Mapping[MessageQueue, QueueExtent]) -> list[MessageQueue]:
        """Return the queues of a topic, and those that it has lost by shrinking and whose messages the log still has.

        A queue that was copied and has no messages any more is among them: its lane tells that the topic is new.
        """
        found = {
            MessageQueue(topic.name, held.broker, number)
            for held in topic.brokers
            if held.perm & PERM_READ
            for number in range(held.read_queues)
        }
        marks = self._marks.of_topic(topic.name)
        found |= {queue for queue, held in queues.items() if held.bounds.end or (queue in marks and marks[queue].next)}
        return sorted(queue for queue in found if queue not in queues or queues[queue].is_readable)

    async def _make(self, topic: TopicSummary, counts: dict[str, int]) -> None:
        listed = await self._target.topics.list(cluster=self._cluster)
        held = next((each.brokers for each in listed if each.name == topic.name), ())
        by_broker = {each.broker: each for each in held}
        like = next((each for each in topic.brokers if each.perm & PERM_READ), topic.brokers[0])
        for broker, count in counts.items():
            there = by_broker.get(broker)
            if there is None:
                await self._create(topic.name, like, broker, count)
            elif min(there.read_queues, there.write_queues) < count:
                await self._target.topics.update(topic.name, broker=broker, queues=count)
                self._say(f"topic {topic.name} on {broker} of the target has {count} queues now, as its source")

    async def _create(self, name: str, like: TopicOnBroker, broker: str, count: int) -> None:
        async def create(attributes: dict[str, str]) -> None:
            await self._target.topics.create(
                name, broker=broker, queues=count, perm=like.perm | PERM_WRITE, order=like.order, attributes=attributes
            )

        attributes = {name: value for name, value in like.attributes.items() if name != LAKE_RETENTION}
        try:
            await create(attributes)
        except RequestRefused as refusal:
            if not attributes:
                raise
            self._say(
                f"the target refuses the attributes of topic {name}, so it is made without them: {refusal.remark}"
            )
            await create({})
        self._say(f"topic {name} is made on {broker} of the target with {count} queues")

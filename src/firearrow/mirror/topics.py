"""The topics of a mirror: which are copied, and the topics at the target that take the copies.

A target topic has the permissions, the order and the attributes of its source, and at least as many queues. Its
attribute ``lake.retention`` is left out: it is about the lake of one cluster. A topic that exists with fewer queues is
given more, because every source queue needs a queue of its own.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from firearrow.admin import Admin, TopicOnBroker, TopicSummary
from firearrow.errors import NoSuchName, RequestRefused, SettingsError
from firearrow.mirror.marks import Marks, QueueMark
from firearrow.mirror.placement import place, queue_counts
from firearrow.model import MessageQueue
from firearrow.model.flags import PERM_READ
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

    def __init__(self, target: Admin, marks: Marks, cluster: str, say: Callable[[str], None]) -> None:
        self._target = target
        self._marks = marks
        self._cluster = cluster
        self._say = say

    async def prepare(self, topic: TopicSummary) -> list[QueueMark]:
        """Return the marks of a topic's queues; when this returns, all their target queues exist."""
        known = await self._marks.read(topic.name)
        sources = [
            MessageQueue(topic.name, held.broker, number)
            for held in topic.brokers
            if held.perm & PERM_READ
            for number in range(held.read_queues)
        ]
        masters = await self._target.brokers.masters(self._cluster)
        placed = place(sources, [member.name for member in masters], known)
        await self._make(topic, queue_counts(placed.values()))
        marks = self._marks.add(placed)
        present = set(sources)
        return [mark for mark in marks if mark.source in present]

    async def _make(self, topic: TopicSummary, counts: dict[str, int]) -> None:
        listed = await self._target.topics.list(cluster=self._cluster)
        held = next((each.brokers for each in listed if each.name == topic.name), ())
        by_broker = {each.broker: each for each in held}
        for broker, count in counts.items():
            there = by_broker.get(broker)
            if there is None:
                await self._create(topic.name, topic.brokers[0], broker, count)
            elif min(there.read_queues, there.write_queues) < count:
                await self._target.topics.update(topic.name, broker=broker, queues=count)
                self._say(f"topic {topic.name} on {broker} of the target has {count} queues now, as its source")

    async def _create(self, name: str, like: TopicOnBroker, broker: str, count: int) -> None:
        async def create(attributes: dict[str, str]) -> None:
            await self._target.topics.create(
                name, broker=broker, queues=count, perm=like.perm, order=like.order, attributes=attributes
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

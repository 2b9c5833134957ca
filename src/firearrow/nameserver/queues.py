"""The broker names that hold queues of each topic: the table behind every route.

Two indexes over the same facts, so that no request walks over all topics:

* topic -> broker name -> ``TopicQueues`` (how many, what is allowed);
* broker name -> its topics.

Invariants: a (topic, broker name) pair is in both indexes or in neither; a topic without queues does not exist;
``TopicQueues`` are shared, so that 80,000 pairs with the same counts cost one object; every change drops the topic's
encoded answers. Iteration is in order of arrival, the same in every process. Java:
``RouteInfoManager.topicQueueTable``.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

import msgspec

from firearrow.model.flags import PERM_READ, PERM_WRITE, TOPIC_UNIT, TOPIC_UNIT_SUB
from firearrow.nameserver.answers import EncodedRoutes

MAX_SHARED: Final = 4096
"""Most distinct ``TopicQueues`` that are shared: a cluster has a few dozen, and a hostile peer must not fill the
table."""


_TAIL: Final = b',"perm":%d,"readQueueNums":%d,"topicSysFlag":%d,"writeQueueNums":%d}'


class TopicQueues(msgspec.Struct, frozen=True, gc=False, weakref=False):
    """The queues of one topic at one broker name. ``tail`` is the part of their JSON that names no broker."""

    read: int
    write: int
    perm: int
    sys_flag: int
    tail: bytes

    @property
    def is_unit(self) -> bool:
        """Whether the topic belongs to a unit."""
        return bool(self.sys_flag & TOPIC_UNIT)

    @property
    def has_unit_sub(self) -> bool:
        """Whether the topic is subscribed to from a unit."""
        return bool(self.sys_flag & TOPIC_UNIT_SUB)

    @property
    def is_writable(self) -> bool:
        """Whether producers may send to these queues."""
        return bool(self.perm & PERM_WRITE)


class TopicIndex:
    """Topics by broker name and broker names by topic."""

    def __init__(self, answers: EncodedRoutes) -> None:
        self._answers = answers
        self._by_topic: dict[str, dict[str, TopicQueues]] = {}
        self._by_broker: dict[str, dict[str, None]] = {}
        self._shared: dict[tuple[int, int, int, int], TopicQueues] = {}

    def queues(self, read: int, write: int, perm: int, sys_flag: int) -> TopicQueues:
        """Return the ``TopicQueues`` with these numbers, the same object each time."""
        key = (read, write, perm, sys_flag)
        found = self._shared.get(key)
        if found is None:
            found = TopicQueues(read, write, perm, sys_flag, _TAIL % (perm, read, sys_flag, write))
            if len(self._shared) < MAX_SHARED:
                self._shared[key] = found
        return found

    def of(self, topic: str) -> Mapping[str, TopicQueues] | None:
        """Return the queues of a topic by broker name, or None when there are none."""
        return self._by_topic.get(topic)

    def at(self, broker: str) -> Iterable[str]:
        """Return the topics that a broker name holds."""
        return self._by_broker.get(broker, ())

    def holds(self, broker: str, topic: str) -> bool:
        """Whether a broker name has queues of a topic."""
        held = self._by_topic.get(topic)
        return held is not None and broker in held

    def topics(self) -> list[str]:
        """Return every topic."""
        return list(self._by_topic)

    def topics_at(self, brokers: Iterable[str]) -> list[str]:
        """Return the topics that any of the broker names holds, each once."""
        found: dict[str, None] = {}
        for broker in brokers:
            found.update(self._by_broker.get(broker, {}))
        return list(found)

    def units(self, *, unit: bool | None, unit_sub: bool | None) -> list[str]:
        """Return the topics with these unit flags (None: either value).

        The flags of the broker name that registered a topic first count; in a healthy cluster all agree.
        """
        found = []
        for topic, held in self._by_topic.items():
            first = next(iter(held.values()))
            if unit in (None, first.is_unit) and unit_sub in (None, first.has_unit_sub):
                found.append(topic)
        return found

    def put(self, topic: str, broker: str, queues: TopicQueues) -> None:
        """Set the queues of a topic at a broker name."""
        held = self._by_topic.get(topic)
        if held is None:
            self._by_topic[topic] = {broker: queues}
        else:
            if held.get(broker) == queues:
                return
            held[broker] = queues
        self._by_broker.setdefault(broker, {})[topic] = None
        self._answers.drop(topic)

    def remove(self, topic: str, broker: str) -> bool:
        """Drop the queues of a topic at one broker name; return whether there were any."""
        held = self._by_topic.get(topic)
        if held is None or held.pop(broker, None) is None:
            return False
        if not held:
            del self._by_topic[topic]
        self._forget(broker, topic)
        self._answers.drop(topic)
        return True

    def keep(self, broker: str, topics: Container[str]) -> None:
        """Drop the queues of all other topics at a broker name."""
        for topic in [topic for topic in self.at(broker) if topic not in topics]:
            self.remove(topic, broker)

    def remove_topic(self, topic: str) -> list[str]:
        """Drop a topic everywhere; return the broker names that had it."""
        held = self._by_topic.pop(topic, {})
        for broker in held:
            self._forget(broker, topic)
        self._answers.drop(topic)
        return list(held)

    def remove_broker(self, broker: str) -> None:
        """Drop every queue at a broker name."""
        for topic in self._by_broker.pop(broker, {}):
            held = self._by_topic[topic]
            del held[broker]
            if not held:
                del self._by_topic[topic]
            self._answers.drop(topic)

    def touch(self, broker: str) -> None:
        """Drop the encoded answers that show a broker name, because something about it changed."""
        for topic in self._by_broker.get(broker, ()):
            self._answers.drop(topic)

    def wipe_write(self, broker: str) -> int:
        """Remove the write permission from every topic of a broker name; return the number of its topics."""
        for topic in self._by_broker.get(broker, ()):
            queues = self._by_topic[topic][broker]
            self._set_perm(topic, broker, queues, queues.perm & ~PERM_WRITE)
        return len(self._by_broker.get(broker, ()))

    def add_write(self, broker: str) -> int:
        """Give every topic of a broker name read and write permission; return the number of its topics."""
        for topic in self._by_broker.get(broker, ()):
            self._set_perm(topic, broker, self._by_topic[topic][broker], PERM_READ | PERM_WRITE)
        return len(self._by_broker.get(broker, ()))

    def _set_perm(self, topic: str, broker: str, queues: TopicQueues, perm: int) -> None:
        if queues.perm != perm:
            self._by_topic[topic][broker] = self.queues(queues.read, queues.write, perm, queues.sys_flag)
            self._answers.drop(topic)

    def _forget(self, broker: str, topic: str) -> None:
        held = self._by_broker[broker]
        del held[topic]
        if not held:
            del self._by_broker[broker]

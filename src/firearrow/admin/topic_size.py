"""Growing and shrinking a topic without losing a message.

To shrink: first no message is written to the queues that go (write queues), then their messages are consumed, then
nobody reads them (read queues). Producers look for routes every 30 seconds, so messages still come for a while; a
broker stores them as long as the queue may be read.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from firearrow.admin.brokers import Brokers
from firearrow.admin.groups import Groups
from firearrow.admin.topics import TopicOnBroker, Topics
from firearrow.errors import NoSuchName, SettingsError
from firearrow.model import MessageQueue
from firearrow.model.names import is_system_group


class UnreadMessages(Struct, frozen=True, order=True):
    """Messages that a group has not consumed yet, in a queue that is to go."""

    queue: MessageQueue
    group: str
    messages: int


class TopicSize:
    """The number of queues of topics."""

    def __init__(self, brokers: Brokers, topics: Topics, groups: Groups) -> None:
        self._brokers = brokers
        self._topics = topics
        self._groups = groups

    async def grow(self, topic: str, queues: int, *, cluster: str = "", broker: str = "") -> None:
        """Give a topic more queues, to read and to write. A broker that has as many already stays as it is."""
        held = await self._on(topic, cluster, broker)
        most = max(held, key=lambda each: max(each.read_queues, each.write_queues))
        least = min(min(each.read_queues, each.write_queues) for each in held)
        if max(most.read_queues, most.write_queues) > queues or least >= queues:
            raise SettingsError(
                f"topic {topic!r} has {most.read_queues} queues to read and {most.write_queues} to write on "
                f"{most.broker}; give more than that, or shrink it"
            )
        await self._topics.update(topic, cluster=cluster, broker=broker, queues=queues)

    async def stop_writing(self, topic: str, queues: int, *, cluster: str = "", broker: str = "") -> None:
        """Begin to shrink: queues from this number on take no more messages from producers that know it."""
        held = await self._on(topic, cluster, broker)
        least = min(held, key=lambda each: each.read_queues)
        if least.read_queues < queues or all(each.read_queues <= queues for each in held):
            raise SettingsError(
                f"topic {topic!r} has {least.read_queues} queues on {least.broker}; give fewer than that, or grow it"
            )
        await self._topics.update(topic, cluster=cluster, broker=broker, write_queues=queues)

    async def unread(self, topic: str, queues: int, brokers: Collection[str]) -> Sequence[UnreadMessages]:
        """Return what groups have not consumed in the queues of brokers from this number on."""
        described = await self._topics.describe(topic)
        held = {
            state.queue: state
            for state in described.queues
            if state.queue.queue_id >= queues and state.messages and state.queue.broker_name in brokers
        }
        found = []
        for group in described.groups:
            if not is_system_group(group):
                lags = {each.queue: each.lag for each in (await self._groups.describe(group)).queues}
                found += [
                    UnreadMessages(queue, group, lag)
                    for queue in held
                    if (lag := lags.get(queue, held[queue].messages))
                ]
        return sorted(found)

    async def stop_reading(self, topic: str, queues: int, *, cluster: str = "", broker: str = "") -> None:
        """End shrinking: nobody reads the queues from this number on."""
        await self._topics.update(topic, cluster=cluster, broker=broker, queues=queues)

    async def _on(self, topic: str, cluster: str, broker: str) -> Sequence[TopicOnBroker]:
        """Return the topic as those brokers have it that are to change."""
        names = {member.name for member in await self._brokers.masters(cluster, broker)}
        held = [each for each in (await self._topics.describe(topic)).brokers if each.broker in names]
        if not held:
            raise NoSuchName(f"{broker or cluster} has no topic {topic!r}; create it there")
        return held

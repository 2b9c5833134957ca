"""Topics that a message has passed every check of: what the short way of a send needs of each.

A topic that changes, or a setting that does, empties the table, and the next message of each topic is checked again.
What needs a look at every message is never in it: ordered topics, retry topics, topics that are not durable yet.
"""

from typing import Final, Protocol

import msgspec

from firearrow.broker.live import LiveSettings
from firearrow.broker.meters import Counts
from firearrow.broker.topicbook import Topics
from firearrow.model import names
from firearrow.model.flags import MULTI_TAGS
from firearrow.protocol.bodies.topic import TopicConfig
from firearrow.runtime.clock import Clock
from firearrow.store.placement import QueueTail

KNOWN_MAX: Final = 65_536
"""Topics that are remembered as checked."""
MULTI_TAG: Final = "MULTI_TAG"


class PutCounts(Protocol):
    """Who counts what is stored."""

    def of_topic(self, topic: str) -> Counts:
        """The numbers of a topic, to be added to."""
        ...


class Checked(msgspec.Struct):
    """A topic that was checked."""

    limit: int
    """Queues from this one on are not there."""
    added_flags: int
    counts: Counts
    tails: dict[int, QueueTail]


class CheckedTopics:
    """Checked topics by name, in ``by_name``."""

    def __init__(self, topics: Topics, settings: LiveSettings, counts: PutCounts, clock: Clock) -> None:
        self.by_name: Final[dict[str, Checked]] = {}
        self._topics = topics
        self._settings = settings
        self._counts = counts
        self._clock = clock
        settings.on_change.append(self.by_name.clear)
        topics.on_changed.append(lambda _: self.by_name.clear())
        topics.on_deleted.append(lambda _: self.by_name.clear())

    def remember(self, topic: TopicConfig) -> None:
        """Let the next message of this topic take the short way, if it may."""
        name = topic.topic_name or ""
        is_plain = not (topic.order or name.startswith(names.RETRY_PREFIX) or name in self._topics.young)
        opens = self._settings.broker.start_accept_send_request_time_stamp
        if name in self.by_name or not is_plain or opens > self._clock.now_ms():
            return
        if len(self.by_name) >= KNOWN_MAX:
            self.by_name.clear()
        self.by_name[name] = Checked(
            max(topic.write_queue_nums, topic.read_queue_nums), added_flags(topic), self._counts.of_topic(name), {}
        )


def added_flags(topic: TopicConfig) -> int:
    """What the messages of a topic get in addition to the flags they came with."""
    return MULTI_TAGS if topic.topic_filter_type == MULTI_TAG else 0

"""Checked topics: a message has passed every check; the table holds what the short way of a send needs of the topic.

A change of any topic or setting empties the table, and the next message of every topic is checked again. Topics that
need a check of every message are never in the table: ordered topics, retry topics, topics that are not durable yet.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.statistics.meters import TrafficCounts
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model import names
from firearrow.model.flags import MULTI_TAGS
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.runtime.clock import Clock
from firearrow.store.placement import QueueTail
from firearrow.store.store import Store

KNOWN_MAX: Final = 65_536
"""Most topics in the table; a full table is emptied."""
MULTI_TAG: Final = "MULTI_TAG"


class CheckedTopic(msgspec.Struct):
    """One checked topic."""

    topic: str
    limit: int
    """The number of queues: queue ids from this one on do not exist."""
    added_flags: int
    counts: TrafficCounts
    tail_of: Callable[[str, int], QueueTail]
    tails: dict[int, QueueTail]
    """The tails of the topic's queues, filled when a queue is first used."""

    def tail(self, queue_id: int) -> QueueTail:
        """Look up the tail of a queue and remember it in ``tails``."""
        tail = self.tails[queue_id] = self.tail_of(self.topic, queue_id)
        return tail


class CheckedTopics:
    """The checked topics of one broker, by name in ``by_name``."""

    def __init__(
        self, *, topics: TopicBook, settings: LiveSettings, stats: BrokerStats, clock: Clock, store: Store
    ) -> None:
        self.by_name: Final[dict[str, CheckedTopic]] = {}
        self._topics = topics
        self._settings = settings
        self._stats = stats
        self._clock = clock
        self._tail_of = store.queues.tail_of
        settings.on_change.append(self.by_name.clear)
        topics.on_changed.append(lambda _: self.by_name.clear())
        topics.on_deleted.append(lambda _: self.by_name.clear())

    def remember(self, topic: TopicConfig) -> None:
        """Let the next message of this topic take the short way, unless every message of the topic needs its checks."""
        name = topic.topic_name or ""
        is_plain = not (topic.order or name.startswith(names.RETRY_PREFIX) or name in self._topics.young)
        opens = self._settings.broker.start_accept_send_request_time_stamp
        if name in self.by_name or not is_plain or opens > self._clock.now_ms():
            return
        if len(self.by_name) >= KNOWN_MAX:
            self.by_name.clear()
        limit = max(topic.write_queue_nums, topic.read_queue_nums)
        counts = self._stats.of_topic(name)
        self.by_name[name] = CheckedTopic(name, limit, added_flags(topic), counts, self._tail_of, {})


def added_flags(topic: TopicConfig) -> int:
    """Return the sysFlag bits that the broker adds to every message of a topic."""
    return MULTI_TAGS if topic.topic_filter_type == MULTI_TAG else 0

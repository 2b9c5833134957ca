"""The topics of a broker that retention keeps for a lake, and what archives have marked of them. Pure.

An archive marks what its tables have as offsets of a group of its own, whose name begins with ``FIREARROW_LAKE_``, by
the requests that consumers commit with. A topic in several lakes counts as far as the slowest archive is; an archive
that is given up is forgotten by deleting its group. Messages are released early only if every other group that has
offsets in the topic has consumed them too.
"""

from collections.abc import Mapping, Sequence

from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topic_attributes import RELEASE
from firearrow.model.names import LAKE_GROUP_PREFIX, LAKE_RETENTION
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.store.lake_topics import LakeTopic


def lake_topics(topics: Mapping[str, TopicConfig], offsets: OffsetTable) -> dict[str, LakeTopic]:
    """Return the topics with the attribute, with the lowest offsets of their lakes."""
    asked = {name: topic.attributes[LAKE_RETENTION] for name, topic in topics.items() if _is_kept(topic)}
    return {name: lake_topic(offsets, name, value) for name, value in asked.items()}


def lake_topic(offsets: OffsetTable, topic: str, value: str) -> LakeTopic:
    """Return what lakes, and groups if the topic is released early, have of a topic whose attribute is ``value``."""
    groups = offsets.groups_of(topic)
    marks = lowest([offsets.of(group, topic) for group in groups if group.startswith(LAKE_GROUP_PREFIX)])
    if value != RELEASE:
        return LakeTopic(marks)
    return LakeTopic(marks, lowest([marks, *(offsets.of(group, topic) for group in groups)]))


def lowest(by_reader: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Return the offset that all readers have reached, by queue; without queues that one of them lacks."""
    if not by_reader:
        return {}
    common = set(by_reader[0]).intersection(*by_reader[1:])
    return {queue_id: min(reader[queue_id] for reader in by_reader) for queue_id in common}


def _is_kept(topic: TopicConfig) -> bool:
    return bool(topic.attributes) and LAKE_RETENTION in topic.attributes

"""Topics as brokers describe them: one topic, a table of topics, the offsets of a topic's queues.

Java: ``common.TopicConfig`` and the wrappers of ``remoting.protocol.body``. ``TopicConfig`` also has a text form, one
line of words, which compressed registrations carry: ``bodies.registration`` reads and writes it.
"""

from typing import ClassVar

import msgspec

from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingDetail, TopicQueueMappingInfo
from firearrow.protocol.bodies.body import Body, always, empty_list, empty_map, fresh
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Int32, Int64

DEFAULT_QUEUES = 16
READ_AND_WRITE = 6
SINGLE_TAG = "SINGLE_TAG"


class TopicConfig(Body, frozen=True, kw_only=True):
    """One topic on one broker. 4.9 has no ``attributes``.

    ``firearrowLife`` is ours: a number that a topic gets when it is created, so another one when it is created again.
    None if the life is not known: the topic is of an earlier version, of Apache's broker, or was made for its messages.
    """

    attributes: dict[str, str] = empty_map()
    life: int | None = msgspec.field(name="firearrowLife", default=None)
    order: bool = always(False)
    perm: Int32 = always(READ_AND_WRITE)
    read_queue_nums: Int32 = always(DEFAULT_QUEUES)
    topic_filter_type: str = always(SINGLE_TAG)
    topic_name: str | None = None
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32 = always(DEFAULT_QUEUES)


class TopicConfigAndQueueMapping(Body, frozen=True, kw_only=True):
    """One topic with its logical queues, if it is static: a TopicConfig with one member more."""

    attributes: dict[str, str] = empty_map()
    mapping_detail: TopicQueueMappingDetail | None = None
    order: bool = always(False)
    perm: Int32 = always(READ_AND_WRITE)
    read_queue_nums: Int32 = always(DEFAULT_QUEUES)
    topic_filter_type: str = always(SINGLE_TAG)
    topic_name: str | None = None
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32 = always(DEFAULT_QUEUES)


class TopicConfigTable(Body, frozen=True, kw_only=True):
    """All topics of a broker. Java: ``TopicConfigSerializeWrapper``."""

    data_version: DataVersion = fresh(DataVersion)
    topic_config_table: dict[str, TopicConfig] = empty_map()


class TopicConfigAndMappingTable(Body, frozen=True, kw_only=True):
    """All topics of a broker and its part of static topics.

    Java: ``TopicConfigAndMappingSerializeWrapper``. 4.9 sends the two members of ``TopicConfigTable`` only.
    """

    data_version: DataVersion = fresh(DataVersion)
    mapping_data_version: DataVersion = fresh(DataVersion)
    topic_config_table: dict[str, TopicConfig] = empty_map()
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = empty_map()
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = empty_map()


class CreateTopicListBody(Body, frozen=True, kw_only=True):
    """Request of UPDATE_AND_CREATE_TOPIC_LIST."""

    topic_config_list: list[TopicConfig] = empty_list()


class TopicOffset(Body, frozen=True, kw_only=True, gc=False):
    """The offsets of one queue, and the time of its last message."""

    last_update_timestamp: Int64 = always(0)
    max_offset: Int64 = always(0)
    min_offset: Int64 = always(0)


class TopicStatsTable(Body, frozen=True, kw_only=True):
    """The offsets of each queue of a topic. ``topic_put_tps`` is new in 5.x.

    Two members are ours. ``firearrowHidden``: whether the table lists every queue of which the log has messages.
    ``firearrowLife``: the life of the topic, see ``TopicConfig``.
    """

    keyed_by_queues: ClassVar[bool] = True
    hidden: bool | None = msgspec.field(name="firearrowHidden", default=None)
    life: int | None = msgspec.field(name="firearrowLife", default=None)
    offset_table: dict[MessageQueue, TopicOffset] = empty_map()
    topic_put_tps: float = always(0.0)


class GroupList(Body, frozen=True, kw_only=True):
    """Names of consumer groups."""

    group_list: list[str] = empty_list()

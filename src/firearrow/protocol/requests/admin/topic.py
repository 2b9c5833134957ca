"""Topics of a broker. Java: ``header.CreateTopicRequestHeader`` and neighbours."""

from typing import ClassVar

import msgspec

from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingDetail
from firearrow.protocol.bodies.admin.topic import (
    CreateTopicListBody,
    GroupList,
    TopicConfigAndMappingTable,
    TopicConfigAndQueueMapping,
    TopicStatsTable,
)
from firearrow.protocol.bodies.naming.route import TopicList
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class CreateTopic(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The fields of a topic."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool
    attributes: str | None = None
    force: bool = False


class UpdateAndCreateTopic(CreateTopic, frozen=True, kw_only=True, gc=False):
    """Make or change a topic. Attributes are ``+name=value,-name`` (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_TOPIC


class UpdateAndCreateTopicList(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Make or change several topics (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    request_body = CreateTopicListBody


class UpdateAndCreateStaticTopic(CreateTopic, frozen=True, kw_only=True, gc=False):
    """Make or change a static topic (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC
    request_body = TopicQueueMappingDetail


class GetAllTopicConfigAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The number of all topics (5.x)."""

    total_topic_num: Int32 | None = None


class GetAllTopicConfig(Request[GetAllTopicConfigAnswer], frozen=True, kw_only=True, gc=False):
    """All topics, in pages if the asker knows pages (5.x); asked by slaves."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_TOPIC_CONFIG
    answer_body = TopicConfigAndMappingTable
    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetTopicConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One topic (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPIC_CONFIG
    answer_body = TopicConfigAndQueueMapping
    topic: str


class DeleteTopicInBroker(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Forget a topic and what it holds."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_BROKER
    topic: str


class GetTopicStatsInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The offsets of each queue of a topic.

    ``firearrowHidden`` is ours: our brokers also list hidden queues, which the topic has lost by shrinking.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_TOPIC_STATS_INFO
    answer_body = TopicStatsTable
    topic: str
    hidden: bool | None = msgspec.field(name="firearrowHidden", default=None)


class GetSystemTopicListFromBroker(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The broker's own topics."""

    code: ClassVar[RequestCode] = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    answer_body = TopicList


class QueryTopicConsumeByWho(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The groups that consume a topic."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    answer_body = GroupList
    topic: str


class CleanUnusedTopic(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Remove queues of topics that are gone."""

    code: ClassVar[RequestCode] = RequestCode.CLEAN_UNUSED_TOPIC

"""Groups of a broker and their members. Java: ``header.*SubscriptionGroup*`` and neighbours."""

from typing import ClassVar

from firearrow.protocol.bodies.group.group import (
    GroupForbidden,
    QuerySubscriptionBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from firearrow.protocol.bodies.group.heartbeat import ConsumerConnection, ProducerConnection, ProducerTable
from firearrow.protocol.bodies.naming.route import TopicList
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class UpdateAndCreateSubscriptionGroup(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Make or change a group."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    request_body = SubscriptionGroupConfig


class UpdateAndCreateSubscriptionGroupList(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Make or change several groups (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    request_body = SubscriptionGroupList


class GetAllSubscriptionGroupAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The number of all groups (5.x)."""

    total_group_num: Int32 | None = None


class GetAllSubscriptionGroupConfig(Request[GetAllSubscriptionGroupAnswer], frozen=True, kw_only=True, gc=False):
    """All groups, in pages if the asker knows pages (5.x); asked by slaves."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    answer_body = SubscriptionGroupTable
    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetSubscriptionGroupConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One group (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    answer_body = SubscriptionGroupConfig
    group: str


class DeleteSubscriptionGroup(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Forget a group. 4.9 says ``removeOffset`` where 5.x says ``cleanOffset``."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_SUBSCRIPTIONGROUP
    group_name: str
    clean_offset: bool = False
    remove_offset: bool | None = None


class UpdateAndGetGroupForbidden(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Whether a group may read a topic, and a change of that (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    answer_body = GroupForbidden
    group: str
    topic: str
    readable: bool | None = None


class QueryTopicsByConsumer(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The topics that a group consumes (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPICS_BY_CONSUMER
    answer_body = TopicList
    group: str


class QuerySubscriptionByConsumer(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The subscriptions of a group (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    answer_body = QuerySubscriptionBody
    group: str
    topic: str | None = None


class GetConsumerConnectionList(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The connections of a consumer group."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_CONNECTION_LIST
    answer_body = ConsumerConnection
    consumer_group: str


class GetProducerConnectionList(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The connections of a producer group."""

    code: ClassVar[RequestCode] = RequestCode.GET_PRODUCER_CONNECTION_LIST
    answer_body = ProducerConnection
    producer_group: str


class GetAllProducerInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """All producers."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_PRODUCER_INFO
    answer_body = ProducerTable

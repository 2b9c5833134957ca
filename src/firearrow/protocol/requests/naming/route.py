"""Routes: reading them from a name server, and changing them.

Java: ``header.namesrv.GetRouteInfoRequestHeader`` and its neighbours.
"""

from typing import ClassVar

import msgspec

from firearrow.protocol.bodies.naming.route import ClusterInfo, TopicList, TopicRouteData
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class GetRouteInfoByTopic(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The brokers of a topic's queues. The flag asks for quoted keys whatever the asker's version.

    A client in a zone asks for the brokers of its own; in Java ``DynamicalExtFieldRPCHook`` adds the two fields to
    every request, outside the header class.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_ROUTEINFO_BY_TOPIC
    answer_body = TopicRouteData
    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: bool | None = msgspec.field(name="__ZONE_MODE", default=None)
    zone_name: str | None = msgspec.field(name="__ZONE_NAME", default=None)


class GetBrokerClusterInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Every broker of every cluster."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CLUSTER_INFO
    answer_body = ClusterInfo


class GetAllTopicListFromNameserver(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The names of all topics."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    answer_body = TopicList


class GetTopicsByCluster(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The names of the topics that a cluster's brokers have."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPICS_BY_CLUSTER
    answer_body = TopicList
    cluster: str


class GetSystemTopicListFromNs(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The names of clusters and brokers, which are topics too, and the address of one broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS
    answer_body = TopicList


class GetUnitTopicList(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The topics whose unit bit is set."""

    code: ClassVar[RequestCode] = RequestCode.GET_UNIT_TOPIC_LIST
    answer_body = TopicList


class GetHasUnitSubTopicList(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The topics whose unit-subscription bit is set."""

    code: ClassVar[RequestCode] = RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST
    answer_body = TopicList


class GetHasUnitSubUnunitTopicList(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The topics whose unit-subscription bit is set and whose unit bit is not."""

    code: ClassVar[RequestCode] = RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
    answer_body = TopicList


class WipeWritePermAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The number of changed topics."""

    wipe_topic_count: Int32


class WipeWritePermOfBroker(Request[WipeWritePermAnswer], frozen=True, kw_only=True, gc=False):
    """Take the write permission from a broker's queues."""

    code: ClassVar[RequestCode] = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    broker_name: str


class AddWritePermAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The number of changed topics."""

    add_topic_count: Int32


class AddWritePermOfBroker(Request[AddWritePermAnswer], frozen=True, kw_only=True, gc=False):
    """Give a broker's queues read and write permission."""

    code: ClassVar[RequestCode] = RequestCode.ADD_WRITE_PERM_OF_BROKER
    broker_name: str


class DeleteTopicInNamesrv(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Forget a topic, in one cluster or in all."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_NAMESRV
    topic: str
    cluster_name: str | None = None


class RegisterTopicInNamesrv(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Add the queues of one topic that no broker has registered."""

    code: ClassVar[RequestCode] = RequestCode.REGISTER_TOPIC_IN_NAMESRV
    request_body = TopicRouteData
    topic: str

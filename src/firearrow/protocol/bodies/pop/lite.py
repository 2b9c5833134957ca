"""Lite topics: very many small topics under one parent (5.5).

Java: ``remoting.protocol.body.GetLite*ResponseBody`` and neighbours, ``common.lite``, ``common.entity.ClientGroup``.
"""

from firearrow.protocol.bodies.admin.stats import OffsetWrapper
from firearrow.protocol.bodies.admin.topic import TopicOffset
from firearrow.protocol.bodies.body import Body, always
from firearrow.protocol.conversation import Int32, Int64


class OffsetOption(Body, frozen=True, kw_only=True, gc=False):
    """The start of a new subscription."""

    type: str | None = None
    value: Int64 = always(0)


class LiteSubscription(Body, frozen=True, kw_only=True):
    """A change of one client's subscription. Java: ``LiteSubscriptionDTO``.

    ``action`` is PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD or COMPLETE_REMOVE.
    """

    action: str | None = None
    client_id: str | None = None
    group: str | None = None
    lite_topic_set: list[str] | None = None
    offset_option: OffsetOption | None = None
    topic: str | None = None
    version: Int64 = always(0)


class LiteSubscriptionCtlBody(Body, frozen=True, kw_only=True):
    """Request of LITE_SUBSCRIPTION_CTL."""

    subscription_set: list[LiteSubscription] | None = None


class BrokerLiteInfo(Body, frozen=True, kw_only=True):
    """The number of lite topics of a broker, with their topics and groups."""

    cq_table_size: Int32 = always(0)
    current_lmq_num: Int32 = always(0)
    event_map_size: Int32 = always(0)
    group_meta: dict[str, list[str]] | None = None
    lite_subscription_count: Int32 = always(0)
    max_lmq_num: Int32 = always(0)
    offset_table_size: Int32 = always(0)
    order_info_count: Int32 = always(0)
    store_type: str | None = None
    topic_meta: dict[str, Int32] | None = None


class ParentTopicInfo(Body, frozen=True, kw_only=True):
    """The lite topics under one parent."""

    groups: list[str] | None = None
    lite_topic_count: Int32 = always(0)
    lmq_num: Int32 = always(0)
    topic: str | None = None
    ttl: Int32 = always(0)


class ClientGroup(Body, frozen=True, kw_only=True, gc=False):
    """A client within a group."""

    client_id: str | None = None
    group: str | None = None


class LiteTopicInfo(Body, frozen=True, kw_only=True):
    """One lite topic."""

    lite_topic: str | None = None
    parent_topic: str | None = None
    sharding_to_broker: bool = always(False)
    subscriber: list[ClientGroup] | None = None
    topic_offset: TopicOffset | None = None


class LiteClientInfo(Body, frozen=True, kw_only=True):
    """The lite topics of one client."""

    client_id: str | None = None
    group: str | None = None
    last_access_time: Int64 = always(0)
    last_consume_time: Int64 = always(0)
    lite_topic_count: Int32 = always(0)
    lite_topic_set: list[str] | None = None
    parent_topic: str | None = None


class LiteLagInfo(Body, frozen=True, kw_only=True, gc=False):
    """The lag of a group in one lite topic."""

    earliest_unconsumed_timestamp: Int64 = always(0)
    lag_count: Int64 = always(0)
    lite_topic: str | None = None


class LiteGroupInfo(Body, frozen=True, kw_only=True):
    """The lag of a group in its lite topics."""

    earliest_unconsumed_timestamp: Int64 = always(-1)
    group: str | None = None
    lag_count_top_k: list[LiteLagInfo] | None = None
    lag_timestamp_top_k: list[LiteLagInfo] | None = None
    lite_topic: str | None = None
    lite_topic_offset_wrapper: OffsetWrapper | None = None
    parent_topic: str | None = None
    total_lag_count: Int64 = always(0)

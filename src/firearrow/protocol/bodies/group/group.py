"""Consumer groups as brokers describe them.

Java: ``remoting.protocol.subscription`` and the wrappers of ``remoting.protocol.body``.
"""

from enum import StrEnum

from firearrow.protocol.bodies.body import Body, always, empty_list, empty_map, fresh
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Int32, Int64


class RetryPolicyType(StrEnum):
    """The growth of the delay before a redelivery."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class CustomizedRetryPolicy(Body, frozen=True, kw_only=True):
    """The delays, in milliseconds, one a redelivery; absent: the broker's delay levels."""

    next: list[Int64] | None = None


class ExponentialRetryPolicy(Body, frozen=True, kw_only=True, gc=False):
    """A delay, in milliseconds, that grows by a factor up to a limit."""

    initial: Int64 = always(5_000)
    max: Int64 = always(7_200_000)
    multiplier: Int64 = always(2)


class GroupRetryPolicy(Body, frozen=True, kw_only=True):
    """The redelivery of a group's failed messages."""

    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type: str = always(RetryPolicyType.CUSTOMIZED.value)


class SimpleSubscriptionData(Body, frozen=True, kw_only=True, gc=False):
    """A subscription that the broker itself keeps for a group."""

    expression: str | None = None
    expression_type: str | None = None
    topic: str | None = None
    version: Int64 = always(0)


class SubscriptionGroupConfig(Body, frozen=True, kw_only=True):
    """One consumer group. 4.9 has the members that are not about order, retry policy, timeout and attributes."""

    attributes: dict[str, str] = empty_map()
    broker_id: Int64 = always(0)
    consume_broadcast_enable: bool = always(True)
    consume_enable: bool = always(True)
    consume_from_min_enable: bool = always(True)
    consume_message_orderly: bool = always(False)
    consume_timeout_minute: Int32 = always(15)
    group_name: str | None = None
    group_retry_policy: GroupRetryPolicy = fresh(GroupRetryPolicy)
    group_sys_flag: Int32 = always(0)
    notify_consumer_ids_changed_enable: bool = always(True)
    retry_max_times: Int32 = always(16)
    retry_queue_nums: Int32 = always(1)
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    which_broker_when_consume_slowly: Int64 = always(1)


class SubscriptionGroupTable(Body, frozen=True, kw_only=True):
    """All groups of a broker. Java: ``SubscriptionGroupWrapper``."""

    data_version: DataVersion = fresh(DataVersion)
    forbidden_table: dict[str, dict[str, Int32]] = empty_map()
    subscription_group_table: dict[str, SubscriptionGroupConfig] = empty_map()


class SubscriptionGroupList(Body, frozen=True, kw_only=True):
    """Request of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""

    group_config_list: list[SubscriptionGroupConfig] = empty_list()


class GroupForbidden(Body, frozen=True, kw_only=True, gc=False):
    """Whether a group may read a topic."""

    group: str | None = None
    readable: bool | None = None
    topic: str | None = None


class QuerySubscriptionBody(Body, frozen=True, kw_only=True):
    """Answer to QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str | None = None
    subscription_data: SubscriptionData | None = None
    topic: str | None = None

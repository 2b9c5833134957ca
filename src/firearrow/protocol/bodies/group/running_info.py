"""The running info of a consumer.

Java: ``remoting.protocol.body.ConsumerRunningInfo``, ``ConsumeMessageDirectlyResult``. ``droped`` is Java's spelling.
"""

from enum import StrEnum
from typing import ClassVar

import msgspec

from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import Body, always, empty_list, empty_map
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.protocol.conversation import Int32, Int64


class ProcessQueueInfo(Body, frozen=True, kw_only=True, gc=False):
    """The state of one queue that a consumer pulls."""

    cached_msg_count: Int32 = always(0)
    cached_msg_max_offset: Int64 = always(0)
    cached_msg_min_offset: Int64 = always(0)
    cached_msg_size_in_mib: Int32 = msgspec.field(name="cachedMsgSizeInMiB", default_factory=lambda: 0)
    commit_offset: Int64 = always(0)
    droped: bool = always(False)
    last_consume_timestamp: Int64 = always(0)
    last_lock_timestamp: Int64 = always(0)
    last_pull_timestamp: Int64 = always(0)
    locked: bool = always(False)
    transaction_msg_count: Int32 = always(0)
    transaction_msg_max_offset: Int64 = always(0)
    transaction_msg_min_offset: Int64 = always(0)
    try_unlock_times: Int64 = always(0)


class PopProcessQueueInfo(Body, frozen=True, kw_only=True, gc=False):
    """The state of one queue that a consumer pops."""

    droped: bool = always(False)
    last_pop_timestamp: Int64 = always(0)
    wait_ack_count: Int32 = always(0)


class ConsumeStatus(Body, frozen=True, kw_only=True, gc=False):
    """The rates and times of a consumer in one topic."""

    consume_failed_msgs: Int64 = always(0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default_factory=lambda: 0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default_factory=lambda: 0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default_factory=lambda: 0.0)
    pull_rt: float = msgspec.field(name="pullRT", default_factory=lambda: 0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default_factory=lambda: 0.0)


class ConsumerRunningInfo(Body, frozen=True, kw_only=True):
    """Settings, subscriptions, queues and statistics of a consumer."""

    keyed_by_queues: ClassVar[bool] = True
    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = empty_map()
    mq_table: dict[MessageQueue, ProcessQueueInfo] = empty_map()
    properties: dict[str, str] = empty_map()
    status_table: dict[str, ConsumeStatus] = empty_map()
    subscription_set: list[SubscriptionData] = empty_list()
    user_consumer_info: dict[str, str] = empty_map()


class ConsumeResult(StrEnum):
    """The result of consuming one message. Java: ``CMResult``."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body, frozen=True, kw_only=True, gc=False):
    """The result of a message that was delivered directly. ``consume_result`` is a ``ConsumeResult``."""

    auto_commit: bool = always(True)
    consume_result: str | None = None
    order: bool = always(False)
    remark: str | None = None
    spent_time_mills: Int64 = always(0)

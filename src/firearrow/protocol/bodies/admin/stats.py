"""The progress of groups, and the load of a broker.

Java: ``remoting.protocol.admin``; ``ConsumeStatsList``, ``BrokerStatsData``, ``QueueTimeSpan`` of
``remoting.protocol.body``.
"""

from typing import ClassVar

from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import Body, always, empty_list, empty_map
from firearrow.protocol.conversation import Int64


class OffsetWrapper(Body, frozen=True, kw_only=True, gc=False):
    """The progress of a group in one queue. ``pull_offset`` is new in 5.x."""

    broker_offset: Int64 = always(0)
    consumer_offset: Int64 = always(0)
    last_timestamp: Int64 = always(0)
    pull_offset: Int64 = always(0)


class ConsumeStats(Body, frozen=True, kw_only=True):
    """The progress of a group in its queues."""

    keyed_by_queues: ClassVar[bool] = True
    consume_tps: float = always(0.0)
    offset_table: dict[MessageQueue, OffsetWrapper] = empty_map()


class ConsumeStatsList(Body, frozen=True, kw_only=True):
    """The progress of every group of a broker: a list of maps of one group each."""

    keyed_by_queues: ClassVar[bool] = True
    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = empty_list()
    total_diff: Int64 = always(0)
    total_inflight_diff: Int64 = always(0)


class BrokerStatsItem(Body, frozen=True, kw_only=True, gc=False):
    """A sum over a time, a second's share and a call's share of it."""

    avgpt: float = always(0.0)
    sum: Int64 = always(0)
    tps: float = always(0.0)


class BrokerStatsData(Body, frozen=True, kw_only=True):
    """One statistic of a broker over three times."""

    stats_day: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_minute: BrokerStatsItem | None = None


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """The times that one queue covers. The texts repeat the times as ``yyyy-MM-dd#HH:mm:ss:SSS``."""

    consume_time_stamp: Int64 = always(0)
    consume_time_stamp_str: str | None = None
    delay_time: Int64 = always(0)
    max_time_stamp: Int64 = always(0)
    max_time_stamp_str: str | None = None
    message_queue: MessageQueue | None = None
    min_time_stamp: Int64 = always(0)
    min_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Body, frozen=True, kw_only=True):
    """Answer to QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: list[QueueTimeSpan] = empty_list()

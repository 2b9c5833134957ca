"""Requests of slaves to masters, between brokers, and for brokers inside a container.

Java: ``BRK/slave/SlaveSynchronize``, ``header.ExchangeHAInfoRequestHeader`` and neighbours.
"""

from typing import ClassVar

from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.admin.store import TimerCheckpoint, TimerMetricsTable
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable, DelayOffsetTable
from firearrow.protocol.bodies.replication.replication import EpochEntryCache, HaRuntimeInfo, SyncStateSet
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Int64, Request


class GetAllConsumerOffsetAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The state that the offsets of the body are from. Apache's broker sends neither field."""

    mark: str | None = None
    """Names the state of the table before the offsets were read."""
    since: str | None = None
    """The mark since which the rows of the body have changed, an empty row being deleted; None when all are there."""
    more: bool | None = None
    """Whether rows after the mark are left out of this part; None for no."""


class GetAllConsumerOffset(Request[GetAllConsumerOffsetAnswer], frozen=True, kw_only=True, gc=False):
    """All offsets of all groups; of our broker those that changed since a mark, if it still knows the mark.

    ``inParts`` is ours: our broker tells a few MiB at a time, and the asker goes on from the mark of the answer.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_CONSUMER_OFFSET
    answer_body = ConsumerOffsetTable
    since: str | None = None
    in_parts: bool | None = None


class GetAllDelayOffset(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The offset of each delay level."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_DELAY_OFFSET
    answer_body = DelayOffsetTable


class GetTimerCheckPoint(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The progress of timers (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_TIMER_CHECK_POINT
    answer_body = TimerCheckpoint


class GetTimerMetrics(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The number of timed messages, by topic (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_TIMER_METRICS
    answer_body = TimerMetricsTable


class ExchangeHaInfoAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The addresses and flush offset of the master that the asked broker knows."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class ExchangeBrokerHaInfo(Request[ExchangeHaInfoAnswer], frozen=True, kw_only=True, gc=False):
    """Send, or ask for, the addresses of the master (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.EXCHANGE_BROKER_HA_INFO
    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class GetBrokerHaStatus(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The state of replication (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_HA_STATUS
    answer_body = HaRuntimeInfo


class ResetMasterFlushOffset(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Tell a slave how far its master's log is on disk (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.RESET_MASTER_FLUSH_OFFSET
    master_flush_offset: int


class GetBrokerEpochCacheAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The number of the last change of the tables in this epoch; Apache's broker tells none."""

    tables: Int64 | None = None


class GetBrokerEpochCache(Request[GetBrokerEpochCacheAnswer], frozen=True, kw_only=True, gc=False):
    """The epochs of the log: the parts that one master each wrote (5.x).

    A replica of a group of ours tells who it is and which change of the tables it has taken, and may ask to be answered
    when there is a later change than the one that it knows. Apache's broker ignores these fields.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_EPOCH_CACHE
    answer_body = EpochEntryCache
    replica: Int64 | None = None
    epoch: Int64 | None = None
    directory: Int64 | None = None
    taken: Int64 | None = None
    known: Int64 | None = None


class NotifyBrokerRoleChanged(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Controller to broker: this is the master now (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
    request_body = SyncStateSet
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: int | None = None


class AddBroker(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Start a broker inside a container; the body is its settings (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.ADD_BROKER
    request_body = PropertiesText
    config_path: str | None = None


class RemoveBroker(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Stop a broker inside a container (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.REMOVE_BROKER
    broker_name: str
    broker_cluster_name: str
    broker_id: int

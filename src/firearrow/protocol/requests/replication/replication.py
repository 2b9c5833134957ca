"""Requests of slaves to masters, between brokers, and for brokers inside a container.

Java: ``BRK/slave/SlaveSynchronize``, ``header.ExchangeHAInfoRequestHeader`` and neighbours.
"""

from typing import ClassVar

from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.admin.store import TimerCheckpoint, TimerMetricsTable
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable, DelayOffsetTable
from firearrow.protocol.bodies.replication.replication import EpochEntryCache, HaRuntimeInfo, SyncStateSet
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import Empty, Fields, Int32, Request


class GetAllConsumerOffset(Request[Empty], frozen=True, kw_only=True, gc=False):
    """All offsets of all groups."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_CONSUMER_OFFSET
    answer_body = ConsumerOffsetTable


class GetAllDelayOffset(Request[Empty], frozen=True, kw_only=True, gc=False):
    """How far each delay level is."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_DELAY_OFFSET
    answer_body = DelayOffsetTable


class GetTimerCheckPoint(Request[Empty], frozen=True, kw_only=True, gc=False):
    """How far timers are (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_TIMER_CHECK_POINT
    answer_body = TimerCheckpoint


class GetTimerMetrics(Request[Empty], frozen=True, kw_only=True, gc=False):
    """How many timed messages there are (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_TIMER_METRICS
    answer_body = TimerMetricsTable


class ExchangeHaInfoAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """What the asked broker knows of the master."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class ExchangeBrokerHaInfo(Request[ExchangeHaInfoAnswer], frozen=True, kw_only=True, gc=False):
    """Send, or ask for, the addresses of the master (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.EXCHANGE_BROKER_HA_INFO
    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class GetBrokerHaStatus(Request[Empty], frozen=True, kw_only=True, gc=False):
    """How replication goes (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_HA_STATUS
    answer_body = HaRuntimeInfo


class ResetMasterFlushOffset(Request[Empty], frozen=True, kw_only=True, gc=False):
    """Tell a slave how far its master's log is on disk (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.RESET_MASTER_FLUSH_OFFSET
    master_flush_offset: int


class GetBrokerEpochCache(Request[Empty], frozen=True, kw_only=True, gc=False):
    """Which master wrote which part of the log (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_EPOCH_CACHE
    answer_body = EpochEntryCache


class NotifyBrokerRoleChanged(Request[Empty], frozen=True, kw_only=True, gc=False):
    """Controller to broker: this is the master now (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
    request_body = SyncStateSet
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: int | None = None


class AddBroker(Request[Empty], frozen=True, kw_only=True, gc=False):
    """Start a broker inside a container; the body is its settings (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.ADD_BROKER
    request_body = PropertiesText
    config_path: str | None = None


class RemoveBroker(Request[Empty], frozen=True, kw_only=True, gc=False):
    """Stop a broker inside a container (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.REMOVE_BROKER
    broker_name: str
    broker_cluster_name: str
    broker_id: int

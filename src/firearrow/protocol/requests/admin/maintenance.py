"""Maintenance of a broker's files. Java: ``BRK/processor/AdminBrokerProcessor``."""

from typing import ClassVar

import msgspec

from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.admin.store import RocksdbCheck
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Int32, Request


class CleanExpiredConsumeQueue(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Remove queue files whose messages are gone."""

    code: ClassVar[RequestCode] = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE


class DeleteExpiredCommitLog(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Remove log files that are old enough."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_EXPIRED_COMMITLOG


class CheckRocksdbCqWriteProgress(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Compare the two formats of consume queues (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS
    answer_body = RocksdbCheck
    topic: str
    check_store_time: int = 0


class ExportRocksdbConfigToJson(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Write settings kept in RocksDB as JSON files (5.x). Types are joined by ``;``."""

    code: ClassVar[RequestCode] = RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON
    config_type: str


class UpdateColdDataFlowCtrConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Limit how much cold data groups read (5.x): ``group=threshold`` lines."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG
    request_body = PropertiesText


class RemoveColdDataFlowCtrConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Remove a group's limit on cold data; the body is the group's name."""

    code: ClassVar[RequestCode] = RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG
    request_body = bytes


class GetColdDataFlowCtrInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """All limits on cold data and how much was read; the body is JSON for people to read."""

    code: ClassVar[RequestCode] = RequestCode.GET_COLD_DATA_FLOW_CTR_INFO
    answer_body = bytes


class SetCommitLogReadMode(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Choose how the log is read ahead: 0 normal, 1 random."""

    code: ClassVar[RequestCode] = RequestCode.SET_COMMITLOG_READ_MODE
    read_ahead_mode: Int32 = msgspec.field(name="READ_AHEAD_MODE")


class SwitchTimerEngine(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Choose the kind of timers (5.5): ``F`` files, ``R`` RocksDB."""

    code: ClassVar[RequestCode] = RequestCode.SWITCH_TIMER_ENGINE
    engine_type: str = msgspec.field(name="E_T")

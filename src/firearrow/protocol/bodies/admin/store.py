"""The state of a broker's store: timers, and the progress of another queue format.

Java: ``store.timer.TimerMetrics``, ``store.timer.TimerCheckpoint``, ``common.CheckRocksdbCqWriteResult``. The timer
check point is binary, seven big-endian longs::

    lastReadTimeMs, lastTimerLogFlushPos, lastTimerQueueOffset, masterTimerQueueOffset,
    then the DataVersion: stateVersion, timestamp, counter
"""

import struct
from typing import Final

import msgspec

from firearrow.errors import BadBody
from firearrow.protocol.bodies.body import Body, always, empty_map
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Int32, Int64

_CHECKPOINT: Final = struct.Struct(">7q")
_OLD_CHECKPOINT: Final = struct.Struct(">4q")


class TimerCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a broker's timers."""

    last_read_time_ms: int
    last_timer_log_flush_pos: int
    last_timer_queue_offset: int
    master_timer_queue_offset: int
    data_version: DataVersion

    def encode(self) -> bytes:
        """Return the body's bytes."""
        version = self.data_version
        return _CHECKPOINT.pack(
            self.last_read_time_ms,
            self.last_timer_log_flush_pos,
            self.last_timer_queue_offset,
            self.master_timer_queue_offset,
            version.state_version,
            version.timestamp,
            version.counter,
        )

    @classmethod
    def decode(cls, data: bytes) -> "TimerCheckpoint":
        """Read a body; one without a version, from the first 5.x brokers, gets version zero."""
        if len(data) < _OLD_CHECKPOINT.size:
            raise BadBody(f"a timer check point has {len(data)} bytes, {_OLD_CHECKPOINT.size} are needed")
        read, flushed, queue, master = _OLD_CHECKPOINT.unpack_from(data)
        state, timestamp, counter = (0, 0, 0)
        if len(data) >= _CHECKPOINT.size:
            state, timestamp, counter = _CHECKPOINT.unpack_from(data)[4:]
        return cls(
            last_read_time_ms=read,
            last_timer_log_flush_pos=flushed,
            last_timer_queue_offset=queue,
            master_timer_queue_offset=master,
            data_version=DataVersion(state_version=state, timestamp=timestamp, counter=counter),
        )


class TimerMetric(Body, frozen=True, kw_only=True, gc=False):
    """The number of timed messages of a topic, and the time of the count."""

    count: Int64 = always(0)
    time_stamp: Int64 = always(0)


class TimerMetricsTable(Body, frozen=True, kw_only=True):
    """Timed messages by topic. Java: ``TimerMetricsSerializeWrapper``."""

    data_version: DataVersion | None = None
    timing_count: dict[str, TimerMetric] = empty_map()


class RocksdbCheck(Body, frozen=True, kw_only=True, gc=False):
    """Answer to CHECK_ROCKSDB_CQ_WRITE_PROGRESS. Java: ``CheckRocksdbCqWriteResult``."""

    check_result: str | None = None
    check_status: Int32 = always(0)

"""Upkeep of one broker's files, and limits of reads of old messages. Java: ``AdminBrokerProcessor``."""

from typing import Any

from firearrow import fastjson
from firearrow.admin.brokers import Brokers, Server
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.requests.admin.maintenance import (
    CleanExpiredConsumeQueue,
    DeleteExpiredCommitLog,
    GetColdDataFlowCtrInfo,
    RemoveColdDataFlowCtrConfig,
    SetCommitLogReadMode,
    UpdateColdDataFlowCtrConfig,
)
from firearrow.protocol.requests.admin.topic import CleanUnusedTopic
from firearrow.protocol.requests.pop.pop import PopRollback
from firearrow.protocol.requests.replication.replication import ResetMasterFlushOffset


class BrokerUpkeep:
    """Upkeep of brokers, one broker at a time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def clean_expired_queues(self, at: Server) -> None:
        """Remove queue files whose messages are gone."""
        await self._brokers.ask(at, CleanExpiredConsumeQueue())

    async def clean_unused_topics(self, at: Server) -> None:
        """Remove queues of topics that are gone."""
        await self._brokers.ask(at, CleanUnusedTopic())

    async def delete_expired_log(self, at: Server) -> None:
        """Remove log files that are old enough."""
        await self._brokers.ask(at, DeleteExpiredCommitLog())

    async def reset_master_flush_offset(self, at: Server, offset: int) -> None:
        """Tell a slave how far its master's log is on disk."""
        await self._brokers.ask(at, ResetMasterFlushOffset(master_flush_offset=offset))

    async def set_read_ahead(self, at: Server, mode: int) -> str | None:
        """Choose how the log is read ahead, 0 normal, 1 random; return the broker's remark."""
        return (await self._brokers.ask(at, SetCommitLogReadMode(read_ahead_mode=mode))).remark

    async def roll_back_pop(self, at: Server) -> None:
        """Write the pop records of a broker from RocksDB into the revive topic."""
        await self._brokers.ask(at, PopRollback())

    async def cold_reads(self, at: Server) -> dict[str, Any]:
        """Return the limits of groups that read old messages, and how much they have read, by Apache's names."""
        found: dict[str, Any] = fastjson.read((await self._brokers.ask(at, GetColdDataFlowCtrInfo())).body)
        return found

    async def limit_cold_reads(self, at: Server, group: str, threshold: str) -> None:
        """Limit how much old data a group reads."""
        body = PropertiesText({group: threshold}).encode()
        await self._brokers.ask(at, UpdateColdDataFlowCtrConfig(), body)

    async def unlimit_cold_reads(self, at: Server, group: str) -> None:
        """Remove the limit of a group that reads old messages."""
        await self._brokers.ask(at, RemoveColdDataFlowCtrConfig(), group.encode())

"""``haStatus``, ``getBrokerEpoch``: until they are stopped, with -i."""

from typing import Final

from firearrow.cli.mqadmin.java_text import time_text
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import Given, Option, Verb, usage_needed
from firearrow.protocol.bodies.replication.replication import EpochEntryCache, HaRuntimeInfo
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache, GetBrokerHaStatus

SLAVE_HEAD: Final = "%-32s  %-16s %16s %16s %16s %16s"
SLAVE_ROW: Final = "%-32s  %-16d %16d %16.2f %16s %16d"
KIB: Final = 1024.0


async def ha_status(session: Session, given: Given) -> None:
    """Print how replication goes at a broker, or at the masters of a cluster."""
    while True:
        for address in await _asked(session, given, by_name=False):
            _print_status(session, address, await session.read(address, GetBrokerHaStatus(), HaRuntimeInfo))
        if not given.has("i"):
            return
        await session.pause(given.number("i"))


async def _asked(session: Session, given: Given, *, by_name: bool) -> list[str]:
    if given.has("b"):
        if not by_name:
            return [given.text("b")]
        return [address for _, address in (await session.cluster()).numbered(given.text("b"))]
    if not given.has("c"):
        usage_needed()
    cluster = await session.cluster()
    return cluster.members(given.text("c")) if by_name else cluster.masters(given.text("c"))


def _print_status(session: Session, address: str, info: HaRuntimeInfo) -> None:
    if info.master:
        session.line("\n#MasterAddr\t%s", address)
        session.line("#MasterCommitLogMaxOffset\t%d", info.master_commit_log_max_offset)
        session.line("#SlaveNum\t%d", len(info.ha_connection_info))
        session.line("#InSyncSlaveNum\t%d", info.in_sync_slave_nums)
        session.line(
            SLAVE_HEAD, "#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status",
            "#TransferFromWhere",
        )  # fmt: skip
        for each in info.ha_connection_info:
            speed, state = each.transferred_byte_in_second / KIB, "OK" if each.in_sync else "Fall Behind"
            session.line(SLAVE_ROW, each.addr, each.slave_ack_offset, each.diff, speed, state, each.transfer_from_where)
        return
    own = info.ha_client_runtime_info
    session.line("\n#MasterAddr\t%s", own.master_addr)
    session.line("#CommitLogMaxOffset\t%d", own.max_offset)
    session.line("#TransferSpeed(KB/s)\t%.2f", own.transferred_byte_in_second / KIB)
    session.line("#LastReadTime\t%s", time_text(own.last_read_timestamp))
    session.line("#LastWriteTime\t%s", time_text(own.last_write_timestamp))
    session.line("#MasterFlushOffset\t%s", own.master_flush_offset)


async def broker_epoch(session: Session, given: Given) -> None:
    """Print which master wrote which part of a broker's log."""
    while True:
        for address in await _asked(session, given, by_name=True):
            _print_epochs(session, address, await session.read(address, GetBrokerEpochCache(), EpochEntryCache))
        if not given.has("i"):
            return
        await session.pause(given.number("i"))


def _print_epochs(session: Session, address: str, cache: EpochEntryCache) -> None:
    session.write(
        "\n#clusterName\t%s\n#brokerName\t%s\n#brokerAddr\t%s\n#brokerId\t%d",
        cache.cluster_name, cache.broker_name, address, cache.broker_id,
    )  # fmt: skip
    epochs = cache.epoch_list or []
    for number, each in enumerate(epochs, 1):
        end = cache.max_offset if number == len(epochs) else each.end_offset
        session.write(
            "\n#Epoch: EpochEntry{epoch=%d, startOffset=%d, endOffset=%d}", each.epoch, each.start_offset, end
        )
    session.line("")


INTERVAL: Final = Option("i", "interval", "the interval(second) of get info")
VERBS: Final = (
    Verb("haStatus", "Fetch ha runtime status data.",
         (Option("c", "clusterName", "which cluster"), Option("b", "brokerAddr", "which broker to fetch"), INTERVAL),
         ha_status),
    Verb("getBrokerEpoch", "Fetch broker epoch entries.",
         (Option("c", "clusterName", "which cluster"), Option("b", "brokerName", "which broker to fetch"), INTERVAL),
         broker_epoch),
)  # fmt: skip

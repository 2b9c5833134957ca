"""``haStatus``, ``getBrokerEpoch``: until they are stopped, with -i."""

from typing import Final

from firearrow.cli.mqadmin.java_text import time_text
from firearrow.cli.mqadmin.places import masters, repeat
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption, usage_needed
from firearrow.protocol.bodies.replication.replication import EpochEntryCache, HaRuntimeInfo

SLAVE_HEAD: Final = "%-32s  %-16s %16s %16s %16s %16s"
SLAVE_ROW: Final = "%-32s  %-16d %16d %16.2f %16s %16d"
KIB: Final = 1024.0


async def ha_status(session: Session, given: OptionValues) -> None:
    """Print how replication goes at a broker, or at the masters of a cluster."""

    async def once() -> None:
        for address in await masters(session, given):
            _print_status(session, address, await session.admin.operations.replication(address))

    await repeat(session, given, once)


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


async def broker_epoch(session: Session, given: OptionValues) -> None:
    """Print which master wrote which part of a broker's log."""

    async def once() -> None:
        for address in await _members(session, given):
            _print_epochs(session, address, await session.admin.operations.epochs(address))

    await repeat(session, given, once)


async def _members(session: Session, given: OptionValues) -> list[str]:
    """Return the members of the broker whose name -b gives, else all of the cluster of -c."""
    if given.has("b"):
        return [address for _, address in (await session.cluster()).numbered(given.text("b"))]
    return (await session.cluster()).members(given.text("c")) if given.has("c") else usage_needed()


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


INTERVAL: Final = VerbOption("i", "interval", "the interval(second) of get info")
VERBS: Final = (
    Verb("haStatus", "Fetch ha runtime status data.",
         (VerbOption("c", "clusterName", "which cluster"), VerbOption("b", "brokerAddr", "which broker to fetch"),
         INTERVAL),
         ha_status),
    Verb("getBrokerEpoch", "Fetch broker epoch entries.",
         (VerbOption("c", "clusterName", "which cluster"), VerbOption("b", "brokerName", "which broker to fetch"),
         INTERVAL),
         broker_epoch),
)  # fmt: skip

"""``cleanExpiredCQ``, ``cleanUnusedTopic``, ``deleteExpiredCommitLog``, ``resetMasterFlushOffset``, cold reads."""

from typing import Any, Final

from firearrow import fastjson
from firearrow.cli.mqadmin.broker.settings import settings_of
from firearrow.cli.mqadmin.java_text import second_text
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.views import json_text
from firearrow.cli.mqadmin.verb import Given, Option, Verb, usage_needed
from firearrow.errors import FireArrowError, SettingsError
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.conversation import Empty, Request
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


async def _tell(session: Session, given: Given, request: Request[Empty]) -> None:
    """Send a request to the broker of -b, or to all members of the cluster of -c, or of all clusters."""
    if given.has("b"):
        await session.ask(given.text("b"), request)
    else:
        cluster = await session.cluster()
        for name in [given.text("c")] if given.has("c") else list(cluster.clusters):
            for address in cluster.members(name):
                await session.ask(address, request)
    session.write("success")


async def clean_expired_cq(session: Session, given: Given) -> None:
    """Remove queue files whose messages are gone."""
    await _tell(session, given, CleanExpiredConsumeQueue())


async def clean_unused_topic(session: Session, given: Given) -> None:
    """Remove queues of topics that are gone."""
    await _tell(session, given, CleanUnusedTopic())


async def delete_expired_commit_log(session: Session, given: Given) -> None:
    """Remove log files that are old enough."""
    await _tell(session, given, DeleteExpiredCommitLog())


async def reset_master_flush_offset(session: Session, given: Given) -> None:
    """Tell a slave how far its master's log is on disk."""
    offset = given.number("o")
    await session.ask(given.text("b"), ResetMasterFlushOffset(master_flush_offset=offset))
    session.line("reset master flush offset to %d success", offset)


async def set_read_ahead(session: Session, given: Given) -> None:
    """Choose how the log is read ahead."""
    mode = given.text("m")
    if mode not in ("0", "1"):
        raise SettingsError("set the read mode error; 0 is default, 1 random read")
    for head, address in await _headed(session, given):
        session.line(" %s", head)
        reply = await session.ask(address, SetCommitLogReadMode(read_ahead_mode=int(mode)))
        session.line("commitLog set readAhead mode rstStr%s", reply.remark)


async def _headed(session: Session, given: Given) -> list[tuple[str, str]]:
    if given.has("b"):
        return [(f"============{given.text('b')}============", given.text("b"))]
    found = []
    for master, slaves in (await session.cluster()).ranks(given.text("c")).items() if given.has("c") else ():
        found.append((f"============Master: {master}============", master))
        found += [(f"============My Master: {master}=====Slave: {slave}============", slave) for slave in slaves]
    return found


async def cold_info(session: Session, given: Given) -> None:
    """Print the limits of groups that read cold data, and how much they have read."""
    for head, address in await _headed(session, given):
        session.line(" %s", head)
        told: Any = fastjson.read((await session.ask(address, GetColdDataFlowCtrInfo())).body)
        for each in told.get("runtimeTable", {}).values():
            each["lastColdReadTimeFormat"] = second_text(int(each.pop("lastColdReadTimeMills", 0)))
            each["createTimeFormat"] = second_text(int(each.pop("createTimeMills", 0)))
        session.line("%s", json_text(told))


async def _masters(session: Session, given: Given) -> list[str]:
    if given.has("b"):
        return [given.text("b")]
    if not given.has("c"):
        usage_needed()
    return (await session.cluster()).masters(given.text("c"))


async def update_cold_limit(session: Session, given: Given) -> None:
    """Limit how much cold data a group reads."""
    body = PropertiesText({given.text("g"): given.text("v")}).encode()
    for address in await _masters(session, given):
        await session.ask(address, UpdateColdDataFlowCtrConfig(), body)
        session.line("updateColdDataFlowCtrGroupConfig success, %s", address)


async def remove_cold_limit(session: Session, given: Given) -> None:
    """Remove the limit of a group that reads cold data."""
    for address in await _masters(session, given):
        await session.ask(address, RemoveColdDataFlowCtrConfig(), given.text("g").encode())
        session.line("remove broker cold read threshold success, %s", address)


async def export_pop_record(session: Session, given: Given) -> None:
    """Write the pop records of brokers from RocksDB into the revive topic."""
    dry = given.text("d").lower() == "false"  # as in Apache's tool
    if given.has("b"):
        name = (await settings_of(session, given.text("b"))).get("brokerName", "")
        brokers = [(name, given.text("b"))]
    else:
        cluster = await session.cluster()
        brokers = [(name, address) for name in cluster.names(given.text("c")) for _, address in cluster.numbered(name)]
    for name, address in brokers:
        told = f"brokerName={name}, brokerAddr={address}, dryRun={'true' if dry else 'false'}"
        try:
            if not dry:
                await session.ask(address, PopRollback())
            session.line("Export broker records, %s", told)
        except FireArrowError as error:
            session.line("Export broker records error, %s", told)
            session.failed(error)


BROKER: Final = Option("b", "brokerAddr", "Broker address")
CLUSTER: Final = Option("c", "cluster", "clustername")
COLD: Final = (Option("b", "brokerAddr", "update which broker"), Option("c", "clusterName", "update which cluster"))
VERBS: Final = (
    Verb("cleanExpiredCQ", "Clean expired ConsumeQueue on broker.", (BROKER, CLUSTER), clean_expired_cq),
    Verb("cleanUnusedTopic", "Clean unused topic on broker.", (BROKER, Option("c", "cluster", "cluster name")),
         clean_unused_topic),
    Verb("deleteExpiredCommitLog", "Delete expired CommitLog files.", (BROKER, CLUSTER), delete_expired_commit_log),
    Verb("resetMasterFlushOffset", "Reset master flush offset in slave.",
         (Option("b", "brokerAddr", "which broker to reset"), Option("o", "offset", "the offset to reset at")),
         reset_master_flush_offset),
    Verb("setCommitLogReadAheadMode", "Set read ahead mode for all commitlog files.",
         (Option("b", "brokerAddr", "set which broker"), Option("c", "clusterName", "set which cluster"),
          Option("m", "commitLogReadAheadMode", "set the CommitLog read ahead mode; 0 is default, 1 random read",
                 required=True)),
         set_read_ahead),
    Verb("getColdDataFlowCtrInfo", "Get cold data flow ctr info.",
         (Option("b", "brokerAddr", "get from which broker"), Option("c", "clusterName", "get from which cluster")),
         cold_info),
    Verb("updateColdDataFlowCtrGroupConfig", "Add or update cold data flow ctr group config.",
         (*COLD, Option("g", "consumerGroup", "specific consumerGroup", required=True),
          Option("v", "threshold", "cold read threshold value", required=True)),
         update_cold_limit),
    Verb("removeColdDataFlowCtrGroupConfig", "Remove consumer from cold ctr config.",
         (*COLD, Option("g", "consumerGroup", "the consumer group will remove from the config", required=True)),
         remove_cold_limit),
    Verb("exportPopRecord", "Export pop consumer record",
         (Option("c", "clusterName", "choose one cluster to export"),
          Option("b", "brokerAddr", "choose one broker to export"),
          Option("d", "dryRun", "no actual changes will be made")),
         export_pop_record, either=(("b", "c"),)),
)  # fmt: skip

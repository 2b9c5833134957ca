"""``cleanExpiredCQ``, ``cleanUnusedTopic``, ``deleteExpiredCommitLog``, ``resetMasterFlushOffset``, cold reads."""

from collections.abc import Awaitable, Callable
from typing import Final

from firearrow.cli.mqadmin.java_text import second_text
from firearrow.cli.mqadmin.places import headed, masters
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.views import json_text
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import FireArrowError, SettingsError


async def _tell(session: Session, given: OptionValues, act: Callable[[str], Awaitable[None]]) -> None:
    """Send a request to the broker of -b, or to all members of the cluster of -c, or of all clusters."""
    if given.has("b"):
        await act(given.text("b"))
    else:
        cluster = await session.cluster()
        for name in [given.text("c")] if given.has("c") else list(cluster.clusters):
            for address in cluster.members(name):
                await act(address)
    session.write("success")


async def clean_expired_cq(session: Session, given: OptionValues) -> None:
    """Remove queue files whose messages are gone."""
    await _tell(session, given, session.admin.upkeep.clean_expired_queues)


async def clean_unused_topic(session: Session, given: OptionValues) -> None:
    """Remove queues of topics that are gone."""
    await _tell(session, given, session.admin.upkeep.clean_unused_topics)


async def delete_expired_commit_log(session: Session, given: OptionValues) -> None:
    """Remove log files that are old enough."""
    await _tell(session, given, session.admin.upkeep.delete_expired_log)


async def reset_master_flush_offset(session: Session, given: OptionValues) -> None:
    """Tell a slave how far its master's log is on disk."""
    offset = given.number("o")
    await session.admin.upkeep.reset_master_flush_offset(given.text("b"), offset)
    session.line("reset master flush offset to %d success", offset)


async def set_read_ahead(session: Session, given: OptionValues) -> None:
    """Choose how the log is read ahead."""
    mode = given.text("m")
    if mode not in ("0", "1"):
        raise SettingsError("set the read mode error; 0 is default, 1 random read")
    for head, address in await headed(session, given):
        session.line(" %s", head)
        remark = await session.admin.upkeep.set_read_ahead(address, int(mode))
        session.line("commitLog set readAhead mode rstStr%s", remark)


async def cold_info(session: Session, given: OptionValues) -> None:
    """Print the limits of groups that read cold data, and how much they have read."""
    for head, address in await headed(session, given):
        session.line(" %s", head)
        told = await session.admin.upkeep.cold_reads(address)
        for each in told.get("runtimeTable", {}).values():
            each["lastColdReadTimeFormat"] = second_text(int(each.pop("lastColdReadTimeMills", 0)))
            each["createTimeFormat"] = second_text(int(each.pop("createTimeMills", 0)))
        session.line("%s", json_text(told))


async def update_cold_limit(session: Session, given: OptionValues) -> None:
    """Limit how much cold data a group reads."""
    for address in await masters(session, given):
        await session.admin.upkeep.limit_cold_reads(address, given.text("g"), given.text("v"))
        session.line("updateColdDataFlowCtrGroupConfig success, %s", address)


async def remove_cold_limit(session: Session, given: OptionValues) -> None:
    """Remove the limit of a group that reads cold data."""
    for address in await masters(session, given):
        await session.admin.upkeep.unlimit_cold_reads(address, given.text("g"))
        session.line("remove broker cold read threshold success, %s", address)


async def export_pop_record(session: Session, given: OptionValues) -> None:
    """Write the pop records of brokers from RocksDB into the revive topic."""
    dry = given.text("d").lower() == "false"  # as in Apache's tool
    if given.has("b"):
        name = (await session.admin.operations.settings(given.text("b"))).get("brokerName", "")
        brokers = [(name, given.text("b"))]
    else:
        cluster = await session.cluster()
        brokers = [(name, address) for name in cluster.names(given.text("c")) for _, address in cluster.numbered(name)]
    for name, address in brokers:
        told = f"brokerName={name}, brokerAddr={address}, dryRun={'true' if dry else 'false'}"
        try:
            if not dry:
                await session.admin.upkeep.roll_back_pop(address)
            session.line("Export broker records, %s", told)
        except FireArrowError as error:
            session.line("Export broker records error, %s", told)
            session.failed(error)


BROKER: Final = VerbOption("b", "brokerAddr", "Broker address")
CLUSTER: Final = VerbOption("c", "cluster", "clustername")
COLD: Final = (
    VerbOption("b", "brokerAddr", "update which broker"),
    VerbOption("c", "clusterName", "update which cluster"),
)
VERBS: Final = (
    Verb("cleanExpiredCQ", "Clean expired ConsumeQueue on broker.", (BROKER, CLUSTER), clean_expired_cq),
    Verb("cleanUnusedTopic", "Clean unused topic on broker.", (BROKER, VerbOption("c", "cluster", "cluster name")),
         clean_unused_topic),
    Verb("deleteExpiredCommitLog", "Delete expired CommitLog files.", (BROKER, CLUSTER), delete_expired_commit_log),
    Verb("resetMasterFlushOffset", "Reset master flush offset in slave.",
         (VerbOption("b", "brokerAddr", "which broker to reset"), VerbOption("o", "offset", "the offset to reset at")),
         reset_master_flush_offset),
    Verb("setCommitLogReadAheadMode", "Set read ahead mode for all commitlog files.",
         (VerbOption("b", "brokerAddr", "set which broker"), VerbOption("c", "clusterName", "set which cluster"),
          VerbOption("m", "commitLogReadAheadMode", "set the CommitLog read ahead mode; 0 is default, 1 random read",
                 required=True)),
         set_read_ahead),
    Verb("getColdDataFlowCtrInfo", "Get cold data flow ctr info.",
         (VerbOption("b", "brokerAddr", "get from which broker"), VerbOption("c", "clusterName",
         "get from which cluster")),
         cold_info),
    Verb("updateColdDataFlowCtrGroupConfig", "Add or update cold data flow ctr group config.",
         (*COLD, VerbOption("g", "consumerGroup", "specific consumerGroup", required=True),
          VerbOption("v", "threshold", "cold read threshold value", required=True)),
         update_cold_limit),
    Verb("removeColdDataFlowCtrGroupConfig", "Remove consumer from cold ctr config.",
         (*COLD, VerbOption("g", "consumerGroup", "the consumer group will remove from the config", required=True)),
         remove_cold_limit),
    Verb("exportPopRecord", "Export pop consumer record",
         (VerbOption("c", "clusterName", "choose one cluster to export"),
          VerbOption("b", "brokerAddr", "choose one broker to export"),
          VerbOption("d", "dryRun", "no actual changes will be made")),
         export_pop_record, either=(("b", "c"),)),
)  # fmt: skip

"""``exportMetadata``, ``exportConfigs``, ``exportMetrics``: JSON files of what a cluster has."""

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from firearrow.cli.mqadmin.cluster.listing import YESTERDAY, rate, total
from firearrow.cli.mqadmin.group.clients import consumer_connections
from firearrow.cli.mqadmin.places import masters
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.views import json_text, sums
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import FireArrowError, SettingsError
from firearrow.model.flags import is_legal_perm
from firearrow.model.names import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    is_dlq_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
)
from firearrow.model.versions import CURRENT_VERSION, version_name
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigTable
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.runtime.clock import SystemClock

DIRECTORY: Final = "/tmp/rocketmq/export"  # noqa: S108 - Apache's default, which runbooks name
PREDEFINED: Final = frozenset({
    "CID_ONSAPI_OWNER", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_PULL", "CID_RMQ_SYS_TRANS", "CID_ONS-HTTP-PROXY",
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "DEFAULT_CONSUMER",
})  # fmt: skip
CHOSEN: Final = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums",
    "flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn",
    "traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip


async def user_topics(session: Session, address: str, *, special: bool) -> TopicConfigTable:
    """Return the topics of a broker that are not its own; with ``special`` retry and dead-letter topics, too."""
    table = await session.admin.topics.at_broker.table(address)
    own = set(await session.admin.topics.at_broker.system(address))
    kept = {
        name: config
        for name, config in sorted(table.topic_config_table.items())
        if name not in own
        and not is_system_topic(name)
        and (special or not (is_retry_topic(name) or is_dlq_topic(name)))
        and is_legal_perm(config.perm)
    }
    return TopicConfigTable(data_version=table.data_version, topic_config_table=kept)


async def user_groups(session: Session, address: str) -> SubscriptionGroupTable:
    """Return the groups of a broker that are not its own."""
    table = await session.admin.groups.at_broker.table(address)
    kept = {
        name: group
        for name, group in sorted(table.subscription_group_table.items())
        if name not in PREDEFINED and not is_system_group(name)
    }
    return SubscriptionGroupTable(
        data_version=table.data_version, forbidden_table=table.forbidden_table, subscription_group_table=kept
    )


def _save(directory: str, name: str, content: Any) -> str:  # noqa: ANN401 - any JSON
    file = Path(directory) / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json_text(content))
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error}; choose another directory with -f") from error
    return str(file)


async def export_metadata(session: Session, given: OptionValues) -> None:
    """Write the topics and groups of a broker or a cluster into a file."""
    if given.has("b"):
        await _export_of_broker(session, given)
        return
    topics: dict[str, TopicConfig] = {}
    groups: dict[str, SubscriptionGroupConfig] = {}
    for address in await masters(session, given):
        for name, topic in (await user_topics(session, address, special=given.has("s"))).topic_config_table.items():
            topics[name] = _with_queues(topic, topics.get(name))
        for name, group in (await user_groups(session, address)).subscription_group_table.items():
            groups[name] = _with_retries(group, groups.get(name))
    content: dict[str, object] = {"topicConfigTable": topics, "subscriptionGroupTable": groups}
    file = "metadata.json"
    if given.has("t"):
        file, content = "topic.json", {"topicConfigTable": topics}
    elif given.has("g"):
        file, content = "subscriptionGroup.json", {"subscriptionGroupTable": groups}
    content["exportTime"] = SystemClock().now_ms()
    session.line("export %s success", _save(given.text("f", DIRECTORY), file, content))


async def _export_of_broker(session: Session, given: OptionValues) -> None:
    directory, address = given.text("f", DIRECTORY), given.text("b")
    if given.has("t"):
        topics = await user_topics(session, address, special=given.has("s"))
        session.write("export %s success", _save(directory, "topic.json", topics))
    elif given.has("g"):
        groups = await user_groups(session, address)
        session.write("export %s success", _save(directory, "subscriptionGroup.json", groups))


def _with_queues(topic: TopicConfig, before: TopicConfig | None) -> TopicConfig:
    """Return a topic with the queues of all brokers so far."""
    if before is None:
        return topic
    return replace(
        topic,
        read_queue_nums=topic.read_queue_nums + before.read_queue_nums,
        write_queue_nums=topic.write_queue_nums + before.write_queue_nums,
    )


def _with_retries(group: SubscriptionGroupConfig, before: SubscriptionGroupConfig | None) -> SubscriptionGroupConfig:
    """Return a group with the retry queues of all brokers so far."""
    more = 0 if before is None else before.retry_queue_nums
    return replace(group, retry_queue_nums=group.retry_queue_nums + more)


async def export_configs(session: Session, given: OptionValues) -> None:
    """Write the main settings of every master of a cluster into a file."""
    ranks = (await session.cluster()).ranks(given.text("c"))
    configs: dict[str, dict[str, str]] = {}
    for master in ranks:
        found = await session.admin.operations.settings(master)
        configs[found.get("brokerName", master)] = {key: found[key] for key in CHOSEN if key in found}
    scale = {
        "namesrvSize": len(session.name_server_list),
        "masterBrokerSize": len(ranks),
        "slaveBrokerSize": sum(len(slaves) for slaves in ranks.values()),
    }
    content = {"brokerConfigs": configs, "clusterScale": scale}
    session.write("export %s success", _save(given.text("f", DIRECTORY), "configs.json", content))


class _Totals(msgspec.Struct):
    """Sums over the brokers of a cluster."""

    tps: dict[str, float]
    day: dict[str, int]

    def add(self, tps: dict[str, float], day: dict[str, int]) -> None:
        for name, value in tps.items():
            key = f"total{name[0].upper()}{name[1:]}"
            self.tps[key] = self.tps.get(key, 0.0) + value
        for name, count in day.items():
            self.day[name] = self.day.get(name, 0) + count


async def export_metrics(session: Session, given: OptionValues) -> None:
    """Write the traffic and the sizes of every broker of a cluster into a file."""
    cluster, totals, report = await session.cluster(), _Totals({}, {}), {}
    for name in cluster.names(given.text("c")):
        address = cluster.brokers[name].broker_addrs.get(0)
        if address is None:
            continue
        table, groups = await session.admin.operations.runtime(address), await user_groups(session, address)
        found = await session.admin.operations.settings(address)
        report[name] = {
            "runtimeEnv": {
                "cpuNum": found.get("clientCallbackExecutorThreads"),
                "totalMemKBytes": table.get("totalMemKBytes"),
            },
            "runtimeQuota": await _quota(session, address, table, len(groups.subscription_group_table), totals),
            "runtimeVersion": await _versions(session, list(groups.subscription_group_table)),
        }
    content = {
        "evaluateReport": report,
        "totalData": {"totalTps": totals.tps, "totalOneDayNum": totals.day},
    }
    session.write("export %s success", _save(given.text("f", DIRECTORY), "metrics.json", content))


async def _quota(
    session: Session, address: str, table: dict[str, str], groups: int, totals: _Totals
) -> dict[str, object]:
    half_tps, half_day = await sums(session, [address], "TOPIC_PUT_NUMS", HALF_TOPIC)
    delayed_tps, delayed_day = await sums(session, [address], "TOPIC_PUT_NUMS", SCHEDULE_TOPIC)
    tps = {
        "normalInTps": rate(table.get("putTps")),
        "normalOutTps": rate(table.get("getTransferredTps")),
        "transInTps": half_tps,
        "scheduleInTps": delayed_tps,
    }
    day = {
        "normalOneDayInNum": total(table, "Put", YESTERDAY),
        "normalOneDayOutNum": total(table, "Get", YESTERDAY),
        "transOneDayInNum": half_day,
        "scheduleOneDayInNum": delayed_day,
    }
    totals.add(tps, day)
    topics = await user_topics(session, address, special=False)
    return {
        "diskRatio": {key: table.get(key) for key in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
        "tps": tps,
        "oneDayNum": day,
        "messageAverageSize": table.get("putMessageAverageSize"),
        "topicSize": len(topics.topic_config_table),
        "groupSize": groups,
    }


async def _versions(session: Session, groups: list[str]) -> dict[str, object]:
    clients: dict[str, None] = {}
    for group in groups:
        try:
            members = await consumer_connections(session, group)
        except FireArrowError:
            continue  # a group without members
        clients |= {f"{each.language}%{version_name(each.version)}": None for each in members.connection_set}
    return {"rocketmqVersion": version_name(CURRENT_VERSION), "clientInfo": sorted(clients)}


CLUSTER: Final = VerbOption("c", "clusterName", "choose a cluster to export", required=True)
VERBS: Final = (
    Verb("exportMetadata", "Export metadata.",
         (VerbOption("c", "clusterName", "choose a cluster to export"),
          VerbOption("b", "brokerAddr", "choose a broker to export"),
          VerbOption("f", "filePath", f"export metadata.json path | default {DIRECTORY}"),
          VerbOption("t", "topic", "only export topic metadata", alone=True),
          VerbOption("g", "subscriptionGroup", "only export subscriptionGroup metadata", alone=True),
          VerbOption("s", "specialTopic", "need retryTopic and dlqTopic", alone=True)),
         export_metadata),
    Verb("exportConfigs", "Export configs.",
         (CLUSTER, VerbOption("f", "filePath", f"export configs.json path | default {DIRECTORY}")), export_configs),
    Verb("exportMetrics", "Export metrics.",
         (CLUSTER, VerbOption("f", "filePath", f"export metrics.json path | default {DIRECTORY}")), export_metrics),
)  # fmt: skip

"""``updateSubGroup``, ``updateSubGroupList``, ``deleteSubGroup``, ``setConsumeMode``, ``getConsumerConfig``."""

from typing import Final

from firearrow import fastjson
from firearrow.cli.mqadmin.java_text import java
from firearrow.cli.mqadmin.places import masters
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.changes import attributes_of, drop_topic, read_list
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import BadBody, FireArrowError, RequestRefused, SettingsError
from firearrow.model.names import DLQ_PREFIX, RETRY_PREFIX
from firearrow.protocol.bodies.group.group import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
)

MODES: Final = ("PULL", "POP")


def policy_text(policy: GroupRetryPolicy) -> str:
    """Return a retry policy as Java's ``toString`` does."""
    grows, listed = policy.exponential_retry_policy, policy.customized_retry_policy
    return (
        f"GroupRetryPolicy{{type={policy.type}, exponentialRetryPolicy={_exponential(grows)}, "
        f"customizedRetryPolicy={_customized(listed)}}}"
    )


def _exponential(policy: ExponentialRetryPolicy | None) -> str:
    if policy is None:
        return "null"
    return f"ExponentialRetryPolicy{{initial={policy.initial}, max={policy.max}, multiplier={policy.multiplier}}}"


def _customized(policy: CustomizedRetryPolicy | None) -> str:
    return "null" if policy is None else f"CustomizedRetryPolicy{{next={java(policy.next)}}}"


def fields(group: SubscriptionGroupConfig) -> dict[str, object]:
    """Return the settings of a group in the order of Java's class."""
    return {
        "groupName": group.group_name,
        "consumeEnable": group.consume_enable,
        "consumeFromMinEnable": group.consume_from_min_enable,
        "consumeBroadcastEnable": group.consume_broadcast_enable,
        "consumeMessageOrderly": group.consume_message_orderly,
        "retryQueueNums": group.retry_queue_nums,
        "retryMaxTimes": group.retry_max_times,
        "groupRetryPolicy": policy_text(group.group_retry_policy),
        "brokerId": group.broker_id,
        "whichBrokerWhenConsumeSlowly": group.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": group.notify_consumer_ids_changed_enable,
        "groupSysFlag": group.group_sys_flag,
        "consumeTimeoutMinute": group.consume_timeout_minute,
        "subscriptionDataSet": group.subscription_data_set,
        "attributes": group.attributes,
    }


def group_text(group: SubscriptionGroupConfig) -> str:
    """Return a group as ``SubscriptionGroupConfig.toString`` does."""
    told = ", ".join(f"{name}={java(value)}" for name, value in fields(group).items())
    return f"SubscriptionGroupConfig{{{told}}}"


async def update_group(session: Session, given: OptionValues) -> None:
    """Make or change a group at one broker or at all masters of a cluster."""
    group = SubscriptionGroupConfig(
        group_name=given.text("g"),
        consume_enable=given.truth("s", True),
        consume_from_min_enable=given.truth("m"),
        consume_broadcast_enable=given.truth("d"),
        consume_message_orderly=given.truth("o"),
        retry_queue_nums=given.number("q", 1),
        retry_max_times=given.number("r", 16),
        group_retry_policy=_policy(given.text("p")),
        broker_id=given.number("i", 0),
        which_broker_when_consume_slowly=given.number("w", 1),
        notify_consumer_ids_changed_enable=given.truth("a", True),
        attributes=attributes_of(given.text("attributes")),
    )
    for address in await masters(session, given):
        await session.admin.groups.at_broker.put(address, group)
        session.line("create subscription group to %s success.", address)
    session.write("%s", group_text(group))


def _policy(text: str) -> GroupRetryPolicy:
    try:
        return fastjson.decode(text.encode(), GroupRetryPolicy) if text else GroupRetryPolicy()
    except BadBody as error:
        raise SettingsError(f"-p takes a retry policy as JSON: {error}") from error


async def update_group_list(session: Session, given: OptionValues) -> None:
    """Make or change the groups of a JSON file."""
    groups = read_list(given.text("f"), SubscriptionGroupConfig)
    if not groups:
        return
    noun = "group config" if given.has("b") else "subscription group config"
    for address in await masters(session, given):
        await session.admin.groups.at_broker.put_all(address, groups)
        session.line(f"submit batch of {noun} to %s success, please check the result later.", address)


async def delete_group(session: Session, given: OptionValues) -> None:
    """Delete a group; in a cluster its retry and dead-letter topics, too."""
    group, cluster = given.text("g"), given.text("c")
    for address in await masters(session, given):
        await session.admin.groups.at_broker.delete(address, group, with_offsets=given.truth("r"))
        inside = "" if given.has("b") else f" in cluster [{cluster}]"
        session.line("delete subscription group [%s] from broker [%s]%s success.", group, address, inside)
    if given.has("b"):
        return
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        try:
            await drop_topic(session, prefix + group, cluster)
        except FireArrowError as error:
            session.failed(error)


async def set_consume_mode(session: Session, given: OptionValues) -> None:
    """Choose whether members of a group pull or pop a topic."""
    mode, queues = given.text("m"), given.number("q")
    if mode not in MODES:
        raise SettingsError(f"-m takes PULL or POP, and {mode!r} is neither")
    topic, group = given.text("t"), given.text("g")
    for address in await masters(session, given):
        await session.admin.groups.at_broker.put_mode(address, group, topic, mode, queues)
        session.line("set consume mode to %s success.", address)
    session.write("topic[%s] group[%s] consume mode[%s] popShareQueueNum[%d]", topic, group, mode, queues)


async def get_consumer_config(session: Session, given: OptionValues) -> None:
    """Print the settings of a group at every broker that has it."""
    cluster = await session.cluster()
    for name, data in sorted(cluster.brokers.items()):
        try:
            group = await session.admin.groups.at_broker.config(session.address_of(data), given.text("g"))
        except RequestRefused:
            continue  # a broker without the group
        own = next((each for each, members in cluster.clusters.items() if name in members), None)
        rule = "=" * 29
        session.line(f"{rule}%s:%s{rule}", own, name)
        for field, value in fields(group).items():
            session.line("%-40s=  %s", field, "" if value is None else value)


PLACE: Final = (
    VerbOption("b", "brokerAddr", "create subscription group to which broker"),
    VerbOption("c", "clusterName", "create subscription group to which cluster"),
)
GROUP: Final = VerbOption("g", "groupName", "consumer group name", required=True)
POLICY_HELP: Final = (
    'the json string of retry policy ( exp: {"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,'
    '"max":7200000,"multiplier":2}} {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}} )'
)
VERBS: Final = (
    Verb("updateSubGroup", "Update or create subscription group.",
         (*PLACE, GROUP,
          VerbOption("s", "consumeEnable", "consume enable"),
          VerbOption("m", "consumeFromMinEnable", "from min offset"),
          VerbOption("d", "consumeBroadcastEnable", "broadcast"),
          VerbOption("o", "consumeMessageOrderly", "consume message orderly"),
          VerbOption("q", "retryQueueNums", "retry queue nums"),
          VerbOption("r", "retryMaxTimes", "retry max times"),
          VerbOption("p", "groupRetryPolicy", POLICY_HELP),
          VerbOption("i", "brokerId", "consumer from which broker id"),
          VerbOption("w", "whichBrokerWhenConsumeSlowly", "which broker id when consume slowly"),
          VerbOption("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
          VerbOption("attributes", "attributes", "attribute(+a=b,+c=d,-e)")),
         update_group),
    Verb("updateSubGroupList", "Update or create subscription group in batch",
         (VerbOption("b", "brokerAddr", "create groups to which broker"),
          VerbOption("c", "clusterName", "create groups to which cluster"),
          VerbOption("f", "filename", "Path to a file with a list of SubscriptionGroupConfig in json format",
                 required=True)),
         update_group_list, either=(("b", "c"),)),
    Verb("deleteSubGroup", "Delete subscription group from broker.",
         (VerbOption("b", "brokerAddr", "delete subscription group from which broker"),
          VerbOption("c", "clusterName", "delete subscription group from which cluster"),
          VerbOption("g", "groupName", "subscription group name", required=True),
          VerbOption("r", "removeOffset", "remove offset")),
         delete_group),
    Verb("setConsumeMode", "Set consume message mode. pull/pop etc.",
         (*PLACE, VerbOption("t", "topicName", "topic name", required=True), GROUP,
          VerbOption("m", "mode", "consume mode. PULL/POP", required=True),
          VerbOption("q", "popShareQueueNum", "num of queue which share in pop mode")),
         set_consume_mode),
    Verb("getConsumerConfig", "Get consumer config by subscription group name.",
         (VerbOption("g", "groupName", "subscription group name", required=True),), get_consumer_config),
)  # fmt: skip

"""``updateSubGroup``, ``updateSubGroupList``, ``deleteSubGroup``, ``setConsumeMode``, ``getConsumerConfig``."""

from typing import Final

from firearrow import fastjson
from firearrow.cli.mqadmin.java_text import java
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.changes import attributes_of, drop_topic, read_list
from firearrow.cli.mqadmin.verb import Given, Option, Verb, usage_needed
from firearrow.errors import BadBody, FireArrowError, RequestRefused, SettingsError
from firearrow.model.names import DLQ_PREFIX, RETRY_PREFIX
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from firearrow.protocol.bodies.pop.pop import SetMessageRequestModeBody
from firearrow.protocol.requests.group.group import (
    DeleteSubscriptionGroup,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
)
from firearrow.protocol.requests.pop.pop import SetMessageRequestMode

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


async def update_group(session: Session, given: Given) -> None:
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
    for address in await chosen(session, given):
        await session.ask(address, UpdateAndCreateSubscriptionGroup(), encode_body(group))
        session.line("create subscription group to %s success.", address)
    session.write("%s", group_text(group))


def _policy(text: str) -> GroupRetryPolicy:
    try:
        return fastjson.decode(text.encode(), GroupRetryPolicy) if text else GroupRetryPolicy()
    except BadBody as error:
        raise SettingsError(f"-p takes a retry policy as JSON: {error}") from error


async def chosen(session: Session, given: Given) -> list[str]:
    """Return the broker of -b, else the masters of the cluster of -c; print the usage if neither is given."""
    if given.has("b"):
        return [given.text("b")]
    if not given.has("c"):
        usage_needed()
    return (await session.cluster()).masters(given.text("c"))


async def update_group_list(session: Session, given: Given) -> None:
    """Make or change the groups of a JSON file."""
    groups = read_list(given.text("f"), SubscriptionGroupConfig)
    if not groups:
        return
    body = encode_body(SubscriptionGroupList(group_config_list=groups))
    noun = "group config" if given.has("b") else "subscription group config"
    for address in await chosen(session, given):
        await session.ask(address, UpdateAndCreateSubscriptionGroupList(), body)
        session.line(f"submit batch of {noun} to %s success, please check the result later.", address)


async def delete_group(session: Session, given: Given) -> None:
    """Delete a group; in a cluster its retry and dead-letter topics, too."""
    group, cluster = given.text("g"), given.text("c")
    request = DeleteSubscriptionGroup(group_name=group, clean_offset=given.truth("r"), remove_offset=given.truth("r"))
    for address in await chosen(session, given):
        await session.ask(address, request)
        inside = "" if given.has("b") else f" in cluster [{cluster}]"
        session.line("delete subscription group [%s] from broker [%s]%s success.", group, address, inside)
    if given.has("b"):
        return
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        try:
            await drop_topic(session, prefix + group, cluster)
        except FireArrowError as error:
            session.failed(error)


async def set_consume_mode(session: Session, given: Given) -> None:
    """Choose whether members of a group pull or pop a topic."""
    mode, queues = given.text("m"), given.number("q")
    if mode not in MODES:
        raise SettingsError(f"-m takes PULL or POP, and {mode!r} is neither")
    topic, group = given.text("t"), given.text("g")
    body = encode_body(
        SetMessageRequestModeBody(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=queues)
    )
    for address in await chosen(session, given):
        await session.ask(address, SetMessageRequestMode(), body)
        session.line("set consume mode to %s success.", address)
    session.write("topic[%s] group[%s] consume mode[%s] popShareQueueNum[%d]", topic, group, mode, queues)


async def get_consumer_config(session: Session, given: Given) -> None:
    """Print the settings of a group at every broker that has it."""
    cluster = await session.cluster()
    for name, data in sorted(cluster.brokers.items()):
        try:
            request = GetSubscriptionGroupConfig(group=given.text("g"))
            group = await session.read(session.address_of(data), request, SubscriptionGroupConfig)
        except RequestRefused:
            continue  # a broker without the group
        own = next((each for each, members in cluster.clusters.items() if name in members), None)
        rule = "=" * 29
        session.line(f"{rule}%s:%s{rule}", own, name)
        for field, value in fields(group).items():
            session.line("%-40s=  %s", field, "" if value is None else value)


PLACE: Final = (
    Option("b", "brokerAddr", "create subscription group to which broker"),
    Option("c", "clusterName", "create subscription group to which cluster"),
)
GROUP: Final = Option("g", "groupName", "consumer group name", required=True)
POLICY_HELP: Final = (
    'the json string of retry policy ( exp: {"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,'
    '"max":7200000,"multiplier":2}} {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}} )'
)
VERBS: Final = (
    Verb("updateSubGroup", "Update or create subscription group.",
         (*PLACE, GROUP,
          Option("s", "consumeEnable", "consume enable"),
          Option("m", "consumeFromMinEnable", "from min offset"),
          Option("d", "consumeBroadcastEnable", "broadcast"),
          Option("o", "consumeMessageOrderly", "consume message orderly"),
          Option("q", "retryQueueNums", "retry queue nums"),
          Option("r", "retryMaxTimes", "retry max times"),
          Option("p", "groupRetryPolicy", POLICY_HELP),
          Option("i", "brokerId", "consumer from which broker id"),
          Option("w", "whichBrokerWhenConsumeSlowly", "which broker id when consume slowly"),
          Option("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
          Option("attributes", "attributes", "attribute(+a=b,+c=d,-e)")),
         update_group),
    Verb("updateSubGroupList", "Update or create subscription group in batch",
         (Option("b", "brokerAddr", "create groups to which broker"),
          Option("c", "clusterName", "create groups to which cluster"),
          Option("f", "filename", "Path to a file with a list of SubscriptionGroupConfig in json format",
                 required=True)),
         update_group_list, either=(("b", "c"),)),
    Verb("deleteSubGroup", "Delete subscription group from broker.",
         (Option("b", "brokerAddr", "delete subscription group from which broker"),
          Option("c", "clusterName", "delete subscription group from which cluster"),
          Option("g", "groupName", "subscription group name", required=True),
          Option("r", "removeOffset", "remove offset")),
         delete_group),
    Verb("setConsumeMode", "Set consume message mode. pull/pop etc.",
         (*PLACE, Option("t", "topicName", "topic name", required=True), GROUP,
          Option("m", "mode", "consume mode. PULL/POP", required=True),
          Option("q", "popShareQueueNum", "num of queue which share in pop mode")),
         set_consume_mode),
    Verb("getConsumerConfig", "Get consumer config by subscription group name.",
         (Option("g", "groupName", "subscription group name", required=True),), get_consumer_config),
)  # fmt: skip

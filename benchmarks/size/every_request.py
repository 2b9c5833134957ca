"""One request for every code that a broker serves, for a filled broker (`filled`): each one looks at a large table.

`asked_of` and then `deletions` return them in an order in which each succeeds. Requests about users and rules are
`about_users` and `about_plain_accounts`, for brokers that know users. A code of the table of promises without a request
here fails the tests of the simulator (``tests/simulation/turns``).
"""

from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from benchmarks.size.filled import (
    BODY,
    HALVES,
    HOT,
    MEMBERS,
    TIMED,
    WIDE,
    Shape,
    a_commit,
    a_consumer,
    a_message,
    a_pull,
    group_name,
    heartbeat,
    subscription,
    topic_name,
)
from campaigns.samples import a_topic
from firearrow.model.flags import COMMIT, PREPARED
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody
from firearrow.protocol.bodies.group.lock import LockBatchBody
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin import auth
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig
from firearrow.protocol.requests.admin.maintenance import CleanExpiredConsumeQueue, DeleteExpiredCommitLog
from firearrow.protocol.requests.admin.stats import (
    GetBrokerConsumeStats,
    GetBrokerRuntimeInfo,
    GetConsumeStats,
    ViewBrokerStatsData,
)
from firearrow.protocol.requests.admin.topic import (
    CleanUnusedTopic,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    GetTopicStatsInfo,
    QueryTopicConsumeByWho,
    UpdateAndCreateTopicList,
)
from firearrow.protocol.requests.group import group as groups
from firearrow.protocol.requests.group import offset as offsets
from firearrow.protocol.requests.group.heartbeat import (
    CheckClientConfig,
    GetConsumerListByGroup,
    HeartBeat,
    UnregisterClient,
)
from firearrow.protocol.requests.group.lock import LockBatchMq, UnlockBatchMq
from firearrow.protocol.requests.group.push import ConsumeMessageDirectly, GetConsumerRunningInfo
from firearrow.protocol.requests.group.reset import (
    CloneGroupOffset,
    InvokeBrokerToGetConsumerStatus,
    InvokeBrokerToResetOffset,
    QueryCorrectionOffset,
)
from firearrow.protocol.requests.message.pull import LitePullMessage
from firearrow.protocol.requests.message.query import (
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryMessage,
    ViewMessageById,
)
from firearrow.protocol.requests.message.send import (
    ConsumerSendMsgBack,
    RecallMessage,
    SendBatchMessage,
    SendMessage,
)
from firearrow.protocol.requests.pop.pop import GetAllMessageRequestMode, PopMessage
from firearrow.protocol.requests.replication import replication as copies
from firearrow.protocol.requests.transaction.transaction import EndTransaction, ResumeCheckHalfMessage
from firearrow.record.message_id import parse_offset_message_id
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

FOREVER_MS: Final = 1 << 50
EXPRESSION: Final = "a > 5 AND b = 'x'"


class Asked(NamedTuple):
    """A request with its body."""

    request: Request[Any]
    body: bytes = b""
    refused: bool = False
    """Whether this broker refuses: it has no replicas, or does not offer it."""
    name: str = ""
    """Another name than that of the code, where a code is asked for in several ways."""

    @property
    def act(self) -> str:
        """The name of the request."""
        return self.name or self.request.code.name


class Placed(NamedTuple):
    """Messages that are known by their places."""

    message_id: str
    physical: int
    recall_handle: str
    half_physical: int
    half_offset: int
    other_half_id: str


async def place(caller: Caller, address: Address) -> Placed:
    """Send a message, a timer and a half message, and return their places."""
    plain = (await caller.call(address, a_message(WIDE, 0, 50_000_000), BODY)).answer
    timer = a_message(TIMED, 0, 50_000_001, {"TIMER_DELAY_MS": "7200000"})
    timed = (await caller.call(address, timer, BODY)).answer
    more = {"TRAN_MSG": "true", "PGROUP": "makers", "CHECK_IMMUNITY_TIME_IN_SECONDS": "7200"}
    half = (await caller.call(address, a_message(HALVES, 0, 50_000_002, more, PREPARED), BODY)).answer
    other = (await caller.call(address, a_message(HALVES, 1, 50_000_003, more, PREPARED), BODY)).answer
    assert timed.recall_handle is not None
    return Placed(
        message_id=plain.msg_id,
        physical=parse_offset_message_id(plain.msg_id)[1],
        recall_handle=timed.recall_handle,
        half_physical=parse_offset_message_id(half.msg_id)[1],
        half_offset=half.queue_offset,
        other_half_id=other.msg_id,
    )


def asked_of(shape: Shape, placed: Placed) -> list[Asked]:
    """Return requests that leave the tables as large as they are: messages, questions, changes."""
    return [*_messages(placed), *_questions(shape, placed), *_changes()]


def _messages(placed: Placed) -> list[Asked]:
    short = a_message(WIDE, 1, 60_000_000)
    long = SendMessage(
        producer_group="makers",
        topic=HOT,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=short.properties,
    )
    many = SendBatchMessage(
        **{name: getattr(short, name) for name in short.__struct_fields__ if name not in ("batch", "properties")},
        batch=True,
        properties="",
    )
    row = len(BODY).to_bytes(4)
    one = (4 + 4 + 4 + 4 + 4 + len(BODY) + 2).to_bytes(4) + bytes(12) + row + BODY + bytes(2)
    pull = a_pull(MEMBERS, HOT, 1, 0)
    lite = LitePullMessage(**{name: getattr(pull, name) for name in pull.__struct_fields__})
    pop = PopMessage(
        consumer_group=MEMBERS, topic=HOT, queue_id=0, max_msg_nums=1, invisible_time=1000, poll_time=0, born_time=0,
        init_mode=0,
    )  # fmt: skip
    return [
        Asked(short, BODY),
        Asked(long, BODY),
        Asked(many, one * 2),
        Asked(a_message(topic_name(0), 0, 60_000_001), BODY, name="SEND_MESSAGE_V2 for one of many topics"),
        Asked(ConsumerSendMsgBack(offset=placed.physical, group=MEMBERS, delay_level=3, origin_topic=WIDE)),
        Asked(RecallMessage(topic=TIMED, recall_handle=placed.recall_handle)),
        Asked(ResumeCheckHalfMessage(topic=HALVES, msg_id=placed.other_half_id)),
        Asked(
            EndTransaction(
                producer_group="makers",
                tran_state_table_offset=placed.half_offset,
                commit_log_offset=placed.half_physical,
                commit_or_rollback=COMMIT,
                msg_id=f"{50_000_002:032X}",
            )
        ),
        Asked(pull),
        Asked(lite, name="LITE_PULL_MESSAGE"),
        Asked(pop, refused=True),
    ]


def _questions(shape: Shape, placed: Placed) -> list[Asked]:
    last = shape.topics - 1
    return [
        Asked(QueryMessage(topic=WIDE, key="key-30000000", max_num=32, begin_timestamp=0, end_timestamp=FOREVER_MS)),
        Asked(ViewMessageById(offset=placed.physical)),
        Asked(QueryConsumeQueue(topic=WIDE, queue_id=0, index=0, count=10, consumer_group=MEMBERS)),
        Asked(offsets.QueryConsumerOffset(consumer_group=MEMBERS, topic=topic_name(0), queue_id=0)),
        Asked(copies.GetAllConsumerOffset()),
        Asked(copies.GetAllConsumerOffset(in_parts=True), name="GET_ALL_CONSUMER_OFFSET in parts"),
        Asked(copies.GetAllConsumerOffset(since="0-0"), name="GET_ALL_CONSUMER_OFFSET since a mark"),
        Asked(offsets.GetMaxOffset(topic=WIDE, queue_id=0)),
        Asked(offsets.GetMinOffset(topic=WIDE, queue_id=0)),
        Asked(offsets.SearchOffsetByTimestamp(topic=WIDE, queue_id=0, timestamp=1)),
        Asked(offsets.GetEarliestMsgStoretime(topic=WIDE, queue_id=0)),
        Asked(QueryCorrectionOffset(compare_group=MEMBERS, topic=HOT, filter_groups=group_name(0))),
        Asked(GetAllTopicConfig()),
        Asked(GetAllTopicConfig(topic_seq=last // 2, max_topic_num=100), name="GET_ALL_TOPIC_CONFIG, a page"),
        Asked(GetTopicConfig(topic=WIDE)),
        Asked(GetSystemTopicListFromBroker()),
        Asked(GetTopicStatsInfo(topic=WIDE)),
        Asked(groups.GetAllSubscriptionGroupConfig()),
        Asked(
            groups.GetAllSubscriptionGroupConfig(group_seq=0, max_group_num=100),
            name="GET_ALL_SUBSCRIPTIONGROUP_CONFIG, a page",
        ),
        Asked(groups.GetSubscriptionGroupConfig(group=MEMBERS)),
        Asked(
            CheckClientConfig(),
            encode_body(CheckClientBody(subscription_data=subscription(HOT, EXPRESSION, 1, "SQL92"))),
        ),
        Asked(GetConsumerListByGroup(consumer_group=MEMBERS)),
        Asked(groups.GetConsumerConnectionList(consumer_group=MEMBERS)),
        Asked(groups.GetProducerConnectionList(producer_group="makers")),
        Asked(groups.GetAllProducerInfo()),
        Asked(GetConsumerRunningInfo(consumer_group=MEMBERS, client_id="nobody"), refused=True),
        Asked(
            ConsumeMessageDirectly(consumer_group=MEMBERS, client_id="nobody", msg_id=placed.message_id, topic=WIDE),
            refused=True,
        ),
        Asked(InvokeBrokerToGetConsumerStatus(topic=HOT, group=MEMBERS)),
        Asked(QueryTopicConsumeByWho(topic=HOT)),
        Asked(groups.QueryTopicsByConsumer(group=MEMBERS)),
        Asked(groups.QuerySubscriptionByConsumer(group=MEMBERS, topic=HOT)),
        Asked(GetConsumeStats(consumer_group=MEMBERS)),
        Asked(GetConsumeStats(consumer_group=MEMBERS, topic=WIDE), name="GET_CONSUME_STATS of a topic"),
        Asked(GetBrokerConsumeStats(is_order=False)),
        Asked(QueryConsumeTimeSpan(topic=WIDE, group=MEMBERS)),
        Asked(GetBrokerConfig()),
        Asked(GetBrokerRuntimeInfo()),
        Asked(ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key=WIDE)),
        Asked(copies.GetTimerCheckPoint()),
        Asked(copies.GetTimerMetrics()),
        Asked(copies.GetAllDelayOffset()),
        Asked(GetAllMessageRequestMode()),
        Asked(copies.GetBrokerHaStatus()),
        Asked(copies.GetBrokerEpochCache(), refused=True),
        Asked(copies.ResetMasterFlushOffset(master_flush_offset=0)),
    ]


def _changes() -> list[Asked]:
    new = TopicConfig(topic_name="new-in-list", read_queue_nums=1, write_queue_nums=1)
    group = SubscriptionGroupConfig(group_name="new-group")
    queues = [MessageQueue(topic=WIDE, broker_name="", queue_id=queue_id) for queue_id in range(4)]
    locks = encode_body(LockBatchBody(client_id="client-000001", consumer_group=MEMBERS, mq_set=queues))
    expression = a_consumer(MEMBERS, [subscription(HOT, EXPRESSION, 2, "SQL92")])
    return [
        Asked(HeartBeat(), heartbeat(0, a_consumer(MEMBERS, [subscription(HOT)]))),
        Asked(HeartBeat(), heartbeat(0, expression), name="HEART_BEAT with another expression"),
        Asked(LockBatchMq(), locks),
        Asked(UnlockBatchMq(), locks),
        Asked(a_commit(MEMBERS, topic_name(1), 0)),
        Asked(a_topic("new-topic", 4)),
        Asked(UpdateAndCreateTopicList(), encode_body(CreateTopicListBody(topic_config_list=[new]))),
        Asked(groups.UpdateAndCreateSubscriptionGroup(), encode_body(group)),
        Asked(
            groups.UpdateAndCreateSubscriptionGroupList(),
            encode_body(SubscriptionGroupList(group_config_list=[replace(group, group_name="new-in-list")])),
        ),
        Asked(groups.UpdateAndGetGroupForbidden(group=MEMBERS, topic=HOT)),
        Asked(
            groups.UpdateAndGetGroupForbidden(group=MEMBERS, topic=TIMED, readable=False),
            name="UPDATE_AND_GET_GROUP_FORBIDDEN, a change",
        ),
        Asked(InvokeBrokerToResetOffset(group=MEMBERS, topic=HOT, timestamp=-1, is_force=True)),
        Asked(
            InvokeBrokerToResetOffset(group=MEMBERS, topic=WIDE, timestamp=-1, is_force=True),
            name="INVOKE_BROKER_TO_RESET_OFFSET, all",
        ),
        Asked(CloneGroupOffset(src_group=MEMBERS, dest_group="new-group", offline=True)),
        Asked(UpdateBrokerConfig(), b"brokerPermission=6\n"),
        Asked(UnregisterClient(client_id="client-000000", consumer_group=MEMBERS, producer_group="makers")),
    ]


def deletions() -> list[Asked]:
    """Return requests that delete what the tables hold."""
    return [
        Asked(DeleteTopicInBroker(topic=HALVES)),
        Asked(DeleteTopicInBroker(topic=HOT), name="DELETE_TOPIC_IN_BROKER with offsets of many groups"),
        Asked(DeleteTopicInBroker(topic=WIDE), name="DELETE_TOPIC_IN_BROKER with many queues"),
        Asked(groups.DeleteSubscriptionGroup(group_name=MEMBERS, clean_offset=True)),
        Asked(CleanUnusedTopic()),
        Asked(CleanExpiredConsumeQueue()),
        Asked(DeleteExpiredCommitLog()),
    ]


def about_users() -> list[Asked]:
    """Return a request for every code about users and rules of 5.x."""
    user = encode_body(UserInfo(username="anna", password="a-secret-word", user_type="Normal", user_status="enable"))
    entry = PolicyEntry(resource="Topic:orders", actions=["Pub"], decision="Allow")
    rules = encode_body(AclInfo(subject="User:anna", policies=[Policy(policy_type="Custom", entries=[entry])]))
    return [
        Asked(auth.AuthCreateUser(username="anna"), user),
        Asked(auth.AuthUpdateUser(username="anna"), user),
        Asked(auth.AuthGetUser(username="anna")),
        Asked(auth.AuthListUser()),
        Asked(auth.AuthCreateAcl(subject="User:anna"), rules),
        Asked(auth.AuthUpdateAcl(subject="User:anna"), rules),
        Asked(auth.AuthGetAcl(subject="User:anna")),
        Asked(auth.AuthListAcl()),
        Asked(auth.AuthDeleteAcl(subject="User:anna")),
        Asked(auth.AuthDeleteUser(username="anna")),
        Asked(auth.CopyAccounts(), refused=True),
    ]


def about_plain_accounts() -> list[Asked]:
    """Return a request for every code about accounts of 4.9."""
    return [
        Asked(auth.UpdateAndCreateAclConfig(access_key="another-key", secret_key="another-secret")),
        Asked(auth.GetBrokerClusterAclInfo()),
        Asked(auth.GetBrokerClusterAclConfig()),
        Asked(auth.UpdateGlobalWhiteAddrsConfig(global_white_addrs="10.10.10.10")),
        Asked(auth.DeleteAclConfig(access_key="another-key")),
    ]

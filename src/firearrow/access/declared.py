"""The things that every request touches, and the actions: the one list that rules are asked about. Pure.

A request of a type that is not in `DECLARED` is refused once access is on; a test walks the requests that brokers and
name servers answer. Java: the annotations ``RocketMQAction`` and ``RocketMQResource`` on header classes, and
``DefaultAuthorizationContextBuilder``. Apache lets a request pass that has no annotation; here it needs the cluster.

Several actions mean: one of them is enough. All things that a request touches must be allowed. A retry topic stands for
its group: sending to it and reading it need Sub on the group. What a request says of the topic of a stored message is
not believed: the topic of the message that it names is asked about too (`MessageField`).
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from firearrow.access.decide import Need
from firearrow.access.rules import Action, ResourceKind
from firearrow.model.names import RETRY_PREFIX, is_retry_topic
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody, HeartbeatData
from firearrow.protocol.bodies.group.lock import LockBatchBody
from firearrow.protocol.conversation import Request
from firearrow.protocol.refusal import request_body
from firearrow.protocol.requests.admin import auth, config, maintenance, stats, topic
from firearrow.protocol.requests.group import group, heartbeat, lock, offset, push, reset
from firearrow.protocol.requests.message import pull, query, send
from firearrow.protocol.requests.naming import kv_config, registration, route
from firearrow.protocol.requests.pop import pop
from firearrow.protocol.requests.replication import replication
from firearrow.protocol.requests.transaction import transaction

ALL_THINGS: Final = "*"
"""No topic and no group has this name: only a rule about all of them covers it."""
PUB: Final = (Action.PUB,)
SUB: Final = (Action.SUB,)
CREATE: Final = (Action.CREATE,)
UPDATE: Final = (Action.UPDATE,)
DELETE: Final = (Action.DELETE,)
GET: Final = (Action.GET,)
LISTS: Final = (Action.GET, Action.LIST)
READS: Final = (Action.SUB, Action.GET)
COMMITS: Final = (Action.SUB, Action.UPDATE)
ROUTES: Final = (Action.PUB, Action.SUB, Action.GET)
_CHANGES: Final = frozenset({*CREATE, *UPDATE, *DELETE})

Actions = tuple[Action, ...]
Needs = Iterator[Need]


class NameField(Struct, frozen=True):
    """A field of a request that names things, and what is done to them; ``separator`` divides several names."""

    kind: ResourceKind
    field: str
    actions: Actions
    separator: str = ""
    empty_is_all: bool = False
    """Whether a request that leaves the field out touches all things of the kind; only a rule about all allows it."""


class MessageField(Struct, frozen=True):
    """A field of a request that names a stored message, and the actions on the topic of that message."""

    field: str
    """The name of the field, which holds a physical offset or a message id."""
    actions: Actions

    @property
    def is_change(self) -> bool:
        """Whether the request does more than read the message."""
        return self.actions != GET


class Declaration(Struct, frozen=True):
    """The things that requests of one type touch."""

    touches: tuple[NameField, ...] = ()
    in_body: Callable[[bytes], Needs] | None = None
    """Returns the needs of the things that the body names."""
    cluster: Actions = ()
    """The actions on the cluster, if a request names nothing else, or names a stored message that does not exist;
    empty: then only a known user is needed."""
    is_routine: bool = False
    """Whether servers ask this again and again, without a person who wants it."""
    broker: str = ""
    """A field that names a broker: the cluster in which the broker is known is touched too."""
    named: MessageField | None = None
    """A message whose topic is known only when the message has been looked up."""


def changes_something(declaration: Declaration) -> bool:
    """Whether requests change more than messages and their consumption."""
    if declaration.is_routine:
        return False
    if declaration.in_body in (_topics, _group, _groups):
        return True
    done = [declaration.cluster, *(touch.actions for touch in declaration.touches)]
    return any(actions and actions[0] in _CHANGES for actions in done)


def needs_of(declaration: Declaration, request: Request[Any], body: bytes, cluster: str) -> list[Need]:
    """Return everything that a request needs; raise ``Refused`` when its body cannot be read."""
    needs: dict[Need, None] = {}
    for touch in declaration.touches:
        value = getattr(request, touch.field)
        if not value and touch.field in _optional(type(request)):
            if touch.empty_is_all:
                needs[Need(touch.kind, ALL_THINGS, touch.actions)] = None
            continue
        for name in _names(value, touch.separator):
            needs[thing(touch.kind, name, touch.actions)] = None
    if declaration.in_body is not None:
        needs.update(dict.fromkeys(declaration.in_body(body)))
    if not needs and declaration.cluster and declaration.named is None:
        needs[Need(ResourceKind.CLUSTER, cluster, declaration.cluster)] = None
    return list(needs)


@cache
def _optional(kind: type[Request[Any]]) -> frozenset[str]:
    """The fields of a request that may be left out; an empty text in another field is a name that no rule has."""
    return frozenset(field.name for field in msgspec.structs.fields(kind) if not field.required)


def _names(value: str, separator: str) -> list[str]:
    return [name for name in value.split(separator) if name] if separator else [value]


def thing(kind: ResourceKind, name: str, actions: Actions) -> Need:
    """Return what is needed for actions on a thing; a retry topic stands for its group."""
    if kind is ResourceKind.CLUSTER or not is_retry_topic(name):
        return Need(kind, name, actions)
    instead = dict.fromkeys(Action.SUB if action is Action.PUB else action for action in actions)
    return Need(ResourceKind.GROUP, name.removeprefix(RETRY_PREFIX), tuple(instead))


# ---- bodies


def _heartbeat(body: bytes) -> Needs:
    for member in request_body(body, HeartbeatData).consumer_data_set:
        if not member.group_name:
            continue  # the handler passes over it too
        yield thing(ResourceKind.GROUP, member.group_name, SUB)
        for subscription in member.subscription_data_set:
            if subscription.topic:
                yield thing(ResourceKind.TOPIC, subscription.topic, SUB)


def _check_client(body: bytes) -> Needs:
    asked = request_body(body, CheckClientBody)
    yield thing(ResourceKind.GROUP, asked.group or "", SUB)
    if asked.subscription_data is not None:
        yield thing(ResourceKind.TOPIC, asked.subscription_data.topic or "", SUB)


def _locks(body: bytes) -> Needs:
    wanted = request_body(body, LockBatchBody)
    yield thing(ResourceKind.GROUP, wanted.consumer_group or "", SUB)
    for queue in wanted.mq_set:
        yield thing(ResourceKind.TOPIC, queue.topic, SUB)


def _topics(body: bytes) -> Needs:
    for config_of_topic in request_body(body, CreateTopicListBody).topic_config_list:
        yield thing(ResourceKind.TOPIC, config_of_topic.topic_name or "", CREATE)


def _group(body: bytes) -> Needs:
    yield thing(ResourceKind.GROUP, request_body(body, SubscriptionGroupConfig).group_name or "", CREATE)


def _groups(body: bytes) -> Needs:
    for config_of_group in request_body(body, SubscriptionGroupList).group_config_list:
        yield thing(ResourceKind.GROUP, config_of_group.group_name or "", CREATE)


# ---- the list


def _on(
    topics: Actions = (),
    groups: Actions = (),
    *,
    cluster: Actions = (),
    named: MessageField | None = None,
    **names: str,
) -> Declaration:
    """A request with a topic in ``topic`` or a group in ``consumer_group``, if other names are not given."""
    touches = []
    if topics:
        touches.append(NameField(ResourceKind.TOPIC, names.get("topic", "topic"), topics))
    if groups:
        touches.append(NameField(ResourceKind.GROUP, names.get("group", "consumer_group"), groups))
    return Declaration(tuple(touches), cluster=cluster, named=named)


def _on_cluster(actions: Actions, field: str = "", *, broker: str = "", is_routine: bool = False) -> Declaration:
    """A request to a whole cluster: the one that a field names, else the server's own."""
    touches = (NameField(ResourceKind.CLUSTER, field, actions),) if field else ()
    return Declaration(touches, cluster=actions, is_routine=is_routine, broker=broker)


DECLARED: Final[dict[type[Request[Any]], Declaration]] = {
    # messages
    send.SendMessage: _on(PUB),
    send.SendMessageV2: _on(PUB),
    send.SendBatchMessage: _on(PUB),
    send.RecallMessage: _on(PUB),
    send.ConsumerSendMsgBack: _on(groups=SUB, group="group", named=MessageField("offset", SUB)),
    transaction.EndTransaction: _on(PUB, named=MessageField("commit_log_offset", PUB)),
    transaction.ResumeCheckHalfMessage: _on(UPDATE, cluster=UPDATE, named=MessageField("msg_id", UPDATE)),
    pull.PullMessage: _on(SUB, SUB),
    pull.LitePullMessage: _on(SUB, SUB),
    pop.PopMessage: _on(SUB, SUB),
    query.QueryMessage: _on(READS),
    query.ViewMessageById: _on(GET, cluster=GET, named=MessageField("offset", GET)),
    query.QueryConsumeQueue: _on(GET, GET, cluster=GET),
    query.QueryConsumeTimeSpan: _on(GET, GET, group="group"),
    # members of groups
    heartbeat.HeartBeat: Declaration(in_body=_heartbeat),
    heartbeat.UnregisterClient: _on(groups=SUB),
    heartbeat.GetConsumerListByGroup: _on(groups=READS),
    heartbeat.CheckClientConfig: Declaration(in_body=_check_client),
    lock.LockBatchMq: Declaration(in_body=_locks),
    lock.UnlockBatchMq: Declaration(in_body=_locks),
    push.GetConsumerRunningInfo: _on(groups=GET),
    push.ConsumeMessageDirectly: _on(SUB, SUB, named=MessageField("msg_id", SUB)),
    # offsets
    offset.QueryConsumerOffset: _on(READS, READS),
    offset.UpdateConsumerOffset: _on(COMMITS, COMMITS),
    offset.GetMaxOffset: _on(READS),
    offset.GetMinOffset: _on(READS),
    offset.SearchOffsetByTimestamp: _on(READS),
    offset.GetEarliestMsgStoretime: _on(READS),
    reset.InvokeBrokerToResetOffset: _on(UPDATE, UPDATE, group="group"),
    reset.InvokeBrokerToGetConsumerStatus: _on(GET, GET, group="group"),
    reset.CloneGroupOffset: Declaration(
        (
            NameField(ResourceKind.GROUP, "src_group", GET),
            NameField(ResourceKind.GROUP, "dest_group", UPDATE),
            NameField(ResourceKind.TOPIC, "topic", UPDATE, empty_is_all=True),
        )
    ),
    reset.QueryCorrectionOffset: Declaration(
        (
            NameField(ResourceKind.GROUP, "filter_groups", GET, separator=","),
            NameField(ResourceKind.GROUP, "compare_group", GET),
            NameField(ResourceKind.TOPIC, "topic", GET),
        )
    ),
    # groups
    group.UpdateAndCreateSubscriptionGroup: Declaration(in_body=_group),
    group.UpdateAndCreateSubscriptionGroupList: Declaration(in_body=_groups, cluster=UPDATE),
    group.GetAllSubscriptionGroupConfig: _on_cluster(LISTS),
    group.GetSubscriptionGroupConfig: _on(groups=GET, group="group"),
    group.DeleteSubscriptionGroup: _on(groups=DELETE, group="group_name"),
    group.UpdateAndGetGroupForbidden: _on(UPDATE, UPDATE, group="group"),
    group.QueryTopicsByConsumer: _on(groups=GET, group="group"),
    group.QuerySubscriptionByConsumer: _on(GET, GET, group="group"),
    group.GetConsumerConnectionList: _on(groups=GET),
    group.GetProducerConnectionList: _on_cluster(GET),
    group.GetAllProducerInfo: _on_cluster(GET),
    # topics
    topic.UpdateAndCreateTopic: _on(CREATE),
    topic.UpdateAndCreateTopicList: Declaration(in_body=_topics, cluster=UPDATE),
    topic.GetAllTopicConfig: _on_cluster(LISTS),
    topic.GetTopicConfig: _on(GET),
    topic.DeleteTopicInBroker: _on(DELETE),
    topic.GetTopicStatsInfo: _on(GET),
    topic.GetSystemTopicListFromBroker: _on_cluster(LISTS),
    topic.QueryTopicConsumeByWho: _on(GET),
    topic.CleanUnusedTopic: _on_cluster(UPDATE),
    # a broker as a whole
    stats.GetConsumeStats: Declaration(
        (
            NameField(ResourceKind.GROUP, "consumer_group", GET),
            NameField(ResourceKind.TOPIC, "topic", GET),
            NameField(ResourceKind.TOPIC, "topic_list", GET, separator=";"),
        )
    ),
    stats.GetBrokerConsumeStats: _on_cluster(GET),
    stats.GetBrokerRuntimeInfo: _on_cluster(GET),
    stats.ViewBrokerStatsData: _on_cluster(GET),
    maintenance.CleanExpiredConsumeQueue: _on_cluster(UPDATE),
    maintenance.DeleteExpiredCommitLog: _on_cluster(UPDATE),
    config.UpdateBrokerConfig: _on_cluster(UPDATE),
    config.GetBrokerConfig: _on_cluster(GET),
    replication.GetAllConsumerOffset: _on_cluster(GET),
    replication.GetAllDelayOffset: _on_cluster(GET),
    replication.GetTimerCheckPoint: _on_cluster(GET),
    replication.GetTimerMetrics: _on_cluster(GET),
    replication.GetBrokerHaStatus: _on_cluster(GET),
    replication.GetBrokerEpochCache: _on_cluster(GET),
    replication.ResetMasterFlushOffset: _on_cluster(UPDATE),
    pop.GetAllMessageRequestMode: _on_cluster(GET),
    # users and rules
    auth.AuthCreateUser: _on_cluster(UPDATE),
    auth.AuthUpdateUser: _on_cluster(UPDATE),
    auth.AuthDeleteUser: _on_cluster(UPDATE),
    auth.AuthGetUser: _on_cluster(GET),
    auth.AuthListUser: _on_cluster(GET),
    auth.AuthCreateAcl: _on_cluster(UPDATE),
    auth.AuthUpdateAcl: _on_cluster(UPDATE),
    auth.AuthDeleteAcl: _on_cluster(UPDATE),
    auth.AuthGetAcl: _on_cluster(GET),
    auth.AuthListAcl: _on_cluster(GET),
    auth.CopyAccounts: _on_cluster(UPDATE, is_routine=True),
    auth.UpdateAndCreateAclConfig: _on_cluster(UPDATE),
    auth.DeleteAclConfig: _on_cluster(UPDATE),
    auth.UpdateGlobalWhiteAddrsConfig: _on_cluster(UPDATE),
    auth.GetBrokerClusterAclInfo: _on_cluster(GET),
    auth.GetBrokerClusterAclConfig: _on_cluster(GET),
    # name servers
    route.GetRouteInfoByTopic: _on(ROUTES),
    route.GetBrokerClusterInfo: _on_cluster(GET),
    route.GetAllTopicListFromNameserver: _on_cluster(LISTS),
    route.GetTopicsByCluster: _on_cluster(LISTS, "cluster"),
    route.GetSystemTopicListFromNs: _on_cluster(LISTS),
    route.GetUnitTopicList: _on_cluster(LISTS),
    route.GetHasUnitSubTopicList: _on_cluster(LISTS),
    route.GetHasUnitSubUnunitTopicList: _on_cluster(LISTS),
    route.WipeWritePermOfBroker: _on_cluster(UPDATE),
    route.AddWritePermOfBroker: _on_cluster(UPDATE),
    route.DeleteTopicInNamesrv: _on_cluster(UPDATE, "cluster_name"),
    route.RegisterTopicInNamesrv: _on_cluster(UPDATE),
    registration.RegisterBroker: _on_cluster(UPDATE, "cluster_name", broker="broker_name", is_routine=True),
    registration.UnregisterBroker: _on_cluster(UPDATE, "cluster_name", broker="broker_name"),
    registration.QueryDataVersion: _on_cluster(GET, "cluster_name"),
    registration.BrokerHeartbeat: _on_cluster(UPDATE, "cluster_name", is_routine=True),
    registration.GetBrokerMemberGroup: _on_cluster(GET, "cluster_name"),
    kv_config.PutKvConfig: _on_cluster(UPDATE),
    kv_config.GetKvConfig: _on_cluster(GET),
    kv_config.DeleteKvConfig: _on_cluster(UPDATE),
    kv_config.GetKvListByNamespace: _on_cluster(GET),
    config.UpdateNamesrvConfig: _on_cluster(UPDATE),
    config.GetNamesrvConfig: _on_cluster(GET),
}

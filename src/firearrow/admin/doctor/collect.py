"""Collects a snapshot of a cluster over the wire, ours or Apache's. What does not answer is part of the picture."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from firearrow import fastjson
from firearrow.admin.admin import Admin
from firearrow.admin.broker_state import BrokerState
from firearrow.admin.brokers import BrokerMember, together
from firearrow.admin.doctor.snapshot import (
    BrokerReport,
    ClusterSnapshot,
    DeadLetterReport,
    GroupReport,
    HiddenQueueReport,
    NameServerReport,
    QueueReport,
    TopicReport,
)
from firearrow.admin.group_members import Holders
from firearrow.admin.topics import ORDER_TOPIC_CONFIG, TopicSummary
from firearrow.client.consumer.broker_queries import Bounds
from firearrow.client.consumer.hidden_queues import HiddenQueues
from firearrow.client.name_servers import UNANSWERED
from firearrow.errors import NoSuchName, RequestRefused
from firearrow.model.flags import PERM_READ
from firearrow.model.names import DLQ_PREFIX, is_dlq_topic, is_retry_topic
from firearrow.protocol.bodies.admin.topic import GroupList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import A, Request
from firearrow.protocol.requests.admin.topic import QueryTopicConsumeByWho
from firearrow.protocol.requests.group.offset import QueryConsumerOffset
from firearrow.remoting.reply import SUCCESS_ONLY, Reply
from firearrow.runtime.host import HostLimits
from firearrow.runtime.network import Address

MOST: Final = 500
"""Most topics, and most groups, that are looked at one by one."""
BROADCASTING: Final = "BROADCASTING"
HIDDEN_GAP: Final = 16
"""Queue numbers without a queue that end the search for queues that a topic has lost, at Apache's brokers."""
_COMMITTED_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})

_span = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]").fullmatch


async def collect(admin: Admin, now_ms: int, host: HostLimits) -> ClusterSnapshot:
    """Look at everything; where no name server answers, at the name servers and the host alone."""
    servers = tuple(await together(_name_server(admin, server) for server in admin.name_servers.addresses))
    try:
        members = await admin.brokers.list()
    except UNANSWERED:
        left_out = "brokers, topics and groups, because no name server answers"
        return ClusterSnapshot(now_ms=now_ms, name_servers=servers, host=host, left_out=left_out)
    brokers = await together(_broker(admin, member, now_ms) for member in members)
    reached = {broker.state.member.name for broker in brokers if not broker.state.fault}
    seen = ClusterSnapshot(now_ms=now_ms, name_servers=servers, brokers=tuple(brokers), host=host)
    if {member.name for member in members} != reached:
        return replace(seen, left_out="topics and groups, because a broker does not answer")
    topics, groups = await admin.topics.list(), await admin.groups.list()
    normal = [topic for topic in topics if topic.kind == "normal"]
    letters = [topic.name for topic in topics if is_dlq_topic(topic.name)]
    texts, masters = await _order_texts(admin), _Masters(admin, members)
    return replace(
        seen,
        topics=tuple(await together(_topic(admin, topic, texts, masters) for topic in normal[:MOST])),
        groups=tuple(await together(_group(admin, group.name) for group in groups[:MOST])),
        dead_letters=tuple(await together(_dead_letters(admin, topic) for topic in letters)),
        left_out=_left_out(len(normal), len(groups)),
    )


def _left_out(topics: int, groups: int) -> str:
    missing = [(topics, "topics"), (groups, "groups")]
    return ", ".join(f"{count - MOST} of {count} {what}" for count, what in missing if count > MOST)


async def _name_server(admin: Admin, server: Address) -> NameServerReport:
    try:
        registered = await admin.brokers.registered_at(server)
        settings = await admin.name_servers.settings(server)
    except (RequestRefused, *UNANSWERED) as error:
        return NameServerReport(address=str(server), fault=str(error))
    table = registered.broker_addr_table or {}
    allowed = settings.get("orderMessageEnable")
    return NameServerReport(
        address=str(server),
        brokers=frozenset(address for data in table.values() for address in data.broker_addrs.values()),
        allows_strict_order=None if allowed is None else allowed == "true",
    )


async def _broker(admin: Admin, member: BrokerMember, now_ms: int) -> BrokerReport:
    state = (await admin.operations.states([member]))[0]
    if state.fault:
        return BrokerReport(state=state)
    replication = await admin.operations.replication_if_told(member)
    slaves = [] if replication is None else replication.ha_connection_info
    table = await admin.operations.runtime(member)
    return BrokerReport(
        state=state,
        clock_ahead_ms=clock_ahead(state, table.get("runtime", ""), now_ms),
        slaves_behind={each.addr or "": each.diff for each in slaves},
    )


def clock_ahead(state: BrokerState, runtime: str, now_ms: int) -> int | None:
    """Return a broker's time, from its start and the time since, less our own; None if it does not tell."""
    found = _span(runtime.strip())
    if found is None or not state.booted_ms:
        return None
    days, hours, minutes, seconds = (int(each) for each in found.groups())
    return state.booted_ms + ((days * 24 + hours) * 3600 + minutes * 60 + seconds) * 1000 - now_ms


async def _order_texts(admin: Admin) -> Mapping[str, str]:
    for server in admin.name_servers.addresses:
        try:
            return await admin.name_servers.texts(server, ORDER_TOPIC_CONFIG)
        except (RequestRefused, *UNANSWERED):
            continue
    return {}


async def _topic(admin: Admin, topic: TopicSummary, texts: Mapping[str, str], masters: "_Masters") -> TopicReport:
    route = await admin.brokers.route(topic.name)
    queues = [] if route is None else route.queue_datas
    readable = [each for each in topic.brokers if each.perm & PERM_READ]
    hidden = await together(_hidden(masters, topic.name, each.broker, each.read_queues) for each in readable)
    return TopicReport(
        name=topic.name,
        perms={each.broker: each.perm for each in topic.brokers},
        routed_perms={each.broker_name or "": each.perm for each in queues},
        wants_strict_order=any(each.order for each in topic.brokers),
        order_text=texts.get(topic.name, ""),
        hidden={each.broker: seen for each, seen in zip(readable, hidden, strict=True) if seen},
    )


class _Masters:
    """Sends requests to brokers by their names."""

    def __init__(self, admin: Admin, members: Iterable[BrokerMember]) -> None:
        self._admin = admin
        self._at = {member.name: member.at for member in sorted(members, key=lambda each: -each.broker_id)}

    async def ask(
        self,
        broker: str,
        request: Request[A],
        *,
        timeout_ms: float | None = None,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> Reply[A]:
        """Ask a broker's master, or the slave with the lowest number."""
        return await self._admin.brokers.ask(self._at[broker], request, timeout_ms=timeout_ms, accept=accept)


async def _hidden(masters: _Masters, topic: str, broker: str, read_queues: int) -> tuple[HiddenQueueReport, ...]:
    """Return what groups have not consumed of the queues of a broker that consumers do not see."""
    try:
        held = await HiddenQueues(masters, HIDDEN_GAP).held(broker, topic)
        bounds = {queue.queue_id: each.bounds for queue, each in held.items() if queue.queue_id >= read_queues}
        full = {number: each for number, each in bounds.items() if each.end > each.first}
        if not full:
            return ()
        reply = await masters.ask(broker, QueryTopicConsumeByWho(topic=topic))
        groups = fastjson.decode(reply.body, GroupList).group_list
        found = []
        for group in sorted(groups):
            left = {number: await _left(masters, broker, group, topic, number, each) for number, each in full.items()}
            unread = {number: count for number, count in left.items() if count}
            if unread:
                found.append(HiddenQueueReport(group, tuple(unread), sum(unread.values())))
        return tuple(found)
    except (RequestRefused, *UNANSWERED):
        return ()  # the topic was deleted meanwhile, or the broker is away now


async def _left(masters: _Masters, broker: str, group: str, topic: str, number: int, bounds: Bounds) -> int:
    """Return how many messages of a queue a group has not consumed."""
    request = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=number, set_zero_if_not_found=False)
    reply = await masters.ask(broker, request, accept=_COMMITTED_OR_NOT)
    committed = reply.answer.offset if reply.code == ResponseCode.SUCCESS else 0
    return max(0, bounds.end - max(committed, bounds.first))


async def _group(admin: Admin, name: str) -> GroupReport:
    try:
        found = await admin.groups.describe(name)
    except NoSuchName:
        return GroupReport(name=name)  # it was deleted meanwhile
    members = tuple(each.client_id for each in found.members)
    holders = await admin.members.holders(members, name)
    held = {each.queue: each for each in holders.queues}
    queues = []
    for each in found.queues:
        holder = held.get(each.queue)
        queues.append(
            QueueReport(
                topic=each.queue.topic,
                broker=each.queue.broker_name,
                queue=each.queue.queue_id,
                lag=each.lag,
                member="" if holder is None else holder.client_id,
                cached=0 if holder is None else holder.cached,
                last_consume_ms=0 if holder is None else holder.last_consume_ms,
            )
        )
    return GroupReport(
        name=name,
        is_enabled=found.is_enabled,
        disagreement=found.disagreement or difference(holders),
        members=members,
        silent={each.client_id: each.why for each in holders.silent},
        queues=tuple(queues),
        is_broadcasting=found.message_model == BROADCASTING,
    )


def difference(holders: Holders) -> str:
    """Return how the subscriptions of two members differ; empty if all are the same."""
    said = {client: _own(each) for client, each in sorted(holders.subscriptions.items())}
    first = next(iter(said), "")
    other = next((client for client, each in said.items() if each != said[first]), "")
    return f"{first} to {_text(said[first])}, {other} to {_text(said[other])}" if other else ""


def _own(subscriptions: Mapping[str, str]) -> dict[str, str]:
    return {topic: expression for topic, expression in sorted(subscriptions.items()) if not is_retry_topic(topic)}


def _text(subscriptions: Mapping[str, str]) -> str:
    return _listed(f"{topic} ({expression})" for topic, expression in subscriptions.items())


def _listed(texts: Iterable[str]) -> str:
    found: Sequence[str] = list(texts)
    return ", ".join(found) or "nothing"


async def _dead_letters(admin: Admin, topic: str) -> DeadLetterReport:
    group = topic.removeprefix(DLQ_PREFIX)
    try:
        found = await admin.topics.describe(topic)
    except NoSuchName:
        return DeadLetterReport(group=group, messages=0, last_ms=0)  # it was deleted meanwhile
    last_ms = max((queue.last_stored_ms for queue in found.queues), default=0)
    return DeadLetterReport(group=group, messages=found.messages, last_ms=last_ms)

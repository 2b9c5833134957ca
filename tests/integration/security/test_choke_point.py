"""The class of etcd's CVE-2026-33413 and -33343: one request forgot the check; an operation inside another skipped it.

Our rule: one function decides before any handler, on what every request declares; what declares nothing is refused.
All things that a body names are asked about, and the topic of a stored message that a request names is looked up.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from firearrow.fastjson import decode
from firearrow.model.message import MessageQueue
from firearrow.protocol.auth import Credentials
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig, TopicConfigTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from firearrow.protocol.bodies.group.lock import LockBatchBody
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests import ALL
from firearrow.protocol.requests.admin.auth import AuthCreateAcl, AuthCreateUser
from firearrow.protocol.requests.admin.stats import GetConsumeStats
from firearrow.protocol.requests.admin.topic import GetAllTopicConfig, UpdateAndCreateTopicList
from firearrow.protocol.requests.group.group import (
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
)
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.lock import LockBatchMq, UnlockBatchMq
from firearrow.protocol.requests.group.reset import CloneGroupOffset, QueryCorrectionOffset
from firearrow.protocol.requests.message.query import ViewMessageById
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack, SendMessage
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.record.message_id import parse_offset_message_id
from tests.integration.security.test_names import a_send
from tests.integration.security.victim import ROOT, USERS_ON, Victim
from tests.unit.access.servers import sample

pytestmark = pytest.mark.real

ALICE = Credentials("alice", "password-of-alice-93f2")
NOT_SUPPORTED, NO_PERMISSION, UNREADABLE = 3, 16, 1
REFUSALS = (NO_PERMISSION, NOT_SUPPORTED, UNREADABLE)
CODES = range(7000)
"""Codes that a stranger tries, Apache's and those in between."""
PREPARED = 4
HALF = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01AC11000100002A\x02"
OF_NOTHING = {"END_TRANSACTION", "UNREGISTER_CLIENT", "HEART_BEAT"}
"""Requests that name nothing in a sample, and so need a known user alone."""


def make_alice(broker: Victim) -> None:
    """Make a user that may do everything with her own topic and group."""
    broker.ask(AuthCreateUser(username="alice"), encode_body(UserInfo(password=ALICE.secret_key)), ROOT)
    entries = [
        PolicyEntry(resource=resource, actions=["All"], decision="Allow") for resource in ("Topic:hers", "Group:hers")
    ]
    info = AclInfo(subject="User:alice", policies=[Policy(policy_type="Custom", entries=entries)])
    assert broker.ask(AuthCreateAcl(subject="User:alice"), encode_body(info), ROOT).code == 0


def stored(broker: Victim, topic: str, **more: Any) -> int:
    """Store a message as root; return its place in the log."""
    answer = broker.ask(a_send(SendMessage, topic, **more), b"the body", ROOT)
    assert answer.code == 0
    return int(parse_offset_message_id(answer.fields["msgId"])[1])


def topics_of(broker: Victim) -> set[str]:
    """The names of all topics."""
    return set(decode(broker.ask(GetAllTopicConfig(), keys=ROOT).body, TopicConfigTable).topic_config_table)


def nested(topic: str, group: str) -> Iterator[tuple[Request[Any], bytes]]:
    """Requests about Alice's own things first, and about others behind them."""
    topics = [SubscriptionData(topic=name, sub_string="*") for name in ("hers", topic)]
    members = [
        ConsumerData(group_name="hers", subscription_data_set=topics[:1]),
        ConsumerData(group_name=group, subscription_data_set=topics),
    ]
    yield HeartBeat(), encode_body(HeartbeatData(client_id="c", consumer_data_set=members))
    queues = [MessageQueue(name, "victim", 0) for name in ("hers", topic)]
    lock = encode_body(LockBatchBody(client_id="c", consumer_group="hers", mq_set=queues))
    yield LockBatchMq(), lock
    yield UnlockBatchMq(), lock
    configs = [TopicConfig(topic_name=name) for name in ("hers", topic)]
    yield UpdateAndCreateTopicList(), encode_body(CreateTopicListBody(topic_config_list=configs))
    groups = [SubscriptionGroupConfig(group_name=name) for name in ("hers", group)]
    yield UpdateAndCreateSubscriptionGroupList(), encode_body(SubscriptionGroupList(group_config_list=groups))
    yield CloneGroupOffset(src_group=group, dest_group="hers", topic=topic, offline=False), b""
    yield QueryCorrectionOffset(filter_groups=f"hers,{group}", compare_group="hers", topic=topic), b""
    yield GetConsumeStats(consumer_group="hers", topic="hers", topic_list=f"hers;{topic}"), b""


def of_messages(place: int, half: int) -> Iterator[Request[Any]]:
    """Requests that name a stored message of somebody else and call it Alice's."""
    yield ViewMessageById(topic="hers", offset=place)
    yield ConsumerSendMsgBack(offset=place, group="hers", delay_level=0, origin_topic="hers")
    yield EndTransaction(
        topic="hers",
        producer_group="P",
        tran_state_table_offset=0,
        commit_log_offset=half,
        commit_or_rollback=8,
        msg_id="AC11000100002A",
    )


def replay(broker: Victim) -> None:
    """Try every code as a stranger, then as somebody who may do little."""
    make_alice(broker)
    group = encode_body(SubscriptionGroupConfig(group_name="hers"))
    assert broker.ask(UpdateAndCreateSubscriptionGroup(), group, ROOT).code == 0
    place, half = stored(broker, "bills"), stored(broker, "bills", properties=HALF, sys_flag=PREPARED)
    topics = topics_of(broker)
    answered = broker.codes_of(CODES)
    answered.update((int(kind.code), broker.ask(sample(kind)).code) for kind in ALL)  # with fields it gets further
    strangers = [code for code, answer in answered.items() if answer not in REFUSALS]
    assert not strangers, f"answered to a stranger: {strangers}"
    answers = [(kind.code.name, broker.ask(sample(kind), keys=ALICE)) for kind in ALL]
    passed = {
        name
        for name, answer in answers
        if answer.code not in (NO_PERMISSION, NOT_SUPPORTED) and not (answer.code == UNREADABLE and not answer.body)
    }
    assert passed <= OF_NOTHING, f"answered to somebody without a rule: {passed - OF_NOTHING}"
    for request, body in nested("hers", "hers"):
        assert broker.ask(request, body, ALICE).code != NO_PERMISSION, f"{request} is hers alone"
    for request, body in nested("bills", "billing"):
        assert broker.ask(request, body, ALICE).code == NO_PERMISSION, f"{type(request).__name__}: what it holds passes"
    for request in of_messages(place, half):
        answer = broker.ask(request, keys=ALICE)
        assert answer.code == NO_PERMISSION, f"{type(request).__name__} reaches a message of others"
    made = topics_of(broker) ^ topics
    assert made <= {"hers", "%RETRY%hers"}, f"topics were made or deleted: {made}"


def test_no_request_goes_around_the_check() -> None:
    with Victim("broker", USERS_ON) as broker:
        replay(broker)

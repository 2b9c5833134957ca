"""Requests that name a stored message: the topic of that message is asked about, whatever the request says of it."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

import pytest
from msgspec.structs import replace

from firearrow.access.declared import DECLARED, MessageField
from firearrow.access.guard import Guard
from firearrow.broker import stored_topics
from firearrow.model import names
from firearrow.model.names import HALF_TOPIC, TIMER_TOPIC
from firearrow.protocol.auth import Credentials, Signer
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.protocol.requests.group.push import ConsumeMessageDirectly
from firearrow.protocol.requests.message.query import ViewMessageById
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from firearrow.protocol.requests.transaction.transaction import (
    CheckTransactionState,
    EndTransaction,
    ResumeCheckHalfMessage,
)
from firearrow.record.message_id import parse_offset_message_id
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Handlers
from firearrow.store.read.lookup import Lookups
from tests.unit.access.servers import ALICE, ROOT, Place, refusal, served
from tests.unit.broker.whole import Client, a_send

COMMIT = 8
PREPARED = 4
MANY = 200
"""Ends of transactions: far more than a connection may look up messages for at a time."""
HALF = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01AC11000100002A\x02"
DELAYED = "DELAY\x0118\x02UNIQ_KEY\x01AC11000100002B\x02"


class Sent:
    """A message that was sent, and its places."""

    def __init__(self, message_id: str, queue_offset: int) -> None:
        self.id = message_id
        self.queue_offset = queue_offset
        self.physical = int(parse_offset_message_id(message_id)[1])


async def send(client: Client, topic: str, **fields: Any) -> Sent:
    answer = (await client.send(topic, b"the body", **fields)).answer
    assert answer is not None
    return Sent(answer.msg_id, answer.queue_offset)


async def people(place: Place) -> tuple[Client, Client]:
    """Root, and Alice who may do everything with topic orders and group g."""
    root = place.client(ROOT)
    await root.ask(UpdateAndCreateSubscriptionGroup(), encode_body(SubscriptionGroupConfig(group_name="g")))
    alice = await place.make(ALICE, ("Topic:orders", "All", "Allow"), ("Group:g", "All", "Allow"))
    return root, alice


async def is_about_bills(client: Client, *requests: Request[Any]) -> None:
    for request in requests:
        code, remark = await refusal(client, request)
        assert (code, "Topic:bills " in remark) == (16, True), (request, code, remark)


async def view(place: Place) -> None:
    root, alice = await people(place)
    own, other = await send(alice, "orders"), await send(root, "bills")
    delayed = await send(root, "bills", properties=DELAYED)
    assert b"the body" in (await alice.ask(ViewMessageById(offset=own.physical))).body
    assert b"the body" in (await alice.ask(ViewMessageById(topic="orders", offset=own.physical))).body
    for sent in (other, delayed):
        await is_about_bills(
            alice, ViewMessageById(topic="orders", offset=sent.physical), ViewMessageById(offset=sent.physical)
        )
    assert (await refusal(alice, ViewMessageById(topic="orders", offset=1 << 40)))[0] == 16
    assert (await refusal(root, ViewMessageById(offset=1 << 40)))[0] == 1


async def send_back(place: Place) -> None:
    root, alice = await people(place)
    own, other = await send(alice, "orders"), await send(root, "bills")
    half = await send(root, "bills", properties=HALF, sys_flag=PREPARED)
    assert await refusal(alice, back(own)) == (0, "")
    await is_about_bills(alice, back(other), back(half), replace(back(other), origin_topic="orders"))
    missing = ConsumerSendMsgBack(offset=1 << 40, group="g", delay_level=0)
    assert (await refusal(alice, missing))[0] == 1


def back(sent: Sent) -> ConsumerSendMsgBack:
    return ConsumerSendMsgBack(offset=sent.physical, group="g", delay_level=0)


async def end(place: Place) -> None:
    root, alice = await people(place)
    own = await send(alice, "orders", properties=HALF, sys_flag=PREPARED)
    other = await send(root, "bills", properties=HALF, sys_flag=PREPARED)
    await is_about_bills(alice, ended(other, "orders"), ended(other, None), ended(other, "bills"))
    assert await root.stored("bills") == []
    assert await refusal(alice, ended(own, "orders")) == (0, "")
    assert await refusal(root, ended(other, "bills")) == (0, "")
    assert len(await root.stored("bills")) == len(await root.stored("orders")) == 1


def ended(sent: Sent, topic: str | None) -> EndTransaction:
    return EndTransaction(
        topic=topic,
        producer_group="P",
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=sent.physical,
        commit_or_rollback=COMMIT,
        msg_id="AC11000100002A",
    )


async def end_many_one_way_and_leave(place: Place) -> None:
    """A producer closes its connection after its one-way ends, as Java's producers do when a program ends."""
    root, alice = await people(place)
    half = [await send(alice, "orders", properties=HALF, sys_flag=PREPARED) for _ in range(MANY)]
    goes_on, look_up = asyncio.Event(), Lookups.by_physical

    async def hanging(self: Lookups, physical: int) -> bytes:
        await goes_on.wait()
        return await look_up(self, physical)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lookups, "by_physical", hanging)
        connection = await alice.caller.ready(alice.broker)
        for sent in half:
            connection.push(ended(sent, "orders"))
        await asyncio.sleep(1)  # in the time of the simulation: all of them have arrived
        await alice.caller.close()
        await asyncio.sleep(1)  # the broker knows that the connection has ended
        goes_on.set()
    async with asyncio.timeout(60):
        while (await root.ask(GetMaxOffset(topic="orders", queue_id=0))).answer.offset < MANY:  # noqa: ASYNC110 - in the time of the simulation
            await asyncio.sleep(0.1)


async def resume(place: Place) -> None:
    root, alice = await people(place)
    own = await send(alice, "orders", properties=HALF, sys_flag=PREPARED)
    other = await send(root, "bills", properties=HALF, sys_flag=PREPARED)
    assert await refusal(alice, ResumeCheckHalfMessage(topic="orders", msg_id=own.id)) == (0, "")
    await is_about_bills(
        alice,
        ResumeCheckHalfMessage(topic="orders", msg_id=other.id),
        ResumeCheckHalfMessage(msg_id=other.id),
    )
    assert (await refusal(alice, ResumeCheckHalfMessage(msg_id="no id")))[0] == 16


async def consume_directly(place: Place) -> None:
    root, alice = await people(place)
    own, other = await send(alice, "orders"), await send(root, "bills")
    asked = ConsumeMessageDirectly(consumer_group="g", client_id="c", msg_id=other.id)
    await is_about_bills(alice, asked, replace(asked, topic="orders"))
    assert "not online" in (await refusal(alice, replace(asked, msg_id=own.id)))[1]


async def forge_a_timer(place: Place) -> None:
    """A message in the topic of timers would be delivered to the topic that its property names."""
    await people(place)
    bob = await place.make(("bob", "b"), ("Topic:*", "Pub", "Allow"), ("Topic:bills", "All", "Deny"))
    forged = "REAL_TOPIC\x01bills\x02REAL_QID\x010\x02TIMER_OUT_MS\x011700000001000\x02"
    for topic in (TIMER_TOPIC, HALF_TOPIC):
        assert (await refusal(bob, a_send(topic, properties=forged), b"x"))[0] == 16


async def be_asked(place: Place) -> None:
    """A question about a transaction holds its message: nobody gets it by saying that it is of that group."""
    root, alice = await people(place)
    bob = await place.make(("bob", "b"), ("Topic:bills", "Pub", "Allow"))
    asked: dict[str, list[bytes]] = {"alice": [], "bob": []}
    for name, client, keys in (("alice", alice, ALICE), ("bob", bob, ("bob", "b"))):
        handlers = Handlers()
        handlers.on(CheckTransactionState, partial(hear, asked[name]))
        client.caller = Caller(client.caller._network, handlers=handlers, sign=Signer(Credentials(*keys)))
    await join(alice, "of-alice")
    await root.ask(UpdateBrokerConfig(), b"transactionCheckInterval=1000\n")
    await send(root, "bills", properties=HALF, sys_flag=PREPARED)
    await asyncio.sleep(30)
    assert asked == {"alice": [], "bob": []}
    await join(bob, "of-bob")
    async with asyncio.timeout(60):
        while not asked["bob"]:  # noqa: ASYNC110 - in the time of the simulation
            await asyncio.sleep(0.1)
    assert b"the body" in asked["bob"][0]
    assert asked["alice"] == []


def hear(bodies: list[bytes], _request: CheckTransactionState, call: Call) -> None:
    bodies.append(call.body)


async def join(client: Client, name: str) -> None:
    data = HeartbeatData(client_id=name, producer_data_set=[ProducerData(group_name="P")])
    await client.ask(HeartBeat(), encode_body(data))


SCENARIOS = [be_asked, view, send_back, end, end_many_one_way_and_leave, resume, consume_directly, forge_a_timer]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nobody_reaches_a_message_of_another_topic(scenario: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
    served(scenario)


def believes(kind: type[Request[Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a fault: what a request says of its topic is believed."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(cast("dict[Any, Any]", DECLARED), kind, replace(DECLARED[kind], named=None, cluster=()))

    return plant


def takes_the_broker_s_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored_topics, "WAITING", frozenset())


def takes_timers_from_clients(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(names, "TIMER_TOPIC", "")


def drops_ends_of_the_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageField, "is_change", False)


def asks_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Guard, "may_see", lambda _self, _peer, _topic: True)


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[Place], Coroutine[Any, Any, None]]]] = [
    (believes(ViewMessageById), view),
    (believes(ConsumerSendMsgBack), send_back),
    (believes(EndTransaction), end),
    (believes(ResumeCheckHalfMessage), resume),
    (believes(ConsumeMessageDirectly), consume_directly),
    (takes_the_broker_s_topic, view),
    (takes_timers_from_clients, forge_a_timer),
    (asks_everybody, be_asked),
    (drops_ends_of_the_gone, end_many_one_way_and_leave),
]


@pytest.mark.parametrize(("plant", "scenario"), PLANTED)
def test_a_planted_fault_is_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    scenario: Callable[[Place], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError)):
        served(scenario)

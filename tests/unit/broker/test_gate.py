"""Whatever is answered with success is as safe as a send: send-backs, dead letters, recalls and ends of transactions.

A message that waits for nothing (WAIT=false) is refused whenever plain sends are.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from firearrow.broker.gate.promises import check_promises, of_slave
from firearrow.broker.lanes import Lane
from firearrow.errors import FireArrowError, RequestRefused, RequestTimedOut
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.admin.topic import (
    CleanUnusedTopic,
    DeleteTopicInBroker,
    GetTopicConfig,
    UpdateAndCreateTopicList,
)
from firearrow.protocol.requests.group.group import (
    DeleteSubscriptionGroup,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
    UpdateAndGetGroupForbidden,
)
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.protocol.requests.group.reset import CloneGroupOffset, InvokeBrokerToResetOffset
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack, RecallMessage
from firearrow.protocol.requests.naming.kv_config import PutKvConfig
from firearrow.protocol.requests.transaction.transaction import ResumeCheckHalfMessage
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import Node, World
from tests.unit.broker import test_failover_group, test_kept_answers, test_replication
from tests.unit.broker.producers import TransactionClient
from tests.unit.broker.test_failover_group import LEASE_S
from tests.unit.broker.test_replication import end_of, eventually
from tests.unit.broker.whole import PORT, UNIQUE, Client, Names, Simulated, a_send, simulate

NO_ANSWER = -1
SEND_CODES = frozenset({0, 10, 11, 12})
AN_HOUR_MS = 3_600_000
KEPT = ("retry", "dead letter", "recall", "commit", "resumed question")
"""The acts whose success is a promise about a record, beside plain sends."""


class Acts:
    """One of each request that stores a record, asked whenever a test wants to know what is answered now."""

    def __init__(self, node: Node, broker: Address) -> None:
        self.producer = TransactionClient(node, broker)
        self._now_ms = node.clock.now_ms
        self._turn = 0
        self._place = 0
        self._handles: list[str] = []

    async def prepare(self, rounds: int) -> None:
        """Store what the acts of some rounds are about."""
        client, now_ms = self.producer, self._now_ms()
        await client.join()
        await client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}')
        sent = await client.send(body=b"sent back")
        self._place = int(sent.answer.msg_id[-16:], 16)
        await self._ask(self._sent_back(3))
        await self._ask(self._sent_back(-1))
        self._halves = [await client.half(now_ms=now_ms, key=f"K{number}") for number in range(2 * rounds)]
        for number in range(rounds):
            key = f"UNIQ_KEY\x01T{number:014d}\x02TIMER_DELIVER_MS\x01{now_ms + AN_HOUR_MS}\x02"
            timed = await client.send(body=b"recalled", properties=key)
            self._handles.append(timed.answer.recall_handle or "")

    def _sent_back(self, level: int) -> ConsumerSendMsgBack:
        return ConsumerSendMsgBack(offset=self._place, group="g", delay_level=level, max_reconsume_times=16)

    async def _ask(self, request: Request[Any], body: bytes = b"") -> int:
        try:
            reply = await self.producer.ask(request, body, accept=SEND_CODES, timeout_ms=9000)
        except RequestRefused as refused:
            return refused.code
        except RequestTimedOut:
            return NO_ANSWER
        return reply.code

    async def send(self, wait: str) -> int:
        return await self._ask(a_send(properties=f"{UNIQUE}WAIT\x01{wait}\x02"), b"hello")

    async def codes(self) -> dict[str, int]:
        """Ask everything once, side by side; return the codes of the answers."""
        turn, self._turn = self._turn, self._turn + 1
        ended, resumed = self._halves[2 * turn : 2 * turn + 2]
        asked: dict[str, Awaitable[int]] = {
            "send": self.send("true"),
            "WAIT=false": self.send("false"),
            "retry": self._ask(self._sent_back(3)),
            "dead letter": self._ask(self._sent_back(-1)),
            "recall": self._ask(RecallMessage(topic="T", producer_group="P", recall_handle=self._handles[turn])),
            "commit": self._ask(self.producer.end_of(ended)),
            "resumed question": self._ask(ResumeCheckHalfMessage(msg_id=resumed.msg_id)),
        }
        return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))


# ---- a SYNC_MASTER and its slave


def ask_a_sync_master(least: int) -> None:
    """A SYNC_MASTER is asked everything with its slave, while the slave is frozen, and without it."""

    async def scenario(world: World, group: test_replication.Group) -> None:
        await group.client.ask(UpdateBrokerConfig(), b"recallMessageEnable=true")
        await group.slave.start()
        acts = Acts(world.node("producer"), group.master.address)
        await eventually(lambda: _slaves(acts), 1)
        await acts.prepare(3)
        await group.copied()
        assert set((await acts.codes()).values()) == {0}
        assert await end_of(group.reader) == await end_of(group.client), "a success was no promise of a copy"
        group.slave.node.freeze()
        frozen = await acts.codes()
        assert frozen["send"] == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert {act for act in KEPT if frozen[act] == 0} == set(), "answered with success, and no slave has it"
        assert {frozen[act] for act in KEPT} == {ResponseCode.SYSTEM_ERROR}
        await group.slave.node.crash()
        await eventually(lambda: _slaves(acts), 0)
        end = await end_of(group.client)
        alone = await acts.codes()
        assert {act for act in KEPT if alone[act] == 0} == set(), "answered with success, and there is no slave"
        if least == 1:
            assert (alone["send"], alone["WAIT=false"]) == (ResponseCode.SLAVE_NOT_AVAILABLE, 0)
        else:
            assert set(alone.values()) == {ResponseCode.SYSTEM_ERROR}, "something was taken without replicas"
            assert await end_of(group.client) == end, "something was stored without replicas"

    test_replication.run(scenario, broker_role="SYNC_MASTER", min_in_sync_replicas=least)


async def _slaves(acts: Acts) -> int:
    """Whether a plain send is answered with success: a slave is there."""
    return int(await acts.send("true") == 0)


@pytest.mark.parametrize("least", [1, 2])
def test_a_sync_master_answers_success_for_what_its_slave_has(least: int) -> None:
    ask_a_sync_master(least)


# ---- an elected group


def ask_a_master_that_loses_its_slaves() -> None:
    """The slaves of an elected group freeze, then die: the master is asked everything each time."""

    async def scenario(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = test_failover_group.Group(world, names, CoordinatorFaults(), sync=True)
        for member in group.members.values():
            broker = replace(member.settings.broker, recall_message_enable=True)
            member.settings = replace(member.settings, broker=broker)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(1)
        nodes = {number: member.node for number, member in group.members.items()}
        master = nodes.pop(state.master)
        acts = Acts(world.node("producer"), Address(master.host, PORT))
        await acts.prepare(3)
        assert set((await acts.codes()).values()) == {0}
        for node in nodes.values():
            node.freeze()
        frozen = await acts.codes()
        assert {act for act in (*KEPT, "send") if frozen[act] == 0} == set(), "answered, and no replica has it"
        for node in nodes.values():
            await node.crash()
        await _until_refused(acts)
        client = Client(world.node("client of the end"), Address(master.host, PORT))
        end = await end_of(client)
        alone = await acts.codes()
        assert set(alone.values()) == {ResponseCode.SYSTEM_ERROR}, "something was taken without replicas"
        assert await end_of(client) == end, "something was stored without replicas"

    World(6).run(scenario)


async def _until_refused(acts: Acts) -> None:
    async def is_taken() -> int:
        return int(await acts.send("true") in SEND_CODES)

    await eventually(is_taken, 0)


def test_a_master_without_its_slaves_takes_nothing() -> None:
    ask_a_master_that_loses_its_slaves()


# ---- which broker is asked


WRITES: tuple[tuple[Request[Any], bytes], ...] = (
    (replace(test_kept_answers.MAKE, topic="made-at-the-slave"), b""),
    (UpdateAndCreateTopicList(), b'{"topicConfigList":[{"topicName":"listed-at-the-slave"}]}'),
    (DeleteTopicInBroker(topic="T"), b""),
    (CleanUnusedTopic(), b""),
    (UpdateAndCreateSubscriptionGroup(), b'{"groupName":"made-at-the-slave"}'),
    (UpdateAndCreateSubscriptionGroupList(), b'{"groupConfigList":[{"groupName":"made-at-the-slave"}]}'),
    (DeleteSubscriptionGroup(group_name="g", clean_offset=True), b""),
    (UpdateAndGetGroupForbidden(group="g", topic="T", readable=False), b""),
    (InvokeBrokerToResetOffset(topic="T", group="g", timestamp=-1, is_force=True), b""),
    (CloneGroupOffset(src_group="g", dest_group="h", topic="T", offline=True), b""),
)


def change_tables_at_a_slave() -> None:
    """An operator asks a slave of an elected group for every change of a table; then the slave leads."""

    async def scenario(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = test_failover_group.Group(world, names, CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(30)
        nodes = {number: member.node for number, member in group.members.items()}
        master = nodes.pop(state.master)
        await Client(world.node("operator"), Address(master.host, PORT)).ask(
            UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}'
        )
        await asyncio.sleep(15)
        for node in nodes.values():
            client = Client(world.node(f"operator at {node.name}"), Address(node.host, PORT))
            for request, body in WRITES:
                with pytest.raises(RequestRefused, match="is a slave"):
                    await client.ask(request, body)
        await master.crash()
        await group.send_until(1)
        await master.restart()
        found = set(await group.stored())
        assert [body for body in group.acked if body not in found] == [], "a slave has deleted acknowledged messages"

    World(7).run(scenario)


def test_a_slave_takes_no_change_of_a_table() -> None:
    change_tables_at_a_slave()


def test_a_slave_of_a_static_group_takes_no_change_of_a_table() -> None:
    async def scenario(_world: World, group: test_replication.Group) -> None:
        await group.send(10)
        await group.slave.start()
        await group.copied()

        async def is_readable() -> int:
            return await test_replication.readable(group.reader) > 0

        await test_replication.eventually(is_readable, 1)
        for request, body in WRITES:
            with pytest.raises(RequestRefused, match="is a slave"):
                await group.reader.ask(request, body)
        assert await group.reader.stored(), "the slave has deleted its queues"
        await group.reader.ask(UpdateBrokerConfig(), b"recallMessageEnable=true")

    test_replication.run(scenario)


def test_a_slave_refuses_a_request_that_the_table_does_not_know() -> None:
    handlers = Handlers()
    handlers.on(GetTopicConfig, lambda _request, _call: None)
    handlers.on(PutKvConfig, lambda _request, _call: None)
    left = of_slave(handlers, is_elected=False)
    assert left.by_code[RequestCode.GET_TOPIC_CONFIG] is handlers.by_code[RequestCode.GET_TOPIC_CONFIG]
    with pytest.raises(Refused, match="is a slave: PUT_KV_CONFIG"):
        left.by_code[RequestCode.PUT_KV_CONFIG](None, cast("Any", None))


def test_a_broker_does_not_start_with_a_request_whose_success_means_nothing_known() -> None:
    with pytest.raises(ValueError, match="PUT_KV_CONFIG: PROMISES does not say"):
        check_promises([RequestCode.GET_TOPIC_CONFIG, RequestCode.PUT_KV_CONFIG])


# ---- a master whose lease is over


class Asker:
    """Asks a master again and again for what is only admitted and for changes of tables."""

    def __init__(self, world: World, broker: Address) -> None:
        self._now_s = world.loop.time
        self._client = Client(world.node("asker"), broker)
        self._number = 0
        self.last: dict[str, float] = {}
        """The time of the last success of each kind of request."""
        self.refused: dict[str, float] = {}
        """The time of the last refusal or missing answer of each kind of request."""

    async def ask(self, place: int) -> None:
        """Ask for one of each."""
        self._number += 1
        number = self._number
        commit = UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=number % 2)
        asked: dict[str, tuple[Request[Any], bytes]] = {
            "commit": (commit, b""),
            "send-back": (ConsumerSendMsgBack(offset=place, group="g", delay_level=3, max_reconsume_times=16), b""),
            "WAIT=false": (a_send(properties=f"{UNIQUE}WAIT\x01false\x02"), b"admitted"),
            "new topic": (replace(test_kept_answers.MAKE, topic=f"new-{number}"), b""),
            "deleted topic": (DeleteTopicInBroker(topic=f"new-{number - 1}"), b""),
            "new group": (UpdateAndCreateSubscriptionGroup(), b'{"groupName":"new-%d"}' % number),
            "deleted group": (DeleteSubscriptionGroup(group_name=f"new-{number - 1}"), b""),
            "reset": (InvokeBrokerToResetOffset(topic="T", group="g", timestamp=-1, is_force=True), b""),
        }
        await asyncio.gather(*(self._ask(kind, request, body) for kind, (request, body) in asked.items()))

    async def _ask(self, kind: str, request: Request[Any], body: bytes) -> None:
        try:
            await self._client.ask(request, body, timeout_ms=900)
        except FireArrowError:
            self.refused[kind] = self._now_s()
        else:
            self.last[kind] = self._now_s()


async def _asked_group(world: World) -> tuple[test_failover_group.Group, Node, Asker, int]:
    """Return a group of three, its master, an asker that was answered everything, and the place of a message."""
    names = await Names(world.node("names")).start()
    group = test_failover_group.Group(world, names, CoordinatorFaults(), sync=True)
    group.start()
    state = await group.until_in_sync(3)
    await group.send_until(1)
    master = group.members[state.master].node
    client = Client(world.node("operator"), Address(master.host, PORT))
    await client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}')
    place = int((await client.send(body=b"sent back")).answer.msg_id[-16:], 16)
    asker = Asker(world, Address(master.host, PORT))
    await asker.ask(place)
    assert not asker.refused
    return group, master, asker, place


def cut_a_master_off() -> None:
    """A master is cut off from its slaves and from the coordinator, and clients still reach it."""

    async def scenario(world: World) -> None:
        group, master, asker, place = await _asked_group(world)
        slaves = [member.node.name for member in group.members.values() if member.node is not master]
        number = next(one for one, member in group.members.items() if member.node is master)
        world.network.partition([master.name], slaves)
        group.coordinator.cut(number)
        began = world.loop.time()
        while world.loop.time() < began + 3 * LEASE_S:
            await asker.ask(place)
            await asyncio.sleep(0.2)
        late = {kind: at - began for kind, at in asker.last.items() if at - began > LEASE_S + 0.2}
        assert late == {}, "a master whose lease is over answered with success"

    World(8).run(scenario)


def test_a_master_whose_lease_is_over_answers_nothing_with_success() -> None:
    cut_a_master_off()


def use_a_master_without_a_lease() -> None:
    """Clients send one-way and commit with their pulls at a master whose lease is over."""

    async def scenario(world: World) -> None:
        group, master, _asker, _place = await _asked_group(world)
        client = Client(world.node("late client"), Address(master.host, PORT))
        asked = QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0, set_zero_if_not_found=True)
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=1))
        await client.caller.tell(client.broker, a_send(), b"one-way")
        await client.pull(commit=2)
        assert (await client.ask(asked)).answer.offset == 2
        end, slaves = await end_of(client), [one.node.name for one in group.members.values() if one.node is not master]
        world.network.partition([master.name], slaves)
        group.coordinator.cut(*group.members)
        await asyncio.sleep(LEASE_S + 0.2)
        await client.caller.tell(client.broker, a_send(), b"one-way")
        assert (await client.pull(commit=1)).code == 0, "a pull is not served for the sake of its commit"
        assert (await client.ask(asked)).answer.offset == 2, "a pull has committed an offset without a lease"
        assert await end_of(client) == end, "a one-way message is taken without a lease"

    World(8).run(scenario)


def test_a_master_whose_lease_is_over_takes_no_one_way_message_and_no_commit_of_a_pull() -> None:
    use_a_master_without_a_lease()


def test_offsets_are_cloned_only_when_their_lane_takes_the_request() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send()
        for group in ("g", "copy"):
            await client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"%s"}' % group.encode())
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=1))
        asked = QueryConsumerOffset(consumer_group="copy", topic="T", queue_id=0, set_zero_if_not_found=True)
        clone = CloneGroupOffset(src_group="g", dest_group="copy", topic="T", offline=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Lane, "refusal", lambda _self, _peer, _owner: "too many wait")
            with pytest.raises(RequestRefused, match="too many wait"):
                await client.ask(clone)
        assert (await client.ask(asked)).answer.offset == 0, "a request that was refused has changed offsets"
        await client.ask(clone)
        assert (await client.ask(asked)).answer.offset == 1

    simulate(scenario)


def test_an_outage_of_the_coordinator_alone_stops_nothing() -> None:
    async def scenario(world: World) -> None:
        group, _master, asker, place = await _asked_group(world)
        group.coordinator.cut(*group.members)
        began = world.loop.time()
        while world.loop.time() < began + 10 * LEASE_S:
            await asker.ask(place)
            await asyncio.sleep(2 * LEASE_S)  # idle for longer than a lease
        assert asker.refused == {}

    World(9).run(scenario)


def test_the_death_of_a_slave_stops_no_commit_for_longer_than_the_set_takes_to_shrink() -> None:
    async def scenario(world: World) -> None:
        group, master, asker, place = await _asked_group(world)
        slave = next(member.node for member in group.members.values() if member.node is not master)
        await slave.crash()
        began = world.loop.time()
        while world.loop.time() < began + 3 * LEASE_S:
            await asker.ask(place)
            await asyncio.sleep(0.1)
        assert asker.refused.get("commit", began) <= began + LEASE_S + 1
        assert asker.last["commit"] > began + 2 * LEASE_S

    World(10).run(scenario)

"""Questions that a broker passes on to clients: silent clients keep nobody else waiting."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow import fastjson
from firearrow.broker.handlers.group import consumer
from firearrow.broker.handlers.group.consumer import ASK_TIMEOUT_MS, MOST_HEADER_BYTES, STATUS_TIMEOUT_MS
from firearrow.broker.lanes import (
    FULL,
    FULL_OF_OWNER,
    MOST_QUESTIONS,
    MOST_QUESTIONS_OF_OWNER,
    PLACES,
    Lanes,
    WaitKind,
)
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData
from firearrow.protocol.bodies.group.offset import GetConsumerStatusBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.push import ConsumeMessageDirectly, GetConsumerRunningInfo
from firearrow.protocol.requests.group.reset import GetConsumerStatusFromClient, InvokeBrokerToGetConsumerStatus
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.test_lanes import Peer, Work, refusal, run, settle
from tests.unit.broker.whole import Client, Simulated, a_send, settings_of, simulate

STATUS = InvokeBrokerToGetConsumerStatus(topic="T", group="g", client_addr=None)
RUNNING = GetConsumerRunningInfo(consumer_group="g", client_id="0")
QUEUE = MessageQueue("T", "broker-a", 0)
MEMBERS = 16
ANSWER_S = 3
PART = 256
"""Limits and bodies are this part of what they are by default."""


class Member(Client):
    """A consumer that counts the questions it is asked, and answers none or all."""

    def __init__(self, node: Node, broker: Simulated, client_id: str, *, is_silent: bool = True) -> None:
        super().__init__(node, broker.address)
        handlers = Handlers()
        handlers.on(GetConsumerRunningInfo, self.running_info)
        handlers.on(GetConsumerStatusFromClient, self.status)
        self.caller = Caller(node.network, handlers=handlers)
        self.client_id = client_id
        self.is_silent = is_silent
        self.asked = 0

    def running_info(self, _request: GetConsumerRunningInfo, call: Call) -> Answer | Later:
        self.asked += 1
        return call.hold() if self.is_silent else Answer(body=b"{}")

    def status(self, _request: GetConsumerStatusFromClient, call: Call) -> Answer | Later:
        self.asked += 1
        said = GetConsumerStatusBody(message_queue_table={QUEUE: int(self.client_id)})
        return call.hold() if self.is_silent else Answer(body=encode_body(said))

    async def join(self, group: str = "g") -> None:
        beat = HeartbeatData(client_id=self.client_id, consumer_data_set=[ConsumerData(group_name=group)])
        await self.ask(HeartBeat(), encode_body(beat))


async def members_of(node: Node, broker: Simulated, *, talkative: int = -1) -> list[Member]:
    """Members of group g, of which one answers if it is named."""
    members = [Member(node, broker, str(number), is_silent=number != talkative) for number in range(MEMBERS)]
    for member in members:
        await member.join()
    return members


async def outcome(asking: Coroutine[Any, Any, Any]) -> str:
    """The outcome of a request, in words."""
    try:
        await asking
    except RequestRefused as refusal:
        return f"{refusal.code} {refusal.remark}"
    except FireArrowError as error:
        return type(error).__name__
    return "answered"


def now() -> float:
    return asyncio.get_running_loop().time()


def send_beside_questions() -> None:
    """Nine connections of one address ask a silent consumer, with bodies, while somebody else sends."""
    settings = settings_of()
    limits = settings.limits
    small = replace(
        limits,
        max_in_flight_bytes=limits.max_in_flight_bytes // PART,
        max_connection_bytes=limits.max_connection_bytes // PART,
    )

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        bad = world.node("bad")
        await Member(bad, broker, "0").join()
        await client.send()
        asking = [Client(bad, broker.address) for _ in range(9)]
        body = bytes(64 * 1024 // PART)
        asks = [asyncio.ensure_future(outcome(one.ask(RUNNING, body, timeout_ms=60_000))) for one in asking * 400]
        for _ in range(20):
            await asyncio.sleep(1)
            said = await outcome(client.ask(a_send(), b"hello", timeout_ms=ANSWER_S * 1000))
            assert said == "answered", f"questions to a silent consumer keep others from being read: {said}"
        said_to_bad = {one.result() for one in asks if one.done()}
        for words in (FULL, FULL_OF_OWNER):
            assert any(words in one for one in said_to_bad), said_to_bad
        for one in asks:
            one.cancel()

    simulate(scenario, replace(settings, limits=small))


def test_questions_to_a_silent_consumer_keep_nobody_from_being_read() -> None:
    send_beside_questions()


def ask_beside_silent_members() -> None:
    """Two addresses ask for the status of a group of silent members; an operator asks another client."""

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        members = await members_of(world.node("silent"), broker)
        good = Member(world.node("good"), broker, "0", is_silent=False)
        await good.join("good")
        nodes = [world.node(name) for name in ("one", "two")]
        asks = [
            asyncio.ensure_future(outcome(Client(node, broker.address).ask(STATUS, timeout_ms=60_000)))
            for node in nodes
            for _ in range(PLACES[WaitKind.CLIENT])
        ]
        await asyncio.sleep(1)
        assert sum(member.asked for member in members) == PLACES[WaitKind.CLIENT] * MEMBERS, (
            "members wait for each other"
        )
        began = now()
        await client.ask(replace(RUNNING, consumer_group="good"), timeout_ms=60_000)
        assert now() - began < STATUS_TIMEOUT_MS / 1000, "a question waits until silent members are asked in turn"
        for one in asks:
            one.cancel()

    simulate(scenario)


def test_silent_members_of_a_group_are_asked_side_by_side() -> None:
    ask_beside_silent_members()


def test_members_that_answer_are_told_of_although_others_are_silent() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        await members_of(world.node("members"), broker, talkative=MEMBERS - 1)
        began = now()
        told = fastjson.decode((await client.ask(STATUS, timeout_ms=60_000)).body, GetConsumerStatusBody)
        assert told.consumer_table == {str(MEMBERS - 1): {QUEUE: MEMBERS - 1}}
        assert now() - began < STATUS_TIMEOUT_MS / 1000 + 1
        one = replace(STATUS, client_addr=str(MEMBERS - 1))
        began = now()
        assert fastjson.decode((await client.ask(one)).body, GetConsumerStatusBody) == told
        assert now() - began < 1, "members are asked that nobody asks for"

    simulate(scenario)


def ask_a_large_group() -> None:
    """A group has more members than are asked at a time, and questions about it take all places that they may have."""

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        members = await members_of(world.node("silent"), broker)
        good = Member(world.node("good"), broker, "0", is_silent=False)
        await good.join("good")
        nodes = [world.node(name) for name in ("one", "two")]
        began = now()
        asks = [
            asyncio.ensure_future(outcome(Client(node, broker.address).ask(STATUS, timeout_ms=60_000)))
            for node in nodes
            for _ in range(PLACES[WaitKind.CLIENT] // 2)
        ]
        await asyncio.sleep(1)
        assert sum(member.asked for member in members) == PLACES[WaitKind.CLIENT] * MEMBERS // 4
        await client.ask(replace(RUNNING, consumer_group="good"), timeout_ms=60_000)
        assert now() - began < STATUS_TIMEOUT_MS / 1000 + 1, "a large group does not give way"
        await asyncio.gather(*asks)
        assert {one.result() for one in asks} == {"answered"}
        assert sum(member.asked for member in members) == PLACES[WaitKind.CLIENT] * MEMBERS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer, "ASKED_AT_ONCE", MEMBERS // 4)
        simulate(scenario)


def test_a_large_group_gives_way_between_its_portions() -> None:
    ask_a_large_group()


def leave_behind_questions() -> None:
    """An operator leaves whose questions wait for a silent consumer; the next one asks from the same address."""

    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        silent = Member(world.node("silent"), broker, "0")
        await silent.join()
        good = Member(world.node("good"), broker, "0", is_silent=False)
        await good.join("good")
        node = world.node("operator")
        leaving = [Client(node, broker.address) for _ in range(2)]
        asks = [asyncio.ensure_future(outcome(one.ask(RUNNING, timeout_ms=60_000))) for one in leaving * MOST_QUESTIONS]
        await asyncio.sleep(1)
        assert silent.asked == PLACES[WaitKind.CLIENT] * 3 // 4
        for one in leaving:
            await one.caller.close()
        await asyncio.gather(*asks)
        next_one = Client(node, broker.address)
        began = now()
        await next_one.ask(replace(RUNNING, consumer_group="good"), timeout_ms=60_000)
        assert now() - began < ASK_TIMEOUT_MS / 5000, "questions of a connection that has ended keep their places"
        assert silent.asked == PLACES[WaitKind.CLIENT] * 3 // 4

    simulate(scenario)


def test_questions_end_with_the_connection_that_asked_them() -> None:
    leave_behind_questions()


def test_a_question_with_a_large_header_is_refused() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        await Member(world.node("silent"), broker, "0").join()
        large = "x" * MOST_HEADER_BYTES
        questions = (
            ConsumeMessageDirectly(consumer_group="g", client_id="0", msg_id="m", topic=large),
            replace(STATUS, topic=large),
            replace(RUNNING, client_id=large),
        )
        for question in questions:
            with pytest.raises(RequestRefused, match="shorten its fields") as caught:
                await client.ask(question)
            assert caught.value.code == ResponseCode.SYSTEM_ERROR

    simulate(scenario)


# ---- the lane of questions


def test_questions_that_wait_are_bounded_by_connection_and_by_address() -> None:
    async def scenario(lanes: Lanes) -> None:
        work, places = Work(lanes, WaitKind.CLIENT), PLACES[WaitKind.CLIENT]
        greedy = [Peer() for _ in range(5)]
        for number in range(places * 3 // 4):
            work.add(greedy[number % 5], "greedy")
            await asyncio.sleep(0)
        for _ in range(MOST_QUESTIONS):
            assert refusal(lanes, greedy[0], WaitKind.CLIENT) is None
            work.add(greedy[0], "greedy")
        assert refusal(lanes, greedy[0], WaitKind.CLIENT) == FULL
        while lanes.waiting(WaitKind.CLIENT) < MOST_QUESTIONS_OF_OWNER:
            assert refusal(lanes, greedy[1], WaitKind.CLIENT) is None
            work.add(greedy[1], "greedy")
        for peer in (greedy[2], Peer()):
            assert refusal(lanes, peer, WaitKind.CLIENT) == FULL_OF_OWNER
        other = Peer("10.0.0.2")
        work.add(other, "other")
        await settle()
        assert (work.begun[-1], other.answers) == ("other", [])
        lanes.disconnected(greedy[0])
        assert refusal(lanes, greedy[2], WaitKind.CLIENT) is None

    run(scenario)


def test_questions_that_are_asked_end_with_their_connection_alone() -> None:
    async def scenario(lanes: Lanes) -> None:
        questions, reads = Work(lanes, WaitKind.CLIENT), Work(lanes)
        gone, stays = Peer(), Peer()
        for peer in (gone, stays):
            questions.add(peer, "asked")
            reads.add(peer, "read")
        await settle()
        questions.add(gone, "not begun")
        gone.is_open = False
        lanes.disconnected(gone)
        assert lanes.lane(WaitKind.CLIENT).running == 3
        await settle()
        assert lanes.lane(WaitKind.CLIENT).running == 1, "a question keeps its place although its connection has ended"
        assert lanes.lane(WaitKind.DEVICE).running == 2
        assert questions.begun == ["asked", "asked"]
        assert not stays.answers
        questions.may_end.set()
        reads.may_end.set()
        await settle()
        assert stays.answers == [0, 0]
        questions.add(stays, "later")
        await settle()
        assert stays.answers == [0, 0, 0], "the lanes have stopped"
        assert not lanes._at_work

    run(scenario)


def test_a_question_that_gave_way_ends_with_its_connection() -> None:
    async def scenario(lanes: Lanes) -> None:
        work, lane = Work(lanes, WaitKind.CLIENT), lanes.lane(WaitKind.CLIENT)
        gone, goes_on = Peer(), asyncio.Event()
        ended: list[str] = []

        async def question() -> None:
            try:
                await goes_on.wait()
                await lanes.give_way()
            finally:
                ended.append("question")

        lanes.add(gone.later(), WaitKind.CLIENT, question())
        for number in range(2 * PLACES[WaitKind.CLIENT]):
            work.add(Peer(f"10.0.1.{number}"), "other")
        await settle()
        goes_on.set()
        await settle()
        assert len(lane) == PLACES[WaitKind.CLIENT] + 1, "it waits for a place again"
        gone.is_open = False
        lanes.disconnected(gone)
        work.may_end.set()
        for _ in range(20):
            await settle()
        assert ended == ["question"]
        assert (len(lane), lane.running) == (0, 0)
        assert not lanes._at_work

    run(scenario)


def test_a_broker_that_stops_while_a_question_ends_begins_no_other() -> None:
    begun: list[str] = []

    async def scenario(lanes: Lanes) -> None:
        work, gone = Work(lanes, WaitKind.CLIENT), Peer()
        work.begun = begun
        work.add(gone, "asked")
        for number in range(2 * PLACES[WaitKind.CLIENT]):
            work.add(Peer(f"10.0.1.{number}"), "other")
        await settle()
        gone.is_open = False
        lanes.disconnected(gone)

    run(scenario)
    assert len(begun) == PLACES[WaitKind.CLIENT]

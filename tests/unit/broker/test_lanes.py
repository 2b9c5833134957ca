"""Lanes: who runs next, who is dropped, and that every request is answered."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from firearrow.broker import lanes as lanes_module
from firearrow.broker.lanes import (
    DROPPED_AT_ONCE,
    FULL_OF_ALL,
    FULL_OF_OWNER,
    MOST_CHANGES,
    MOST_OF_CONNECTION,
    MOST_OF_OWNER,
    NEVER_DROPPED,
    PLACES,
    Lanes,
    WaitKind,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import ONEWAY_FLAG, Heading
from firearrow.protocol.connection import RequestArrived
from firearrow.protocol.conversation import Fields
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.query import QueryMessage
from firearrow.remoting.handlers import OWED_OVERHEAD_BYTES, Answer, Call, Later
from firearrow.runtime.network import Address


class Peer:
    """A connection that keeps the answers it is sent."""

    is_forwarded = False
    certificate_name = ""
    is_writable = True

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.address = Address(host, 1)
        self.is_open = True
        self.slots: dict[object, Any] = {}
        self.answers: list[int] = []
        self.owed = 0

    def later(self, flag: int = 0) -> Later:
        return Later(self, RequestArrived(Heading(0, flag, 0), b"", 0, b""), 0)

    def pay(self, _asked: RequestArrived, answer: Answer, _size: int) -> None:
        self.answers.append(answer.code)

    def explain(self, _asked: RequestArrived, error: Exception) -> Answer:
        return Answer(code=error.code if isinstance(error, Refused) else ResponseCode.SYSTEM_ERROR)

    def prove(self) -> None:
        raise NotImplementedError

    def stay_stranger(self) -> None:
        raise NotImplementedError

    def owe(self, size: int) -> None:
        self.owed += size

    def owe_no_more(self, size: int) -> None:
        self.owed -= size

    def promise(self, size: int) -> None:
        raise NotImplementedError

    def pay_many(self, encoding: int, owed: Sequence[tuple[int, Fields]], answer: Answer, size: int) -> None:
        raise NotImplementedError

    def push(self, request: Any, body: Any = b"") -> None:
        raise NotImplementedError

    async def call(self, request: Any, body: Any = b"", **_: Any) -> Any:
        raise NotImplementedError

    def begin(self, request: Any, body: Any, on_outcome: Any, **_: Any) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def run(scenario: Callable[[Lanes], Coroutine[Any, Any, None]]) -> None:
    async def serve() -> None:
        lanes = Lanes()
        running = asyncio.create_task(lanes.run())
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await scenario(lanes)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(serve())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Work:
    """Jobs that write down when they begin, and end when they are told to."""

    def __init__(self, lanes: Lanes, wait: WaitKind = WaitKind.DEVICE) -> None:
        self._lanes = lanes
        self._wait = wait
        self.begun: list[str] = []
        self.may_end = asyncio.Event()

    def add(self, peer: Peer, name: str, flag: int = 0) -> None:
        self._lanes.add(peer.later(flag), self._wait, self._job(name))

    async def _job(self, name: str) -> None:
        self.begun.append(name)
        await self.may_end.wait()


def test_one_connection_does_not_take_all_places() -> None:
    async def scenario(lanes: Lanes) -> None:
        work, places = Work(lanes), PLACES[WaitKind.DEVICE]
        greedy, modest = Peer(), Peer()
        for _ in range(10 * places):
            work.add(greedy, "greedy")
        await settle()
        assert work.begun == ["greedy"] * (places // 2)
        work.add(modest, "modest")
        await settle()
        assert work.begun[-1] == "modest"
        work.may_end.set()
        await settle()
        assert modest.answers == [0]

    run(scenario)


def test_one_address_does_not_take_all_places_with_many_connections() -> None:
    async def scenario(lanes: Lanes) -> None:
        work, places = Work(lanes), PLACES[WaitKind.DEVICE]
        for _ in range(10 * places):
            work.add(Peer(), "greedy")
        await settle()
        assert len(work.begun) == places * 3 // 4
        work.add(Peer("10.0.0.2"), "other")
        await settle()
        assert work.begun[-1] == "other"

    run(scenario)


def test_users_take_turns_and_then_their_connections() -> None:
    async def scenario(lanes: Lanes) -> None:
        users: dict[object, str] = {}
        lanes.user_of = users.get
        work, blocker = Work(lanes, WaitKind.INDEX), Work(lanes, WaitKind.INDEX)
        for _ in range(PLACES[WaitKind.INDEX]):  # all places are taken while the others line up
            blocker.add(Peer(f"10.1.0.{len(blocker.begun) + _}"), "blocker")
        await settle()
        first, second, third = Peer(), Peer(), Peer()
        users |= {first: "ann", second: "ann", third: "bob"}
        for name, peer in (("first", first), ("second", second), ("third", third)):
            for _ in range(3):
                work.add(peer, name)
        work.may_end.set()
        blocker.may_end.set()
        await settle()
        assert work.begun == ["first", "third", "second", "third", "first", "third", "second", "first", "second"]

    run(scenario)


def test_kinds_of_wait_do_not_share_places() -> None:
    async def scenario(lanes: Lanes) -> None:
        for wait in WaitKind:
            work = Work(lanes, wait)
            for _ in range(2 * PLACES[wait]):
                work.add(Peer(), "waits")
            await settle()
            assert work.begun

    run(scenario)


def test_long_work_takes_turns_by_connection() -> None:
    async def scenario(lanes: Lanes) -> None:
        pieces: list[str] = []

        async def long(name: str, count: int) -> None:
            for _ in range(count):
                pieces.append(name)
                await lanes.give_way()

        greedy, modest = Peer(), Peer()
        for number in range(100):
            lanes.add(greedy.later(), WaitKind.INDEX, long(f"greedy {number}", 1000))
        await settle()
        lanes.add(modest.later(), WaitKind.INDEX, long("modest", 3))
        for _ in range(20):
            await asyncio.sleep(0)
        assert modest.answers == [0]
        alternating = pieces[pieces.index("modest") :][:5]
        assert alternating == ["modest", "greedy 0", "modest", "greedy 0", "modest"]
        assert set(pieces) == {"greedy 0", "modest"}, "one job of a connection is under way"

    run(scenario)


def test_jobs_of_an_ended_connection_are_dropped() -> None:
    async def scenario(lanes: Lanes) -> None:
        begun = 0

        async def endless() -> None:
            nonlocal begun
            begun += 1
            while True:
                await lanes.give_way()

        gone, other = Peer(), Peer()
        for _ in range(1000):
            lanes.add(gone.later(), WaitKind.INDEX, endless())
        await settle()
        assert begun == 1
        gone.is_open = False
        lanes.disconnected(gone)
        lanes.add(other.later(), WaitKind.INDEX, _nothing())
        await settle()
        assert other.answers == [0]
        assert begun == 1
        assert not lanes.waiting(WaitKind.INDEX)
        assert not lanes._at_work

    run(scenario)


@pytest.mark.parametrize("wait", [WaitKind.NAMED, WaitKind.SYNC, WaitKind.CHANGE])
def test_changes_are_completed_after_their_connection_has_ended(wait: WaitKind) -> None:
    async def scenario(lanes: Lanes) -> None:
        work = Work(lanes, wait)
        gone, count = Peer(), 2 * PLACES[wait]
        for _ in range(count):
            work.add(gone, "change")
        gone.is_open = False
        lanes.disconnected(gone)
        work.may_end.set()
        for _ in range(20):
            await settle()
        assert len(work.begun) == count

    run(scenario)


def test_a_connection_with_too_many_jobs_is_refused() -> None:
    async def scenario(lanes: Lanes) -> None:
        work, greedy, modest = Work(lanes), Peer(), Peer()
        for _ in range(MOST_OF_CONNECTION + PLACES[WaitKind.DEVICE] // 2):
            work.add(greedy, "greedy")
            await asyncio.sleep(0)
        assert not greedy.answers
        work.add(greedy, "greedy")
        work.add(modest, "modest")
        assert greedy.answers == [ResponseCode.SYSTEM_BUSY]
        assert not modest.answers
        lanes.check(modest, WaitKind.DEVICE)
        with pytest.raises(Refused):
            lanes.check(greedy, WaitKind.DEVICE)
        lane, other = lanes.lane(WaitKind.DEVICE), lanes.lane(WaitKind.INDEX)
        assert lane.refused == 2, "those whose work did not begin count too"
        assert len(lane) + lane.running == MOST_OF_CONNECTION + PLACES[WaitKind.DEVICE] // 2 + 1
        assert lane.running > PLACES[WaitKind.DEVICE] // 2
        assert (len(other), other.running, other.refused) == (0, 0, 0)

    run(scenario)


@pytest.mark.parametrize("wait", [WaitKind.NAMED, WaitKind.SYNC, WaitKind.CHANGE])
def test_changes_of_one_address_that_has_left_leave_room_for_others(wait: WaitKind) -> None:
    async def scenario(lanes: Lanes) -> None:
        work = Work(lanes, wait)
        greedy, second = [[Peer(host) for _ in range(5)] for host in ("10.0.0.2", "10.0.0.3")]
        for number in range(MOST_CHANGES + 1000):
            work.add(greedy[number % 5], "greedy")
        for peer in greedy:
            peer.is_open = False
            lanes.disconnected(peer)
        assert lanes.waiting(wait) == MOST_OF_OWNER
        assert refusal(lanes, Peer("10.0.0.2"), wait) == FULL_OF_OWNER
        assert refusal(lanes, Peer(), wait) is None
        for number in range(MOST_OF_OWNER):
            work.add(second[number % 5], "second")
        assert lanes.waiting(wait) == MOST_CHANGES
        assert refusal(lanes, Peer(), wait) == FULL_OF_ALL

    run(scenario)


@pytest.mark.parametrize("wait", WaitKind)
def test_a_body_that_no_job_needs_counts_no_more(wait: WaitKind) -> None:
    async def scenario(lanes: Lanes) -> None:
        peer, body, texts = Peer(), bytes(100_000), ("t" * 1000, "k" * 2000)
        request = QueryMessage(topic=texts[0], key=texts[1], max_num=1, begin_timestamp=0, end_timestamp=1)
        call = Call(RequestArrived(Heading(12, 0, 7, request=request), body, 0, bytes(5000)), peer)
        goes_on = asyncio.Event()
        later = lanes.do(call, wait, _wait_for(goes_on))
        if wait in NEVER_DROPPED:
            assert peer.owed == len(body) + 5000 + OWED_OVERHEAD_BYTES
        else:
            kept = sum(map(len, texts))
            assert kept < peer.owed - OWED_OVERHEAD_BYTES < kept + 200, "a request counts whose body nobody needs"
            assert not later._asked.body
            assert not later._asked.header
        assert (later._asked.heading.code, later._asked.heading.opaque) == (12, 7)
        assert later._size == peer.owed
        goes_on.set()
        await settle()
        assert peer.answers == [0]

    run(scenario)


def refusal(lanes: Lanes, peer: Peer, wait: WaitKind) -> str | None:
    try:
        lanes.check(peer, wait)
    except Refused as refused:
        return refused.remark
    return None


def test_a_burst_of_one_way_ends_is_not_refused() -> None:
    async def scenario(lanes: Lanes) -> None:
        work, producer = Work(lanes, WaitKind.NAMED), Peer()
        work.may_end.set()
        for _ in range(2 * MOST_OF_CONNECTION):
            work.add(producer, "end")
        while lanes.waiting(WaitKind.NAMED):
            await settle()
        assert producer.answers == [0] * (2 * MOST_OF_CONNECTION)

    run(scenario)


def test_refused_one_way_ends_are_counted_and_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(lanes: Lanes) -> None:
        work, producer = Work(lanes, WaitKind.NAMED), Peer("10.0.0.9")
        lane = lanes.lane(WaitKind.NAMED)
        while len(lane) < MOST_OF_OWNER:
            work.add(producer, "end", ONEWAY_FLAG)
        assert not lane.refused
        for _ in range(7):
            work.add(producer, "end", ONEWAY_FLAG)
        work.add(producer, "end that waits for its answer")
        assert (lane.refused, lane.refused_oneway, len(lane)) == (8, 7, MOST_OF_OWNER)
        (line,) = [record for record in caplog.records if record.name == "firearrow.broker.lanes"]
        assert "1 one-way requests were refused, the last of 10.0.0.9" in line.getMessage()
        assert "Let producers end fewer transactions at once" in line.getMessage()

    run(scenario)


def test_a_job_that_something_else_cancels_fails_alone() -> None:
    async def scenario(lanes: Lanes) -> None:
        unlucky, other = Peer(), Peer()
        lanes.add(unlucky.later(), WaitKind.DEVICE, _waits_for_cancelled())
        await settle()
        assert unlucky.answers == [ResponseCode.SYSTEM_ERROR]
        lanes.add(other.later(), WaitKind.CHANGE, _nothing())
        await settle()
        assert other.answers == [0]
        assert not lanes._at_work

    run(scenario)


def test_every_request_is_answered_when_the_broker_stops() -> None:
    peers = [Peer() for _ in range(50)]

    async def scenario(lanes: Lanes) -> None:
        work = Work(lanes, WaitKind.INDEX)
        for peer in peers:
            work.add(peer, "waits")
        lanes.add(peers[0].later(), WaitKind.CLIENT, _failing())
        await settle()

    run(scenario)
    assert peers[0].answers == [ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR]
    assert all(peer.answers == [ResponseCode.SYSTEM_ERROR] for peer in peers[1:])


def test_jobs_are_dropped_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(lanes: Lanes) -> None:
        work, gone = Work(lanes), Peer()
        for _ in range(MOST_OF_CONNECTION):
            work.add(gone, "dropped")
        await settle()
        closed = 0

        def refuse(_later: Later, job: Any) -> None:
            nonlocal closed
            closed += 1
            job.close()

        monkeypatch.setattr(lanes_module, "_refuse", refuse)
        lanes.disconnected(gone)
        assert closed == DROPPED_AT_ONCE
        for _ in range(MOST_OF_CONNECTION // DROPPED_AT_ONCE):
            await asyncio.sleep(0)
        assert closed == MOST_OF_CONNECTION - PLACES[WaitKind.DEVICE] // 2

    run(scenario)


async def _nothing() -> None:
    return None


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def _waits_for_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def _failing() -> None:
    raise Refused(ResponseCode.NO_PERMISSION, "no")

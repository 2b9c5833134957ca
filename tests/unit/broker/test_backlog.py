"""Pulls of backlogs let the sends of their turn go first; nobody else waits, and a failure stays its own."""

import asyncio
from typing import Any

import pytest

from firearrow.broker.pull.backlog import MOST_IN_A_TURN, BacklogLine
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.errors import DiskError, RequestRefused
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.record.decode import decode_all
from firearrow.remoting.handlers import Answer, Call, Later
from firearrow.runtime.network import Address
from firearrow.runtime.turn import NS_A_BYTE, Share, TurnBudgets
from firearrow.store.placement import WRITTEN
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import COMMIT, SimBroker, SimClient, simulate
from tests.unit.broker.test_shares import Cpu, taken_ms, watched

FAR = 100
"""Messages that are more than one answer."""


def fill(broker: SimBroker, queues: int = 1) -> None:
    for number in range(FAR * queues):
        broker.put(b"x" * 1000, queue_id=number % queues)


class Order:
    """Remembers what happened first."""

    def __init__(self, broker: SimBroker) -> None:
        self.seen: list[str] = []
        self._broker = broker
        pulls: Any = broker.consuming.pulls
        hand_out = pulls._backlogs._hand_out

        def noting(*arguments: Any) -> Any:
            self.seen.append("pull")
            return hand_out(*arguments)

        pulls._backlogs._hand_out = noting

    def send(self) -> None:
        place = self._broker.put(b"new", queue_id=7)
        self._broker.store.log.on_reached(place.end, WRITTEN, lambda _error: self.seen.append("send"))


def test_sends_of_a_turn_are_answered_before_pulls_of_a_backlog() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        fill(broker)
        order = Order(broker)
        order.send()
        reply = await client.pull(0)
        assert len(list(decode_all(reply.body))) == 32
        assert order.seen == ["send", "pull"]

    simulate(scenario)


def test_nobody_waits_without_sends_nor_at_the_end_of_a_queue() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        fill(broker)
        order = Order(broker)
        await client.pull(0)
        await client.pull(32)
        assert order.seen == ["pull"]  # the first saw what was filled in just before
        broker.put(b"new")
        await client.pull(FAR - 10)
        assert order.seen == ["pull"]

    simulate(scenario)


def test_a_bound_of_zero_lets_nobody_wait() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        fill(broker)
        order = Order(broker)
        order.send()
        await client.pull(0)
        assert "pull" not in order.seen

    simulate(scenario, pulls=PullConfig(max_transfer_bytes_beside_sends=0))


def test_many_readers_get_everything_beside_sends() -> None:
    queues = 4

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        fill(broker, queues)
        done = 0

        async def read(queue_id: int) -> list[int]:
            nonlocal done
            found: list[int] = []
            while len(found) < FAR:
                reply = await client.pull(len(found), queue_id=queue_id)
                found += [message.queue_offset for message in decode_all(reply.body)]
            done += 1
            return found

        readers = [asyncio.create_task(read(queue_id)) for queue_id in range(queues)]
        while done < queues:
            broker.put(b"y", queue_id=queues)
            await asyncio.sleep(0.0001)
        assert [await reader for reader in readers] == [list(range(FAR))] * queues

    simulate(scenario)


def test_what_a_waiting_pull_commits_is_not_late() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        fill(broker)
        pull = asyncio.create_task(client.pull(40, flags=COMMIT, commit=7))
        update = UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=9)
        await asyncio.gather(pull, client.ask(update))
        reply = await client.ask(QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0))
        assert reply.answer.offset == 9

    simulate(scenario)


def test_a_pull_that_fails_is_refused_and_the_next_is_served() -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        world.expected = (DiskError,)
        await client.heartbeat()
        fill(broker)
        pulls: Any = broker.consuming.pulls
        hand_out = pulls._backlogs._hand_out

        def failing(admitted: Any, call: Any) -> Any:
            if admitted.request.queue_offset == 0:
                raise DiskError("gone", 5)
            return hand_out(admitted, call)

        pulls._backlogs._hand_out = failing
        broken, good = await asyncio.gather(client.pull(0), client.pull(32), return_exceptions=True)
        assert isinstance(broken, RequestRefused)
        assert broken.code == ResponseCode.SYSTEM_ERROR
        assert not isinstance(good, BaseException)
        assert len(list(decode_all(good.body))) == 32

    simulate(scenario)


class Log:
    """A log without messages, whose write takes 7 ms of CPU."""

    tail = 0

    def __init__(self, cpu: Cpu | None = None) -> None:
        self._cpu = cpu or Cpu()

    def write_pending(self) -> None:
        """Take CPU time."""
        self._cpu.work(7)


def a_line(cpu: Cpu, least: int, pulls: list[int]) -> BacklogLine[int]:
    """A line in which pulls wait, by their numbers."""
    budgets, most_ns = TurnBudgets(cpu.read), MOST_IN_A_TURN * NS_A_BYTE
    share = budgets.share(Share.PULL, most_ns, most_ns)
    line = BacklogLine[int](budgets, share, Log(cpu), lambda _pull, _call: Answer(), least)
    peer: Any = Asker()
    for pull in pulls:
        line.add(pull, Call(peer, peer, Later(peer, peer, 0)))
    return line


class Asker:
    """A connection, and what it asks."""

    address = Address("10.0.0.1", 1)
    is_open = True

    def pay(self, *_: object) -> None:
        """Take an answer."""


def test_pulls_that_wait_are_served_though_nobody_is_to_wait_any_more() -> None:
    async def main() -> None:
        line = a_line(Cpu(), 1, list(range(20)))
        line.least = 0
        for _ in range(3):
            await asyncio.sleep(0)
        assert not len(line)

    asyncio.run(main())


def test_the_write_ahead_of_a_line_is_charged_to_writes() -> None:
    async def main(cpu: Cpu) -> None:
        line = a_line(cpu, 1, [0])
        for _ in range(3):
            await asyncio.sleep(0)
        assert not len(line)

    turn = watched(main)
    assert taken_ms(turn, Share.WRITE) == 7
    assert taken_ms(turn, Share.PULL) == 0


def test_a_turn_hands_out_so_much_also_without_sends() -> None:
    async def main() -> None:
        budgets = TurnBudgets(lambda: 0)
        most_ns = MOST_IN_A_TURN * NS_A_BYTE
        pulls = budgets.share(Share.PULL, most_ns, most_ns)
        line = BacklogLine[int](budgets, pulls, Log(), lambda _pull, _call: Answer(), least=1)
        line.handed(MOST_IN_A_TURN - 1)
        assert not line.is_full
        line.handed(1)
        assert line.is_full
        await asyncio.sleep(0)
        assert not line.is_full
        without = BacklogLine[int](budgets, pulls, Log(), lambda _pull, _call: Answer(), least=0)
        without.handed(MOST_IN_A_TURN)
        assert not without.is_full

    asyncio.run(main())


def test_a_pull_waits_for_a_full_turn_unless_it_is_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[int] = []
    monkeypatch.setattr(BacklogLine, "handed", lambda _self, size: handed.append(size))

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.put(b"x" * 1000)
        await broker.store.reached(broker.store.log.tail, WRITTEN)
        order = Order(broker)
        await client.pull(0)
        assert order.seen == []
        assert len(handed) == 1
        assert handed[0] > 1000
        with monkeypatch.context() as patch:
            patch.setattr(BacklogLine, "is_full", True)
            await client.pull(0)
            assert order.seen == ["pull"]
            await client.pull(1, flags=0)
            assert order.seen == ["pull"]

    simulate(scenario)

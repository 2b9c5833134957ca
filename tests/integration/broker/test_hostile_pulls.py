"""Clients that ask for much and read nothing, or wait for ever, beside others: at a real broker, on both loops."""

import asyncio
import errno
import gc
import os
import time
from collections.abc import Callable
from inspect import unwrap
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.pull.long_poll import ParkedPulls
from firearrow.client import Producer, PullConsumer
from firearrow.errors import DiskError
from firearrow.model import Message, MessageQueue
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.requests.group.offset import QueryConsumerOffset
from firearrow.remoting import connection
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.handlers import Call
from firearrow.remoting.room import MOST_IN_A_TURN
from firearrow.runtime.turn import ShareBudget
from firearrow.store.store import Store
from firearrow.testing import Cluster
from tests.integration.broker.conftest import Scenario
from tests.integration.broker.raw import Line, a_pull

pytestmark = pytest.mark.real

MIB = 1 << 20
LARGE: dict[str, Any] = {"max_msg_nums": 1000, "max_msg_bytes": 1 << 30, "large": True}
PIPELINED = 150
HERD = 2000
MANY = 20_000


async def until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.005)


def connections() -> list[ConnectionDriver]:
    """The open ones of this process, at either end."""
    return [one for one in gc.get_objects() if type(one) is ConnectionDriver and one.is_open]


async def waiting_pulls() -> ParkedPulls[Any]:
    """The waiting pulls of the broker that is connected to."""
    found: list[ParkedPulls[Any]] = []

    def look() -> bool:
        pulls = [one._by_code.get(RequestCode.PULL_MESSAGE) for one in connections()]
        found[:] = [unwrap(one).__self__.parked for one in pulls if one is not None]
        return bool(found)

    await until(look, "somebody is connected")
    return found[0]


async def fill(cluster: Cluster, megabytes: int) -> None:
    await cluster.create_topic("t", queues=1)
    async with Producer(cluster.address) as producer:
        for _ in range(megabytes):
            await producer.send(Message.of("t", os.urandom(MIB)))


def unsent_bytes() -> int:
    """The bytes that all connections of this process hold for peers that do not read."""
    transports = [one._transport for one in connections()]
    return sum(transport.get_write_buffer_size() for transport in transports if transport is not None)


async def pipeline_without_reading() -> None:
    async with Cluster() as cluster:
        await fill(cluster, 5)
        made = 0
        read_hot = Store.read_hot

        def counting(self: Store, topic: str, queue_id: int, pull: Any) -> Any:
            nonlocal made
            made += topic == "t"
            return read_hot(self, topic, queue_id, pull)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Store, "read_hot", counting)
            async with Line(cluster.broker_address()) as line:
                line.stop_reading()
                assert line.write(*(a_pull(**LARGE) for _ in range(PIPELINED))) < 64 * 1024
                await until(lambda: unsent_bytes() > 0, "something was answered")
                for _ in range(20):
                    await asyncio.sleep(0.005)
                    assert unsent_bytes() < 10 * MIB
                assert made < 10, "answers were made that nobody reads"
                line.go_on_reading()
                answers = await line.answers(PIPELINED, 50)
                assert made == PIPELINED
                assert [heading.opaque for heading, _ in answers] == list(range(1, PIPELINED + 1))
                assert {len(body) for _, body in answers} == {len(answers[0][1])}


def test_answers_are_made_only_while_the_peer_reads(run: Callable[[Scenario], None]) -> None:
    run(pipeline_without_reading)


async def wait_beside_a_producer() -> None:
    cluster = Cluster()
    limits = replace(cluster._settings.limits, max_in_flight_bytes=64 * 1024)
    cluster._settings = replace(cluster._settings, limits=limits)
    async with cluster, Producer(cluster.address, retries=0) as producer:
        await cluster.create_topic("t", queues=1)
        async with Line(cluster.broker_address()) as line:
            line.write(*(a_pull(wait_ms=20_000) for _ in range(1000)))
            parked = await waiting_pulls()
            await until(lambda: len(parked) == 1000, "all wait")
            await producer.send(Message.of("t", b"b"), timeout_ms=5000)
            assert {heading.code for heading, _ in await line.answers(1000)} == {0}


def test_pulls_that_wait_stop_nobody(run: Callable[[Scenario], None]) -> None:
    run(wait_beside_a_producer)


async def leave_while_waiting() -> None:
    async with Cluster() as cluster:
        await cluster.create_topic("t", queues=1)
        parked = await waiting_pulls()
        tags = "||".join(f"tag{number:06}" for number in range(500))
        async with Line(cluster.broker_address()) as line:
            line.write(*(a_pull(wait_ms=600_000, subscription=tags) for _ in range(100)))
            await until(lambda: len(parked) == 100, "all wait")
            for waiting in parked.queues.values():
                assert not any(len(one.ticket.request.subscription or "") for one in waiting)
                assert not any(one.ticket.later._asked.header for one in waiting)
        await until(lambda: len(parked) == 0, "nobody waits any more", 5)
        assert parked.held == 0


def test_a_connection_that_ends_leaves_nothing_behind(run: Callable[[Scenario], None]) -> None:
    run(leave_while_waiting)


def test_a_pull_waits_for_half_a_minute_at_most() -> None:
    parked: list[int] = []

    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t", queues=1)
            async with Line(cluster.broker_address()) as line:
                line.write(a_pull(wait_ms=600_000))
                pulls = await waiting_pulls()
                await until(lambda: len(pulls) == 1, "it waits")
                assert pulls.next_deadline_ms is not None
                parked.append(pulls.next_deadline_ms - int(asyncio.get_running_loop().time() * 1000))

    asyncio.run(scenario())
    assert parked[0] <= 30_020


async def subscribe_to_too_much() -> None:
    async with Cluster() as cluster:
        await cluster.create_topic("t", queues=1)
        async with Line(cluster.broker_address()) as line:
            line.write(a_pull(wait_ms=10_000, subscription="x" * 250_000))
            line.write(a_pull(wait_ms=10_000, subscription="||".join(map(str, range(5000)))))
            codes = [heading.code for heading, _ in await line.answers(2)]
            assert codes == [ResponseCode.SUBSCRIPTION_PARSE_FAILED] * 2


def test_a_subscription_too_long_to_read_is_refused(run: Callable[[Scenario], None]) -> None:
    run(subscribe_to_too_much)


async def read_in_vain() -> None:
    real = Store.read_hot
    failures = [DiskError("cannot read: Input/output error (injected once)", errno.EIO)]

    def failing(self: Store, topic: str, queue_id: int, pull: Any) -> Any:
        if failures and pull.offset == 1 and pull.tags is not None:
            raise failures.pop()
        return real(self, topic, queue_id, pull)

    async with Cluster() as cluster, Producer(cluster.address) as producer:
        await cluster.create_topic("t", queues=1)
        await producer.send(Message.of("t", b"0", tag="A"))
        async with Line(cluster.broker_address()) as line:
            line.write(*(a_pull(offset=1, wait_ms=15_000, subscription=tags) for tags in ("*", "A", "B||A", "*")))
            parked = await waiting_pulls()
            await until(lambda: len(parked) == 4, "all wait")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Store, "read_hot", failing)
                await producer.send(Message.of("t", b"1", tag="A"))
                answers = await line.answers(4, 10)
            codes = [heading.code for heading, _ in sorted(answers, key=lambda one: one[0].opaque)]
            assert codes == [0, ResponseCode.SYSTEM_ERROR, 0, 0]


@pytest.mark.complaints("injected once")
def test_a_read_error_costs_one_woken_pull_its_answer_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(read_in_vain())
    assert any("handler failed: PULL_MESSAGE" in record.getMessage() for record in caplog.records)


async def wake_a_herd() -> None:
    slices: list[tuple[int, int]] = []
    serve, read_hot, reads = ShareBudget.serve, Store.read_hot, 0

    def sliced(self: ShareBudget) -> None:
        before = self.waiting, reads
        serve(self)
        slices.append((before[0] - self.waiting, reads - before[1]))

    def counting(self: Store, topic: str, queue_id: int, pull: Any) -> Any:
        nonlocal reads
        reads += 1
        return read_hot(self, topic, queue_id, pull)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShareBudget, "serve", sliced)
        async with Cluster() as cluster, Producer(cluster.address) as producer:
            await cluster.create_topic("t", queues=1)
            async with Line(cluster.broker_address()) as one, Line(cluster.broker_address()) as other:
                for line in (one, other):
                    line.write(*(a_pull(wait_ms=20_000) for _ in range(HERD // 2)))
                parked = await waiting_pulls()
                await until(lambda: len(parked) == HERD, "all wait")
                patch.setattr(Store, "read_hot", counting)
                await producer.send(Message.of("t", b"x" * 1000))
                for line in (one, other):
                    answers = await line.answers(HERD // 2)
                    assert {heading.code for heading, _ in answers} == {0}
    assert sum(served for served, _ in slices) == HERD
    assert max(served for served, _ in slices) <= 64
    assert max(read for _, read in slices) == 1, "the same was read more than once in a turn"


def test_a_herd_that_wakes_at_once_is_served_in_slices(run: Callable[[Scenario], None]) -> None:
    run(wake_a_herd)


async def ask_much_at_once() -> None:
    in_turns = [0]

    def next_turn() -> None:
        in_turns.append(0)
        asyncio.get_running_loop().call_soon(next_turn)

    def counted(*arguments: Any) -> Call:
        in_turns[-1] += 1
        return Call(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        async with Cluster() as cluster:
            await cluster.create_topic("t", queues=1)
            async with Line(cluster.broker_address()) as line:
                patch.setattr(connection, "Call", counted)
                next_turn()
                question = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=0)
                line.write(*([question] * MANY))
                opaques = [heading.opaque for heading, _ in await line.answers(MANY)]
    assert opaques == list(range(1, MANY + 1))
    assert sum(in_turns) >= MANY
    assert max(in_turns) <= 2 * MOST_IN_A_TURN + 64, "one connection took a turn for itself"


def test_one_connection_has_a_part_of_every_turn(run: Callable[[Scenario], None]) -> None:
    run(ask_much_at_once)


async def wake_beside_a_peer_that_does_not_read() -> None:
    async with Cluster() as cluster:
        await fill(cluster, 5)
        async with (
            Line(cluster.broker_address()) as deaf,
            Producer(cluster.address) as producer,
            PullConsumer(cluster.address, group="x") as consumer,
        ):
            deaf.stop_reading()
            deaf.write(*(a_pull(offset=5, wait_ms=20_000) for _ in range(50)), *(a_pull(**LARGE) for _ in range(9)))
            await until(lambda: unsent_bytes() > MIB, "the peer does not read")
            pull = consumer.pull_bytes(MessageQueue("t", "broker-a", 0), 5, wait_ms=15_000, timeout_ms=15_000)
            waiting = asyncio.create_task(pull)
            parked = await waiting_pulls()
            await until(lambda: len(parked) == 51, "all wait")
            await producer.send(Message.of("t", b"x"))
            assert (await waiting).status.name == "FOUND"
            assert unsent_bytes() < 10 * MIB
            deaf.go_on_reading()
            codes = [heading.code for heading, _ in await deaf.answers(59)]
            assert codes.count(0) == 9
            assert codes.count(ResponseCode.PULL_RETRY_IMMEDIATELY) == 50


def test_a_consumer_that_waits_is_woken_beside_a_peer_that_does_not_read(run: Callable[[Scenario], None]) -> None:
    run(wake_beside_a_peer_that_does_not_read)

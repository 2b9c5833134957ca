"""A real broker's loop, watched: what clients ask for is charged to shares, and a step that holds the loop is named."""

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from firearrow.client import Producer
from firearrow.model import Message
from firearrow.protocol.requests.message.query import QueryConsumeQueue, ViewMessageById
from firearrow.runtime.turn import HOLD_NS, Share, Turn, tell_holds, watch
from firearrow.store.read.lookup import Lookups
from firearrow.testing import Cluster
from tests.integration.broker.conftest import Scenario
from tests.integration.broker.raw import Line
from tests.integration.broker.test_hostile_pulls import until

pytestmark = pytest.mark.real

ASKED = 20


def count(turn: Turn, share: Share) -> int:
    """The number of steps of a share."""
    return turn.steps(share).count


async def use_a_watched_broker() -> None:
    with watch(asyncio.get_running_loop()) as turn:
        async with Cluster() as cluster, Producer(cluster.address) as producer:
            await cluster.create_topic("t", queues=1)
            before = {share: count(turn, share) for share in Share}
            for _ in range(ASKED):
                await producer.send(Message.of("t", b"x"))
            async with Line(cluster.broker_address()) as line:
                line.write(*[ViewMessageById(offset=0)] * ASKED)
                await line.answers(ASKED)
            for share in (Share.READ, Share.WRITE, Share.LOOKUP):
                assert count(turn, share) - before[share] >= ASKED, share
            await until(lambda: count(turn, Share.BACKGROUND) > before[Share.BACKGROUND], "background work ran")
            assert count(turn, Share.ANSWER) > before[Share.ANSWER]


def test_work_is_charged_to_its_share(run: Callable[[Scenario], None]) -> None:
    run(use_a_watched_broker)


def test_a_step_that_holds_the_loop_is_named(run: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    honest = Lookups.by_physical

    async def slow(lookups: Lookups, physical: int) -> bytes:
        until_ns = time.thread_time_ns() + 2 * HOLD_NS
        while time.thread_time_ns() < until_ns:
            pass
        return await honest(lookups, physical)

    monkeypatch.setattr(Lookups, "by_physical", slow)

    async def ask() -> None:
        with watch(asyncio.get_running_loop()) as turn:
            async with Cluster() as cluster, Producer(cluster.address) as producer:
                await cluster.create_topic("t", queues=1)
                await producer.send(Message.of("t", b"x"))
                async with Line(cluster.broker_address()) as line:
                    tell_holds()
                    line.write(ViewMessageById(offset=0))
                    await line.answers(1)
                    line.write(QueryConsumeQueue(topic="t", queue_id=0, index=0, count=1))
                    await line.answers(1)
                assert turn.holds[Share.LOOKUP] == 1

    logger, handler = logging.getLogger("firearrow.runtime.turn"), logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: told.append(record.getMessage()))
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        run(ask)
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
    assert any("QueryHandlers._by_place held the loop" in line and "share lookup" in line for line in told), told

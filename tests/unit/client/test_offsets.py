"""Offsets at brokers: the first of a topic goes alone, what is kept is told again, what is not is tried again."""

import asyncio
from typing import Any, cast

from firearrow.client.consumer.broker_queries import Puller
from firearrow.client.consumer.division.offset_store import REPEAT_S, RemoteOffsets
from firearrow.errors import RequestTimedOut
from firearrow.model import MessageQueue
from firearrow.testing.sim.loop import SimLoop

QUEUES = [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "a", 2)]
QUEUES += [MessageQueue("T", "b", 0), MessageQueue("U", "a", 0)]


class Brokers:
    """Stands in for brokers: notes who is told what while what else is under way."""

    def __init__(self) -> None:
        self.under_way: list[tuple[str, str, int]] = []
        self.told: list[tuple[tuple[str, str, int], list[tuple[str, str, int]]]] = []
        self.is_silent = False

    async def ask(self, broker: str, request: Any) -> None:
        one = (broker, request.topic, request.queue_id)
        self.told.append((one, [other for other in self.under_way if other[:2] == one[:2]]))
        self.under_way.append(one)
        await asyncio.sleep(0.01)
        self.under_way.remove(one)
        if self.is_silent:
            raise RequestTimedOut("nobody answers")


def run(story: Any) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


def made() -> tuple[Brokers, RemoteOffsets]:
    brokers = Brokers()
    offsets = RemoteOffsets(cast("Puller", brokers), "G")
    for queue in QUEUES:
        offsets.table.note(queue, 5)
    return brokers, offsets


def test_the_first_offset_of_a_topic_at_a_broker_goes_alone() -> None:
    async def story() -> None:
        brokers, offsets = made()
        assert await offsets.persist() is None
        beside = dict(brokers.told)
        assert len(beside) == len(QUEUES)
        assert beside["a", "T", 0] == []
        assert ("a", "T", 0) not in beside["a", "T", 1] + beside["a", "T", 2]
        assert beside["a", "T", 2] == [("a", "T", 1)], "the rest go together"
        assert offsets.table.unkept() == {}

    run(story)


def test_what_is_kept_is_told_again_after_a_while() -> None:
    async def story() -> None:
        brokers, offsets = made()
        await offsets.persist()
        await offsets.persist()
        assert len(brokers.told) == len(QUEUES)
        await asyncio.sleep(REPEAT_S)
        await offsets.persist()
        await offsets.persist()
        assert len(brokers.told) == 2 * len(QUEUES)

    run(story)


def test_what_was_not_kept_is_told_again() -> None:
    async def story() -> None:
        brokers, offsets = made()
        brokers.is_silent = True
        assert isinstance(await offsets.persist(), RequestTimedOut)
        assert len(brokers.told) == len(offsets.table.unkept()) == len(QUEUES)
        brokers.is_silent = False
        assert await offsets.persist() is None
        assert offsets.table.unkept() == {}

    run(story)

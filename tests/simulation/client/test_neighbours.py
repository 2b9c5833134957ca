"""A message that cannot be sent fails alone, at once, and hurts nobody who sends beside it."""

import asyncio
import random
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.client import Message, Producer
from firearrow.errors import FireArrowError, IllegalMessage, SendFailed
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask

GOOD = Message("T", b"good")
BAD: dict[str, Any] = {
    "a separator in a property": Message("T", b"bad", {"k": "a\x02b"}),
    "40 KB of properties": Message("T", b"bad", {"k": "x" * 40_000}),
    "an empty body": Message("T", b""),
    "a body that is too large": Message("T", bytes(5 << 20)),
    "no message at all": "text",
    "a topic that is none": Message("no topic!", b"bad"),
    # What gets past the checks of a message when somebody takes care to.
    "a body that is a str": replace(GOOD, body="text"),
    "a flag that is too large": replace(GOOD, flag=1 << 40),
    "half a character": replace(GOOD, properties={"k": "\ud800"}),
}


@pytest.mark.parametrize("linger_ms", [0, 50])
@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_message_fails_alone(name: str, linger_ms: float) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", linger_ms=linger_ms, doors=doors_of(world.node("p"))) as producer:
            await producer.send(GOOD)
            begun = asyncio.get_running_loop().time()
            sends = [producer.send(GOOD) for _ in range(4)]
            sends.insert(2, producer.send(BAD[name]))
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            assert asyncio.get_running_loop().time() - begun < 0.5
            bad = outcomes.pop(2)
            assert not [each for each in outcomes if isinstance(each, BaseException)], outcomes
            if name != "half a character":  # which becomes a question mark, as in Java
                assert isinstance(bad, Exception), bad
                assert not (isinstance(bad, FireArrowError) and bad.may_have_happened), bad

    ask(scenario, brokers=1, queues=1, seeds=1)


@pytest.mark.parametrize("name", ["an empty body", "no message at all", "a body that is a str"])
def test_a_oneway_send_tells_of_its_own_fault(name: str) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            with pytest.raises((IllegalMessage, TypeError)):
                await producer.send_oneway(BAD[name])

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_batch_with_a_bad_message_is_refused_whole_before_anything_is_sent() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            with pytest.raises(IllegalMessage):
                await producer.send_batch([GOOD, GOOD, Message("T", b"")])
            result = await producer.send(GOOD)
            assert result.queue_offset == 0

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_what_a_broker_finds_fault_with_is_told_to_its_sender_alone() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        doors = doors_of(world.node("p"))
        async with Producer(names, group="P", linger_ms=50, max_message_bytes=8 << 20, doors=doors) as producer:
            bad = Message("T", random.Random(0).randbytes(9 << 19))  # these brokers take 4 MiB
            first, failure, last = await asyncio.gather(
                producer.send(GOOD), producer.send(bad), producer.send(GOOD), return_exceptions=True
            )
            assert isinstance(failure, SendFailed)
            assert not failure.may_have_happened
            assert not isinstance(first, BaseException), first
            assert not isinstance(last, BaseException), last

    ask(scenario, brokers=1, queues=1, seeds=1)

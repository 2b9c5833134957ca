"""A body that is no value: delivered again as after any error of a handler, then a dead letter, and said each time."""

import asyncio
import logging

import pytest

from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from firearrow.model.names import dlq_topic
from firearrow.serializers import Json
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until

NUMBERS = Json(int)


@pytest.mark.parametrize("in_batches", [False, True])
def test_a_body_that_is_no_value_takes_the_usual_way(in_batches: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        caplog.set_level(logging.ERROR)
        seen: set[int] = set()
        dead: list[ReceivedMessage] = []

        async def handle(message: ReceivedMessage[int]) -> None:
            seen.add(message.value)

        async def handle_some(messages: list[ReceivedMessage[int]]) -> None:
            for message in messages:
                seen.add(message.value)

        async def bury(message: ReceivedMessage) -> None:
            dead.append(message)

        doors = [doors_of(world.node(name)) for name in ("p", "c", "d")]
        async with Producer(names, group="P", serializer=NUMBERS.encode, doors=doors[0]) as producer:
            await producer.send_value("T", 1)
            poison = await producer.send(Message("T", b"no number"))
            await producer.send_value("T", 2, tag="second")
        consumer = Consumer(
            names,
            group="G",
            topics="T",
            start="first",
            max_reconsume_times=1,
            deserializer=NUMBERS.decode,
            doors=doors[1],
        )
        undertaker = Consumer(names, group="D", topics=dlq_topic("G"), start="first", doors=doors[2])
        async with consumer, undertaker:
            work = consumer.run_batches(handle_some, size=1) if in_batches else consumer.run(handle)
            running = [asyncio.get_running_loop().create_task(each) for each in (work, undertaker.run(bury))]
            await until(lambda: seen == {1, 2} and len(dead) == 1, 120)
            assert dead[0].body == b"no number"
            for each in (consumer, undertaker):
                each.stop()
            await asyncio.gather(*running)
        said = [record.getMessage() for record in caplog.records]
        first, again = (line for line in said if "cannot be deserialized: DecodeError" in line)
        assert f"{poison.message_id} (T, broker0:0, offset 1" in first
        assert "(%RETRY%G, broker0:0, offset 0" in again
        caplog.clear()

    ask(scenario, brokers=1, queues=1, seeds=1)

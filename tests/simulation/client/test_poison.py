"""A message whose body cannot be read keeps nobody from the others: it is handed over, and says what is wrong."""

import asyncio
import logging
import zlib

import pytest
from msgspec.structs import replace

from firearrow.client import Consumer, Message, Producer, PullConsumer, ReceivedMessage
from firearrow.client.consumer.broker_queries import PulledBytes
from firearrow.errors import BadBody
from firearrow.model.flags import COMPRESSED, COMPRESSION_ZLIB
from firearrow.model.names import dlq_topic
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until

ZLIB = COMPRESSED | COMPRESSION_ZLIB
NOT_ZLIB = b"not zlib at all", ZLIB
TOO_LARGE = zlib.compress(bytes(8 << 20)), ZLIB
NO_CODEC = b"?", COMPRESSED | 0x700

poisons = pytest.mark.parametrize("poison", [NOT_ZLIB, TOO_LARGE, NO_CODEC])


async def send_stored(producer: Producer, body: bytes, sys_flag: int) -> None:
    """Send bytes as another producer might: marked as what they are not."""
    outgoing = producer._prepared(Message.of("T", b"?"))
    await producer._delivery.send(replace(outgoing, body=body, sys_flag=sys_flag), None, None)


async def fill(world: World, names: str, poison: tuple[bytes, int], *, after: int = 1) -> None:
    async with Producer(names, group="P", doors=doors_of(world.node("filler"))) as producer:
        await producer.send(Message.of("T", b"before"))
        await send_stored(producer, *poison)
        for _ in range(after):
            await producer.send(Message.of("T", b"after"))


@poisons
def test_the_others_are_consumed_and_a_handler_can_deal_with_it(
    poison: tuple[bytes, int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, poison)
        seen: list[bytes] = []
        faulty: list[ReceivedMessage] = []

        async def handle(message: ReceivedMessage) -> None:
            if message.body_fault:
                faulty.append(message)
            else:
                seen.append(message.body)

        async with Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.node("c"))) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: sorted(seen) == [b"after", b"before"] and len(faulty) == 1, 30)
            assert faulty[0].stored.body == poison[0]
            with pytest.raises(BadBody, match=faulty[0].message_id):
                _ = faulty[0].body
            await consumer.commit()
            consumer.stop()
            await running
        async with PullConsumer(names, group="G", doors=doors_of(world.node("other"))) as other:
            (queue,) = await other.queues("T")
            assert await other.committed(queue) == 3
        (warning,) = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
        assert f"{faulty[0].message_id} (T, broker0:0, offset 1)" in warning
        assert faulty[0].body_fault in warning
        caplog.clear()

    ask(scenario, brokers=1, queues=1, seeds=1)


@poisons
@pytest.mark.parametrize("is_its_broker_deaf", [False, True])
def test_a_handler_that_reads_every_body_has_it_among_the_dead_letters(
    poison: tuple[bytes, int], is_its_broker_deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_its_broker_deaf:  # then it is sent again as a new message
        monkeypatch.setattr("firearrow.client.consumer.queue.send_back.SendBack._ask_its_broker", _refuse)

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, poison)
        seen: list[bytes] = []

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        doors = doors_of(world.node("c"))
        async with Consumer(
            names, group="G", topics="T", start="first", max_reconsume_times=1, persist_ms=100, doors=doors
        ) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: sorted(seen) == [b"after", b"before"], 30)
            await until(lambda: consumer.failures == 2, 60)
            consumer.stop()
            await running
        async with PullConsumer(names, group="tools", doors=doors_of(world.node("other"))) as other:
            (queue,) = await other.queues(dlq_topic("G"))
            (dead,) = (await other.pull_bytes(queue, 0)).messages()
            assert dead.body == poison[0]
            assert dead.body_fault

    ask(scenario, brokers=1, queues=1, seeds=1)


async def _refuse(*_: object) -> None:
    raise BadBody("this broker takes nothing back")


def test_it_is_in_no_batch_with_others() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, NOT_ZLIB, after=5)
        batches: list[list[int]] = []

        async def handle(messages: list[ReceivedMessage]) -> None:
            batches.append([message.queue_offset for message in messages])
            for message in messages:
                assert message.body

        for group, ordered in (("G", False), ("O", True)):
            batches.clear()
            doors = doors_of(world.node(f"c{group}"))
            async with Consumer(
                names, group=group, topics="T", start="first", ordered=ordered, max_reconsume_times=0, doors=doors
            ) as consumer:
                running = asyncio.get_running_loop().create_task(consumer.run_batches(handle, size=32, workers=1))
                await until(lambda: 6 in [offset for batch in batches for offset in batch], 30)
                assert [1] in batches
                assert consumer.failures == 1
                consumer.stop()
                await running

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_the_limit_is_a_setting_and_pull_consumers_go_on_too() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, TOO_LARGE)
        for limit, lengths in ((16 << 20, [6, 8 << 20, 5]), (4 << 20, [6, None, 5])):
            doors = doors_of(world.node(f"pull{limit}"))
            async with PullConsumer(
                names, group=f"G{limit}", topics="T", start="first", max_body_bytes=limit, doors=doors
            ) as consumer:
                found: list[ReceivedMessage] = []
                while len(found) < 3:
                    found += await consumer.poll(timeout_ms=5000)
                assert [None if each.body_fault else len(each.body) for each in found] == lengths

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_body_with_another_checksum_is_a_fault_too() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, NOT_ZLIB)
        async with PullConsumer(names, group="tools", doors=doors_of(world.node("c"))) as consumer:
            (queue,) = await consumer.queues("T")
            pulled = await consumer.pull_bytes(queue, 0)
            rotten: PulledBytes = replace(pulled, body=pulled.body.replace(b"before", b"befure"))
            first, _, last = rotten.messages()
            assert "CRC" in first.body_fault
            assert last.body == b"after"

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_message_whose_body_accept_cannot_read_is_delivered_again() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, NOT_ZLIB)
        seen: list[int] = []

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.queue_offset)

        doors = doors_of(world.node("c"))
        async with Consumer(
            names, group="G", topics="T", start="first", accept=lambda m: m.body != b"before", doors=doors
        ) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: seen == [2] and consumer.failures == 1 and consumer.rejected == 1, 30)
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=1)

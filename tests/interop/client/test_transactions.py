"""Transactions of our client, at Apache's brokers and ours."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from firearrow import blocking
from firearrow.client import (
    Message,
    Producer,
    PullConsumer,
    StoredMessage,
    TransactionalProducer,
    TransactionState,
)
from firearrow.model.names import HALF_TOPIC
from judges import ApacheBroker, fresh
from tests.interop.client.ours import until
from tests.interop.client.reading import reading

pytestmark = [pytest.mark.apache, pytest.mark.real]

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
PATIENCE_S = 60.0

DIES_INSIDE = """
import os, signal, sys
from firearrow.blocking import Message, Producer
address, group, topic = sys.argv[1:]
with Producer(address, group=group) as producer:
    for body in (b"kept", b"lost"):
        transaction = producer.transaction(Message(topic, body, keys=body.decode()))
        transaction.__enter__()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def checked(
    answers: dict[bytes, list[TransactionState]], asked: list[StoredMessage]
) -> Callable[..., TransactionState]:
    """A check function that answers by body, and notes what it was asked."""

    def check(message: StoredMessage) -> TransactionState:
        asked.append(message)
        return answers[message.body].pop(0)

    return check


def test_what_a_block_decides_is_what_consumers_get(broker: ApacheBroker) -> None:
    topic, at = broker.create_topic(fresh("transactions"), 2), broker.name_servers[0]
    large = b"large" * 2000

    async def main() -> None:
        async with reading(at, topic) as reader, Producer(at, group=fresh("P")) as producer:
            for body in (b"committed", b"rolled back", large):
                transaction = producer.transaction(Message(topic, body, tag="t"))
                with suppress(ZeroDivisionError):
                    async with transaction:
                        assert body not in reader.bodies
                        if body == b"rolled back":
                            raise ZeroDivisionError
                assert transaction.state is (ROLLBACK if body == b"rolled back" else COMMIT)
            async with producer.transaction(Message(topic, b"by hand")) as transaction:
                await transaction.commit()
            async with producer.transaction(Message(topic, b"by hand, rolled back")) as transaction:
                await transaction.rollback()
            await until(lambda: len(reader.bodies) >= 3, "three messages")
            await producer.send(Message(topic, b"afterwards"))
            await until(lambda: b"afterwards" in reader.bodies, "the last message")
            assert sorted(reader.bodies) == sorted([b"committed", large, b"by hand", b"afterwards"])

    asyncio.run(main())


def test_functions_decide_and_what_is_unknown_is_asked_back(broker: ApacheBroker) -> None:
    topic, at = broker.create_topic(fresh("checked"), 2), broker.name_servers[0]
    asked: list[StoredMessage] = []
    answers = {b"kept": [UNKNOWN, COMMIT], b"lost": [ROLLBACK]}

    async def main() -> None:
        async with (
            reading(at, topic) as reader,
            TransactionalProducer(at, group=fresh("P"), check=checked(answers, asked)) as producer,
        ):
            ids = {}
            for body in answers:
                message = Message(topic, body, keys=["order-7"], tag="t")
                ids[body] = (await producer.send_in_transaction(message, lambda _: UNKNOWN)).message_id
            done = await producer.send_in_transaction(Message(topic, b"at once"), lambda _: COMMIT)
            assert done.state is COMMIT
            await until(lambda: not any(answers.values()) and b"kept" in reader.bodies, "the answers", PATIENCE_S)
            assert sorted(reader.bodies) == [b"at once", b"kept"]
            assert {each.body: each.unique_key for each in asked} == ids
            assert all((each.topic, each.keys, each.tag) == (topic, ["order-7"], "t") for each in asked)

    asyncio.run(main())


def test_a_killed_producer_is_replaced_by_another_of_its_group(broker: ApacheBroker) -> None:
    topic, at, group = broker.create_topic(fresh("killed"), 2), broker.name_servers[0], fresh("P")
    asked: list[StoredMessage] = []
    answers = {b"kept": [COMMIT], b"lost": [ROLLBACK]}
    died = subprocess.run([sys.executable, "-c", DIES_INSIDE, at, group, topic], check=False)
    assert died.returncode == -9

    async def main() -> None:
        # It has sent nothing, and must be known to the broker all the same.
        async with reading(at, topic) as reader, Producer(at, group=group, check=checked(answers, asked)):
            await until(lambda: not any(answers.values()) and b"kept" in reader.bodies, "the answers", PATIENCE_S)
            assert reader.bodies == [b"kept"]
            assert {each.keys[0] for each in asked} == {"kept", "lost"}

    asyncio.run(main())


def test_the_same_without_await(broker: ApacheBroker) -> None:
    topic, at = broker.create_topic(fresh("blocking"), 1), broker.name_servers[0]
    asked: list[StoredMessage] = []
    answers = {b"unknown": [COMMIT]}
    with blocking.TransactionalProducer(at, group=fresh("P"), check=checked(answers, asked)) as producer:
        with producer.transaction(Message(topic, b"committed")):
            pass
        with pytest.raises(ZeroDivisionError), producer.transaction(Message(topic, b"rolled back")):
            raise ZeroDivisionError
        result = producer.send_in_transaction(Message(topic, b"unknown"), lambda _: UNKNOWN)
        seen = set()
        with blocking.PullConsumer(at, group=fresh("G"), start="first") as consumer:
            consumer.assign(consumer.queues(topic))
            for message in consumer:
                seen.add(message.body)
                if message.body == b"unknown":
                    break
    assert seen == {b"committed", b"unknown"}
    assert [each.unique_key for each in asked] == [result.message_id]


def test_halves_are_not_shown_to_consumers(broker: ApacheBroker) -> None:
    topic, at = broker.create_topic(fresh("half"), 1), broker.name_servers[0]

    async def main() -> None:
        async with (
            Producer(at, group=fresh("P")) as producer,
            PullConsumer(at, group=fresh("G")) as consumer,
            producer.transaction(Message(topic, b"half")) as transaction,
        ):
            [queue] = await consumer.queues(topic)
            assert (await consumer.bounds(topic))[queue].end == 0
            assert transaction.half.queue.topic == topic != HALF_TOPIC
            await transaction.rollback()

    asyncio.run(main())

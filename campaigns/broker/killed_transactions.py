"""Transactions under ``kill -9``: a broker of ours is killed again and again between half messages, ends and questions.

Producers begin transactions all the time; when the broker is back they are asked about those without an end. In the end
every acknowledged transaction has its outcome: committed exactly once, or rolled back and nowhere. One whose send was
not acknowledged may be there once.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from campaigns.broker.handover import PATIENCE_S, TransactionProducer, fate
from firearrow.errors import FireArrowError
from firearrow.model.names import HALF_TOPIC, TRANSACTION_GROUP
from firearrow.protocol.requests.group.offset import GetMaxOffset, QueryConsumerOffset
from judges import FireArrowBroker, FireArrowNameServer, fresh

SETTINGS: Final = {"transactionTimeOut": "500", "transactionCheckInterval": "300"}
WORKERS: Final = 16
LONGEST_LIFE_S: Final = 2.0


@dataclass
class Killed:
    """The findings of a run."""

    kills: int
    acknowledged: set[int] = field(default_factory=set)
    begun: int = 0
    found: Mapping[int, int] = field(default_factory=dict)
    questions: int = 0

    @property
    def broken(self) -> list[str]:
        """Complaints, with examples."""
        wanted = [number for number in self.acknowledged if "commit" in fate(number)]
        kinds = {
            "lost": [number for number in wanted if number not in self.found],
            "twice": [number for number, times in self.found.items() if times > 1],
            "rolled back and yet there": [number for number in self.found if "roll" in fate(number)],
        }
        return [f"{len(numbers)} {kind}: {sorted(numbers)[:5]}" for kind, numbers in kinds.items() if numbers]

    def figures(self) -> dict[str, int]:
        """For the ledger."""
        counts = {"kills": self.kills, "begun": self.begun, "acknowledged": len(self.acknowledged)}
        return counts | {"committed": len(self.found), "questions": self.questions, "broken_promises": len(self.broken)}


def killed(kills: int, seed: int, settings: Mapping[str, str] | None = None) -> Killed:
    """Kill a broker so often, and return what is left of its transactions."""
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer())
        told = SETTINGS | dict(settings or {})
        broker = FireArrowBroker(name_servers=[names.address], name=fresh("killed"), settings=told)
        stack.callback(broker.close)
        return asyncio.run(_play(broker, kills, random.Random(seed)))


async def _play(broker: FireArrowBroker, kills: int, chance: random.Random) -> Killed:
    run = Killed(kills)
    await asyncio.to_thread(broker.start)
    topic = await asyncio.to_thread(broker.create_topic, fresh("orders"), 1)
    for _ in range(kills):
        producer = TransactionProducer(broker, topic)
        workers = [asyncio.create_task(_begin_some(producer, run)) for _ in range(WORKERS)]
        await asyncio.sleep(chance.uniform(0.05, LONGEST_LIFE_S))
        await asyncio.to_thread(broker.kill)
        await asyncio.gather(*workers)
        run.questions += producer.questions.total()
        await producer.caller.close()
        await asyncio.to_thread(broker.start)
    producer = TransactionProducer(broker, topic)
    try:
        await _settle(producer)
        run.found = await producer.stored()
        run.questions += producer.questions.total()
    finally:
        await producer.caller.close()
    await asyncio.to_thread(broker.stop)
    return run


async def _begin_some(producer: TransactionProducer, run: Killed) -> None:
    """Begin transactions until the broker is gone."""
    try:
        await producer.join()
        while True:
            number, run.begun = run.begun, run.begun + 1
            await producer.begin(number, on_half=partial(run.acknowledged.add, number))
    except FireArrowError:
        return


async def _settle(producer: TransactionProducer) -> None:
    """Answer questions until the broker has none left."""
    until = time.monotonic() + PATIENCE_S
    await producer.join()
    asked = QueryConsumerOffset(consumer_group=TRANSACTION_GROUP, topic=HALF_TOPIC, queue_id=0)
    while True:
        end = (await producer.ask(GetMaxOffset(topic=HALF_TOPIC, queue_id=0))).answer.offset
        done = (await producer.ask(asked)).answer.offset
        if done == end:
            return
        assert time.monotonic() < until, f"half messages from {done} to {end} are still open"
        await asyncio.sleep(0.2)

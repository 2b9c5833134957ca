"""Hundreds of parked pulls with the heaviest filters, beside a producer: at a real broker, on both loops."""

import asyncio
import time
from collections.abc import Callable

import pytest

from firearrow.client import Producer
from firearrow.model import Message
from firearrow.testing import Cluster
from tests.integration.broker.conftest import Scenario
from tests.integration.broker.raw import Line, a_pull
from tests.integration.broker.test_hostile_pulls import until, waiting_pulls
from tests.unit.broker.test_filter_turns import HEAVY
from tests.yardstick import steady_s

pytestmark = pytest.mark.real

MANY = 300
WAIT_MS = 50_000
LONGEST_S = 0.2
"""All filters take three times as long for one message."""


async def send_beside(producer: Producer, took: list[float]) -> None:
    """Send one message after the other, and note the CPU seconds of this process while each waits."""
    while True:
        sent = time.process_time()
        await producer.send(Message.of("other", b"beside"))
        took.append(time.process_time() - sent)


async def park_beside_a_producer() -> None:
    async with Cluster() as cluster, Producer(cluster.address, retries=0) as producer:
        await cluster.create_topic("t", queues=1)
        await cluster.create_topic("other", queues=1)
        async with Line(cluster.broker_address()) as line:
            line.write(
                *(
                    a_pull(wait_ms=WAIT_MS, expression_type="CEL", subscription=HEAVY["CEL"].format(number))
                    for number in range(MANY)
                )
            )
            parked = await waiting_pulls()
            await until(lambda: len(parked) == MANY, "all wait")
            took: list[float] = []
            beside = asyncio.create_task(send_beside(producer, took))
            await until(lambda: took, "the producer sends")
            await producer.send(Message.of("t", b"unwanted", properties={"a": "x"}))
            await producer.send(Message.of("t", b"wanted", properties={"ok": "1"}))
            answers = await line.answers(MANY)
            beside.cancel()
        assert steady_s(max(took), LONGEST_S) < LONGEST_S, "a send waits for a few turns, not for all filters"
        assert {heading.code for heading, _ in answers} <= {0, 20}
        assert all(b"wanted" in body or not body for _, body in answers)


def test_heavy_filters_do_not_hold_up_others(run: Callable[[Scenario], None]) -> None:
    run(park_beside_a_producer)

"""Many pulls on one queue, all woken by each of its messages: what somebody waits who sends elsewhere."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.size.brokers import broker_with, topic_name
from benchmarks.size.probe import Probe, Seen, connect, run
from benchmarks.size.state import RATE
from benchmarks.size.table import HOLD_MS, Row, paced
from benchmarks.versus.contestants import FireArrowInEarnest

SMALL = 10
TOPICS = 3
WAKE_EVERY_S = 1.0
WATCH_S = 12.0


@contextmanager
def _pullers(port: int, count: int) -> Iterator[None]:
    words = [sys.executable, "-m", "benchmarks.size.pullers", str(port), str(count), topic_name(0)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"all wait\n"
        yield
        process.stdin.close()


async def _wake(port: int, wake_every_s: float) -> None:
    line = await connect(port)
    try:
        while True:
            await line.send(topic_name(0), 0)
            await asyncio.sleep(wake_every_s)
    finally:
        line.transport.close()


async def _beside(broker: FireArrowInEarnest, seconds: float) -> Seen:
    waking = asyncio.create_task(_wake(broker.port, WAKE_EVERY_S))
    seen = await Probe(broker.port, broker.pid).watch(seconds, rate=RATE, topics=(topic_name(1), topic_name(2)))
    waking.cancel()
    await asyncio.wait([waking])
    return seen


def of_pulls(pulls: int, patience: float = 1.0) -> Iterator[Row]:
    """A herd beside ten who wait."""
    found = []
    for count in (SMALL, pulls):
        with broker_with(TOPICS) as (broker, _), _pullers(broker.port, count):
            found.append(run(_beside(broker, WATCH_S * patience)))
    small, large = found
    name = f"{pulls:,} pulls on one queue, sends elsewhere"
    yield from paced(name, small, large, HOLD_MS)

"""After a restart: what a start costs after kill -9, and what messages cost that were there before.

CPU rather than time is shown, because it hardly changes with whatever else the machine does.
"""

import asyncio
from collections.abc import Iterator

from benchmarks.size.brokers import broker_with, send_to_each, topic_name
from benchmarks.size.probe import connect, run
from benchmarks.size.table import Row, at_most, times
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow.protocol.requests.message.pull import PullMessage

SMALL_TOPICS = 10
FLUSHED_S = 6.0
"""Longer than the period in which queues become durable."""
START_MS_A_TOPIC = 0.1
MESSAGES = 20_000
PULLED = 32
PASSES = 5
SUBSCRIPTION_FLAG = 0x4
AGAIN, LEAST_US = 1.3, 1.0
COLD_US = 40.0


async def _fill(port: int, topics: int) -> None:
    await send_to_each(port, topics)
    await asyncio.sleep(FLUSHED_S)


def _start_cpu_s(topics: int) -> float:
    """CPU of a start after kill -9, in seconds."""
    with broker_with(topics) as (broker, _):
        run(_fill(broker.port, topics))
        broker.kill()
        broker.start()
        return broker.cpu_seconds()


async def _send(port: int) -> None:
    line = await connect(port)
    for first in range(0, MESSAGES, PULLED):
        count = min(PULLED, MESSAGES - first)
        assert not any(await asyncio.gather(*(line.send(topic_name(0), 0) for _ in range(count))))
    await asyncio.sleep(FLUSHED_S)
    line.transport.close()


async def _pull(port: int) -> None:
    """Every message, a full answer at a time."""
    line = await connect(port)
    for offset in range(0, MESSAGES, PULLED):
        request = PullMessage(
            consumer_group="readers",
            topic=topic_name(0),
            queue_id=0,
            queue_offset=offset,
            max_msg_nums=PULLED,
            sys_flag=SUBSCRIPTION_FLAG,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        assert await line.ask(request) == 0
    line.transport.close()


def _pull_us(broker: FireArrowInEarnest, passes: int) -> float:
    """CPU of the broker for a message pulled, in microseconds."""
    before = broker.cpu_seconds()
    for _ in range(passes):
        run(_pull(broker.port))
    return (broker.cpu_seconds() - before) / passes / MESSAGES * 1e6


def of_restarts(topics: int) -> Iterator[Row]:
    """Starts with many topics beside one with ten; messages from before a restart beside those just written."""
    small, large = _start_cpu_s(SMALL_TOPICS), _start_cpu_s(topics)
    limit = small + topics * START_MS_A_TOPIC / 1000
    yield at_most(f"{topics:,} topics: CPU of a start after kill -9", "s", small, large, limit)
    with broker_with(SMALL_TOPICS) as (broker, _):
        run(_send(broker.port))
        hot = _pull_us(broker, PASSES)
        broker.stop()
        broker.start()
        cold, again = _pull_us(broker, 1), _pull_us(broker, PASSES)
    yield at_most("a message pulled first after a restart, beside one just written: CPU", "us", hot, cold, COLD_US)
    yield times(
        "a message pulled again after a restart, beside one just written: CPU", "us", hot, again, AGAIN, LEAST_US
    )

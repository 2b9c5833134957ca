"""A pull waits on each of very many queues; a message arrives in one: how long until its pull is answered."""

import asyncio
import random
import time
from contextlib import ExitStack
from typing import Any

from benchmarks.overload.frames import Answers, frame, send
from benchmarks.store.report import percentile
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.runtime.loops import new_loop
from judges import FireArrowNameServer

QUEUES_A_TOPIC = 1000
HELD_MS = 30_000
ARRIVALS = 500
GROUP = "parked"
SUSPEND_AND_SUBSCRIPTION = 2 | 4


class Line(asyncio.Protocol):
    """One connection: futures by opaque."""

    def __init__(self) -> None:
        self._answers = Answers()
        self.waiting: dict[int, asyncio.Future[float]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        for code, opaque in self._answers.feed(data):
            future = self.waiting.pop(opaque, None)
            if future is not None and not future.done():
                future.set_result(now if code == 0 else -float(code))

    def ask(self, data: bytes, opaque: int) -> "asyncio.Future[float]":
        """Write a request; the future has the time of a success, or minus the code."""
        future = self.waiting[opaque] = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return future


def pull(topic: str, queue_id: int, opaque: int) -> bytes:
    """A pull at the end of an empty queue, held for long."""
    request = PullMessage(
        consumer_group=GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=SUSPEND_AND_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=HELD_MS,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return frame(request, opaque)


async def _measure(port: int, topics: list[str], queues: int) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    _, consumer = await loop.create_connection(Line, "127.0.0.1", port)
    _, producer = await loop.create_connection(Line, "127.0.0.1", port)
    places = [(topic, queue) for topic in topics for queue in range(queues // len(topics))]
    pulls = []
    for opaque, (topic, queue) in enumerate(places):
        pulls.append(consumer.ask(pull(topic, queue, opaque), opaque))
        if opaque % 1000 == 0:
            await asyncio.sleep(0.01)
    await asyncio.sleep(2.0)
    early = sum(future.done() for future in pulls)
    took, chance = [], random.Random(1)
    for number, place in enumerate(chance.sample(range(len(places)), ARRIVALS + 20)):
        topic, queue = places[place]
        began = time.perf_counter()
        stored = producer.ask(send(topic, queue, number, b"x" * 128), number)
        woken = await asyncio.wait_for(pulls[place], 30)
        assert woken > 0, f"the pull was answered with code {-woken:.0f}"
        assert await stored > 0
        if number >= 20:
            took.append((woken - began) * 1000)
    return {
        "queues": len(places),
        "answered_early": early,
        "p50_ms": percentile(took, 0.5),
        "p99_ms": percentile(took, 0.99),
        "worst_ms": max(took),
    }


def measure_parked(queues: int) -> dict[str, Any]:
    """Park on all queues, then let messages arrive."""
    count = max(queues // QUEUES_A_TOPIC, 1)
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        broker = FireArrowInEarnest(name_servers=[names.address], settings={})
        stack.enter_context(broker)
        topics = [broker.create_topic(f"parked{number}", queues // count) for number in range(count)]
        with asyncio.Runner(loop_factory=new_loop) as runner:
            found = runner.run(_measure(broker.port, topics, queues))
        found["anon_mib"] = broker.memory_bytes("RssAnon") / 2**20
    print(
        f"{found['queues']:,} pulls on as many queues ({found['anon_mib']:.0f} MiB): an arrival answers its own in "
        f"{found['p50_ms']:.2f} ms p50, {found['p99_ms']:.2f} ms p99, {found['worst_ms']:.2f} ms at worst"
    )
    return found

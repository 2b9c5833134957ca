"""Failovers of a real group under load: what was acknowledged is found again, and how long nothing was acknowledged."""

import asyncio
import time
from collections import defaultdict

from msgspec import Struct

from campaigns.failover.real_group import RealGroup
from firearrow.client import Message, Producer, PullConsumer, SendStatus
from firearrow.errors import FireArrowError

TOPIC = "failovers"


class Outcome(Struct):
    """What one failover did."""

    fault: str
    acked: int = 0
    lost: int = 0
    out_of_order: int = 0
    gap_s: float = 0.0
    """The longest time without an acknowledgement."""
    epoch: int = 0


class Load:
    """A producer that sends one message after another, and remembers what was acknowledged."""

    def __init__(self, name_servers: str) -> None:
        self._name_servers = name_servers
        self._last = time.monotonic()
        self.acked: list[int] = []
        self.gap_s = 0.0

    async def run(self, first: int) -> None:
        """Send until cancelled."""
        async with Producer(self._name_servers) as producer:
            number = first
            while True:
                try:
                    result = await producer.send(Message(TOPIC, str(number).encode()))
                except FireArrowError:
                    await asyncio.sleep(0.02)
                else:
                    if result.status is SendStatus.OK:
                        now = time.monotonic()
                        self.gap_s = max(self.gap_s, now - self._last)
                        self._last = now
                        self.acked.append(number)
                number += 1

    def begin(self) -> None:
        """Measure the gap from now on."""
        self.gap_s, self._last = 0.0, time.monotonic()

    async def more(self, count: int, seconds: float) -> None:
        """Wait until so many more messages were acknowledged."""
        wanted = len(self.acked) + count
        async with asyncio.timeout(seconds):
            while len(self.acked) < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def failover(group: RealGroup, fault: str, first: int = 0) -> Outcome:
    """Send, kill or freeze the master, go on sending, then read everything back."""
    load = Load(group.name_servers)
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(load.run(first))
        await load.more(200, 60)
        state = await asyncio.to_thread(group.wait, lambda state: len(state["iss"]) == 3, 60)
        master, epoch = state["master"], state["epoch"]
        load.begin()
        (group.freeze if fault == "freeze" else group.kill)(master)
        await load.more(200, 90)
        gap_s = load.gap_s
        if fault == "freeze":
            group.thaw(master)
        else:
            group.start(master)
        await asyncio.to_thread(group.wait, lambda state: len(state["iss"]) == 3, 90)
        await load.more(50, 60)
        sending.cancel()
    found = await _read_all(group.name_servers)
    bodies = {number for queue in found.values() for number in queue}
    lost = [number for number in load.acked if number not in bodies]
    disorder = sum(queue != sorted(queue) for queue in found.values())
    now = await asyncio.to_thread(group.wait, lambda state: state["epoch"] > epoch, 5)
    return Outcome(fault, len(load.acked), len(lost), disorder, round(gap_s, 3), now["epoch"])


async def _read_all(name_servers: str) -> dict[int, list[int]]:
    """Every message of the topic, by queue."""
    found: dict[int, list[int]] = defaultdict(list)
    async with PullConsumer(name_servers, group="readers") as consumer:
        queues = await consumer.queues(TOPIC)
        await consumer.assign(queues)
        await consumer.seek_to_begin(*queues)
        left = sum(bounds.end - bounds.first for bounds in (await consumer.bounds(TOPIC)).values())
        async with asyncio.timeout(60):
            while left > 0:
                for message in await consumer.poll(1024):
                    found[message.queue.queue_id].append(int(message.body))
                    left -= 1
    return found

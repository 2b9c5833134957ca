"""One process of producers: ``python -m tests.interop.client.kills.load NAME_SERVERS TOPIC NAME PRODUCERS TIMEOUT_MS``.

Each producer sends one message after the other and writes down what failed. A line on standard input asks for progress:
it is answered when every producer has had another acknowledgement since. The end of standard input ends the sending;
the last line of output is the report.
"""

import asyncio
import os
import sys
import time

import msgspec
from msgspec import Struct

from firearrow.client import Message, Producer
from firearrow.client.producer.settings import ProducerOptions
from firearrow.errors import FireArrowError

PAUSE_S = 0.05


class Failure(Struct, frozen=True):
    """A send that failed. Times are those of the system's steady clock, which processes share."""

    body: str
    begun: float
    ended: float
    may_have_happened: bool
    text: str


class Report(Struct):
    """The results of all sends of a process."""

    acknowledged: list[int]
    """By producer: the messages are numbered, and those that did not fail were acknowledged."""
    failures: list[Failure]
    longest_s: float = 0.0


class Load:
    """The producers of this process."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self.report = Report([0] * count, [])
        self._over = False

    async def run(self, names: str, topic: str, timeout_ms: int) -> None:
        """Send until standard input ends."""
        options: ProducerOptions = {"send_timeout_ms": timeout_ms} if timeout_ms else {}
        async with asyncio.TaskGroup() as group:
            for number in range(len(self.report.acknowledged)):
                group.create_task(self._send_on(Producer(names, group="kills", **options), topic, number))
            await self._serve_questions()

    async def _send_on(self, given: Producer, topic: str, number: int) -> None:
        count = 0
        async with given as producer:
            while not self._over:
                body = f"{self._name}-{number}-{count}"
                begun = time.monotonic()
                try:
                    await producer.send(Message(topic, body.encode()))
                    self.report.acknowledged[number] += 1
                except FireArrowError as error:
                    failure = Failure(body, begun, time.monotonic(), error.may_have_happened, str(error))
                    self.report.failures.append(failure)
                self.report.longest_s = max(self.report.longest_s, time.monotonic() - begun)
                count += 1
                await asyncio.sleep(PAUSE_S)

    async def _advance(self) -> None:
        waiting = set(range(len(self.report.acknowledged)))
        then = list(self.report.acknowledged)
        while waiting:
            await asyncio.sleep(PAUSE_S)
            waiting = {number for number in waiting if self.report.acknowledged[number] == then[number]}

    async def _serve_questions(self) -> None:
        loop, asked = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), asked.set)
        while True:
            await asked.wait()
            asked.clear()
            if not os.read(sys.stdin.fileno(), 4096):
                break
            await self._advance()
            print("advanced", flush=True)
        loop.remove_reader(sys.stdin.fileno())
        self._over = True


def main() -> None:
    """The command."""
    names, topic, name, producers, timeout_ms = sys.argv[1:]
    load = Load(name, int(producers))
    asyncio.run(load.run(names, topic, int(timeout_ms)))
    print(msgspec.json.encode(load.report).decode())


if __name__ == "__main__":
    main()

"""The cost of a send: ``python -m benchmarks.broker [messages]``.

A broker on a real disk and a bare client share one process and one loop. Each round writes some sends at once and waits
for all answers. Printed are microseconds of CPU a message, client included (about one of them): over all rounds, with
everything that happens beside (queues, index, flushes), and of the best round, which shows the path of a send alone.
"""

import asyncio
import gc
import random
import sys
import tempfile
import time
from typing import NamedTuple

from msgspec.structs import replace

from campaigns.samples import SEND
from firearrow.broker.broker import Broker
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.protocol.command import Encoding
from firearrow.protocol.serialize import encode_request
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.loops import new_loop
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import SystemNetwork

MESSAGES = 64_000
QUEUES = 4
LOOPBACK = "127.0.0.1"
PROPERTIES = (
    "UNIQ_KEY\x01FD00000000000000000000000000000220FD0C387F444A6190560000\x02"
    "KEYS\x01message_12345\x02WAIT\x01true\x02TAGS\x01TagA\x02"
)


class Cost(NamedTuple):
    """Microseconds of CPU a message."""

    mean: float
    best: float


class Client(asyncio.Protocol):
    """Counts the answers it gets."""

    def __init__(self) -> None:
        self._rest = b""
        self._missing = 0
        self._all_here = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment] # uvloop's does not inherit

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while len(data) - at >= 4:
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            at = end
            self._missing -= 1
        self._rest = data[at:]
        if self._missing <= 0:
            self._all_here.set()

    async def exchange(self, frames: bytes, count: int) -> None:
        """Write sends and wait for their answers."""
        assert self._transport is not None
        self._missing = count
        self._all_here.clear()
        self._transport.write(frames)
        await self._all_here.wait()


def frames(encoding: Encoding, body: bytes, count: int) -> bytes:
    """As many sends, round all queues."""
    parts = []
    for number in range(count):
        request = replace(SEND, topic="bench", queue_id=number % QUEUES, properties=PROPERTIES)
        parts += [encode_request(encoding, request, number, body_size=len(body)), body]
    return b"".join(parts)


async def measure(port: int, encoding: Encoding, size: int, depth: int, messages: int) -> Cost:
    """Send in rounds of ``depth``."""
    transport, client = await asyncio.get_running_loop().create_connection(Client, LOOPBACK, port)
    data = frames(encoding, b"x" * size, depth)
    await client.exchange(data, depth)
    rounds = max(messages // depth, 1)
    spent = []
    for _ in range(rounds):
        before = time.process_time()
        await client.exchange(data, depth)
        spent.append(time.process_time() - before)
    transport.close()
    return Cost(sum(spent) / rounds / depth * 1e6, min(spent) / depth * 1e6)


async def main(messages: int) -> None:
    """Print the table."""
    config = BrokerConfig(broker_name="b", listen_port=0, bind_address=LOOPBACK, broker_ip1=LOOPBACK)
    with tempfile.TemporaryDirectory() as directory:
        disk = RealDisk(directory)
        machine = Machine("bench", LOOPBACK, 8 << 30, "boot")
        broker = Broker(
            BrokerSettings(broker=config),
            machine,
            network=SystemNetwork(),
            disk=disk,
            clock=SystemClock(),
            chance=random.Random(),
        )
        async with broker.serving() as identity:
            gc.freeze()
            print("header    body  at once   us a message, mean    best round")
            for encoding in Encoding:
                for size, depth in ((128, 1), (128, 16), (128, 64), (1024, 64)):
                    cost = await measure(identity.port, encoding, size, depth, messages // (8 if depth == 1 else 1))
                    print(f"{encoding.name:8} {size:5} {depth:8} {cost.mean:21.1f} {cost.best:13.1f}")
        await disk.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES))

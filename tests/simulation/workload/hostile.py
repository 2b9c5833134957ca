"""Hostile clients: raw connections that take everything a server gives and return nothing.

`Pipeliner` asks for much in one write and does not read. `HalfDead` stops in the middle of a frame and stays. `Poller`
parks many polls, some of them due at once, with large headers, and vanishes with the answers outstanding. None of them
may cost a server more than its limits, or keep it from serving others.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from firearrow.errors import FireArrowError
from firearrow.protocol.command import Encoding
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.serialize import encode_request
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node
from tests.simulation.workload.queue_scan import SUBSCRIPTION, SUSPEND

MOST_BYTES: Final = 1 << 30
WAITS_MS: Final = (0, 0, 1, 2, 5, 3_000, 600_000)
"""The times that polls may wait: not at all, a moment, a while, longer than a client stays."""


def pulls(topic: str, queue_id: int, offset: int, count: int, *, waits_ms: int = -1, tags: str = "*") -> bytes:
    """Many pulls as one piece of bytes; with a time they wait at the end of the queue."""
    frames = [
        encode_request(
            Encoding.JSON,
            PullMessage(
                consumer_group="hostile",
                topic=topic,
                queue_id=queue_id,
                queue_offset=offset,
                max_msg_nums=1000,
                sys_flag=SUBSCRIPTION | (SUSPEND if waits_ms >= 0 else 0),
                commit_offset=0,
                suspend_timeout_millis=max(waits_ms, 0),
                subscription=tags,
                sub_version=0,
                expression_type="TAG",
                max_msg_bytes=MOST_BYTES,
                large=True,
            ),
            opaque,
        )
        for opaque in range(count)
    ]
    return b"".join(frames)


HURRIED_POLLS: Final = 60


class _Deaf(asyncio.Protocol):
    """Takes what comes and forgets it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport


async def _connect(node: Node, address: Address) -> asyncio.Transport | None:
    try:
        return await node.network.connect(_Deaf, address)
    except FireArrowError:
        return None


@dataclass
class Hostile:
    """A hostile act that a node repeats at one broker until the node ends."""

    name: str
    address: Address
    topic: str
    empty_topic: str
    """A queue without messages."""

    async def run(self, node: Node) -> None:
        """Its process."""
        while True:
            transport = await _connect(node, self.address)
            if transport is not None and not transport.is_closing():  # it may be lost as soon as it is made
                await self.annoy(node, transport)
            await asyncio.sleep(node.rng.uniform(0.5, 2.0))

    async def annoy(self, node: Node, transport: asyncio.Transport) -> None:
        """Do it once."""
        raise NotImplementedError


class Pipeliner(Hostile):
    """Asks for everything two hundred times in one write, and reads nothing."""

    async def annoy(self, node: Node, transport: asyncio.Transport) -> None:
        """Ask, wait, go."""
        transport.pause_reading()
        transport.write(pulls(self.topic, 0, 0, 200))
        await asyncio.sleep(node.rng.uniform(2.0, 6.0))
        transport.abort()


class HalfDead(Hostile):
    """Says half of a request and nothing more."""

    async def annoy(self, node: Node, transport: asyncio.Transport) -> None:
        """Stay for good, on as many connections as there are rounds."""
        whole = pulls(self.topic, 0, 0, 1)
        transport.write(whole[: node.rng.randrange(1, len(whole))])
        await asyncio.sleep(node.rng.uniform(1.0, 5.0))


class Poller(Hostile):
    """Parks hundreds of polls in one write; goes when it likes, with the answers outstanding."""

    async def annoy(self, node: Node, transport: asyncio.Transport) -> None:
        """Poll, wait, vanish."""
        if node.rng.random() < 0.5:
            await self._hurry(node, transport)
        if transport.is_closing():
            return
        tags = " || ".join(f"tag{number:05d}" for number in range(node.rng.choice((1, 100))))
        waits_ms = node.rng.choice(WAITS_MS)
        transport.write(pulls(self.empty_topic, 0, 0, 300, waits_ms=waits_ms, tags=tags))
        await asyncio.sleep(node.rng.uniform(0.5, 8.0))
        transport.abort()

    async def _hurry(self, node: Node, transport: asyncio.Transport) -> None:
        """Poll for a moment, several times at once and again and again: some are due as soon as they are parked."""
        for _ in range(HURRIED_POLLS):
            if transport.is_closing():
                return
            transport.write(pulls(self.empty_topic, 0, 0, 3, waits_ms=node.rng.choice((0, 1, 5))))
            await asyncio.sleep(node.rng.uniform(0.001, 0.05))


KINDS: Final = (Pipeliner, HalfDead, Poller)

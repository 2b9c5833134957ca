"""The form of an act: a client of its own that asks again and again, and a check of what was answered with success."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.replication.replication import EpochEntryCache
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache
from firearrow.remoting.reply import Reply
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.whole import Client

TIMEOUT_MS: Final = 1_000
LED_MS: Final = 6_000
LOOKS: Final = 60
LOOK_S: Final = 3.0


class Stage(Protocol):
    """The group that is asked."""

    world: World
    rng: random.Random
    counts: Counter[str]
    is_over: bool

    @property
    def addresses(self) -> list[Address]:
        """The addresses of the members now."""
        ...


class Act:
    """One kind of request, asked of whoever takes it."""

    name: ClassVar[str]
    """The name of its node, and of its counts."""
    pause_s: ClassVar[float] = 0.15

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rng = random.Random(f"{self.name} {stage.rng.random()}")
        self.number = 0
        self._last_good = stage.addresses[0]
        self.node = stage.world.node(self.name)
        self.client = self.made(self.node)
        self.turn: Final = asyncio.Lock()
        """Held while the client is used, so that nobody turns it to another broker meanwhile."""

    def made(self, node: Node) -> Client:
        """Return the client of this act."""
        return Client(node, self.stage.addresses[0])

    async def run(self) -> None:
        """Ask until the load is over."""
        while not self.stage.is_over:
            async with self.turn:
                self.client.broker = self.anybody()
                self.number += 1
                await self.step()
            await asyncio.sleep(self.pause_s)

    def anybody(self) -> Address:
        """Return a member of the group, mostly the one that took the last request."""
        is_other = self._last_good not in self.stage.addresses or self.rng.random() < 0.2
        return self.rng.choice(self.stage.addresses) if is_other else self._last_good

    async def step(self) -> None:
        """Ask once."""
        raise NotImplementedError

    async def before_the_last_failover(self, master: Address, slaves: list[Address]) -> None:
        """Do something while everything is whole; a second later, or a few, the master dies."""

    async def check(self, client: Client) -> None:
        """Raise ``AssertionError`` when an answer does not hold at the last master."""
        raise NotImplementedError

    def looked_for(self, **kinds: int) -> None:
        """Tell how many answers of each kind a check looks for: a suite sees a check that looks for none."""
        for kind, number in kinds.items():
            self.stage.counts[f"{kind} looked for"] = number

    async def ask(self, request: Request[Any], body: bytes = b"", kind: str = "") -> Reply[Any] | None:
        """Return the answer to a request that was answered with success; None for any other."""
        kind = kind or self.name
        try:
            reply = await self.client.ask(request, body, timeout_ms=TIMEOUT_MS)
        except FireArrowError:
            self.stage.counts[f"{kind} refused or lost"] += 1
            self._last_good = self.rng.choice(self.stage.addresses)
            return None
        self.stage.counts[f"{kind} answered"] += 1
        self._last_good = self.client.broker
        return reply

    async def led_epoch(self) -> int:
        """Return the epoch that the broker leads which is asked now; 0 for a slave."""
        reply = await self.client.ask(GetBrokerEpochCache(), timeout_ms=LED_MS)
        cache = decode(reply.body, EpochEntryCache)
        return cache.epoch_list[-1].epoch if cache.broker_id == 0 and cache.epoch_list else 0


async def bodies(client: Client, topic: str, queues: int = 4) -> list[bytes]:
    """Return the bodies of a topic, of which some queues may not exist."""
    found: list[bytes] = []
    for queue in range(queues):
        at = 0
        while page := await _page(client, topic, queue, at):
            found += [message.body for message in page]
            at = page[-1].queue_offset + 1
    return found


async def _page(client: Client, topic: str, queue: int, offset: int) -> list[Any]:
    try:
        return await client.stored(topic, queue_id=queue, offset=offset)
    except RequestRefused as refusal:
        if refusal.code == ResponseCode.SYSTEM_BUSY:
            raise
        return []


async def all_come(
    client: Client, topic: str, wanted: set[bytes], what: str, between: Callable[[], Any] | None = None
) -> set[bytes]:
    """Wait until messages are in a topic, and return everything that is; raise when some never come."""
    missing = wanted
    for _ in range(LOOKS):
        found = set(await bodies(client, topic))
        missing = wanted - found
        if not missing:
            return found
        await asyncio.sleep(LOOK_S)
        if between is not None:
            await between()
    raise AssertionError(f"{what}: {len(missing)} of {len(wanted)} are not there: {sorted(missing)[:5]}")

"""One topic that is made, used, grown, deleted and made again, by one client that knows what it must find.

I14: what a deleted topic held never comes back, and the topic itself does not either; a topic that was made holds
exactly what was acknowledged in this life, at the places it was acknowledged at. Crashes come where they like.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker, UpdateAndCreateTopic
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node
from tests.simulation.invariants.history import History, Outcome, Read, Sent
from tests.simulation.workload.producer import DEFAULT_TOPIC, TRY_AGAIN_S, Post, send
from tests.simulation.workload.queue_scan import read_queue
from tests.simulation.workload.routes import Routes

T = TypeVar("T")


def topic_of(name: str, queues: int) -> UpdateAndCreateTopic:
    """Return the request that makes a topic, or changes it to so many queues."""
    return UpdateAndCreateTopic(
        topic=name,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )


@dataclass
class TopicLives:
    """A topic on one broker, from one life to the next."""

    name: str
    broker: str
    name_servers: list[Address]
    history: History
    neighbour: str
    """A topic that is always there, and whose route says where brokers are."""
    may_lose: Callable[[], bool]
    """Whether acknowledged messages may be missing, because power was lost before a sync."""
    pause_s: float = 0.5
    life: int = 0
    number: int = 0
    queues: int = 0
    sent: list[Sent] = field(default_factory=list)
    buried: set[str] = field(default_factory=set)
    """The keys that earlier lives held for certain."""
    stopped: bool = False

    async def run(self, node: Node) -> None:
        """Its process: begins after a crash of its own where the last left off, with a new life."""
        self._node = node
        self._caller = Caller(node.network)
        self._routes = Routes(self._caller, self.name_servers, node.rng)
        while not self.stopped:
            await self._live()
        await self._caller.close()

    async def _live(self) -> None:
        self.life += 1
        self.queues, self.sent = self._node.rng.randint(1, 2), []
        await self._ask(topic_of(self.name, self.queues))
        await self._look("made")
        await self._use()
        if self._node.rng.random() < 0.5:
            self.queues += 1
            await self._ask(topic_of(self.name, self.queues))
            await self._use()
        await self._look("used")
        self.buried |= {sent.key for sent in self.sent if sent.outcome is Outcome.OK}
        await self._ask(DeleteTopicInBroker(topic=self.name))
        await self._gone()
        self.history.counts["topics deleted"] += 1
        await asyncio.sleep(self._node.rng.expovariate(1.0) * self.pause_s)

    async def _use(self) -> None:
        for _ in range(self._node.rng.randint(1, 4)):
            self.number += 1
            queue_id = self._node.rng.randrange(self.queues)
            post = Post(f"{self.name}:{self.number}", self.name, self.broker, queue_id)
            address = await self._address()
            self.sent.append(await send(self._node, self._caller, address, post, self.history))

    # ---- looking

    async def _look(self, when: str) -> None:
        """Read everything and compare."""
        found = [read for queue_id in range(self.queues) for read in await self._read(queue_id)]
        keys = {read.key for read in found}
        story = f"{self.name} on {self.broker}, {when} for the {self.life}th time"
        if back := sorted(keys & self.buried):
            self.history.broken.append(f"I14: {story}, holds {back} of a life that was deleted")
        refused = {sent.key for sent in self.sent if sent.outcome is Outcome.FAIL}
        if there := sorted(keys & refused):
            self.history.broken.append(f"I3: {story}, holds {there}, which were refused")
        if not self.may_lose():
            self.history.broken += [f"I1: {story}, {lost}" for lost in _missing(self.sent, found)]

    async def _read(self, queue_id: int) -> list[Read]:
        async def read() -> list[Read]:
            return await read_queue(self._caller, self.broker, await self._address(), self.name, queue_id)

        return await self._until_answered(read)

    async def _gone(self) -> None:
        """A deleted topic is not there."""
        try:
            await read_queue(self._caller, self.broker, await self._address(), self.name, 0)
        except RequestRefused as refused:
            if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                return
        except FireArrowError:
            return  # no answer: the next round shows the outcome
        self.history.broken.append(f"I14: {self.name} on {self.broker} was deleted and is there")

    # ---- asking

    async def _ask(self, request: Request[Any]) -> None:
        """Ask until it is done: making and deleting may be said twice."""

        async def ask() -> None:
            await self._caller.call(await self._address(), request)

        await self._until_answered(ask)

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except FireArrowError as error:
                self.history.counts[f"topic life: {type(error).__name__}"] += 1
            await asyncio.sleep(TRY_AGAIN_S)

    async def _address(self) -> Address:
        while True:
            await self._routes.refresh(self.neighbour)
            if self.broker in self._routes.brokers:
                return self._routes.brokers[self.broker]
            await asyncio.sleep(TRY_AGAIN_S)


def _missing(sent: list[Sent], found: list[Read]) -> list[str]:
    at = {read.place: read.key for read in found}
    return [
        f"{one.key}, acknowledged at {one.place}, is not there: {at.get(one.place)} is"
        for one in sent
        if one.outcome is Outcome.OK and one.place is not None and at.get(one.place) != one.key
    ]

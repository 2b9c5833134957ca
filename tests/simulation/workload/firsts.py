"""The first messages of topics that nobody made: brokers make the topic for them, while disks fill up."""

import asyncio
from dataclasses import dataclass
from typing import Final

from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node
from tests.simulation.invariants.history import History
from tests.simulation.workload.producer import DEFAULT_TOPIC, TRY_AGAIN_S, Post, send
from tests.simulation.workload.routes import Routes

MOST_TOGETHER: Final = 3
MOST_TOPICS: Final = 60


@dataclass
class FirstSender:
    """Sends a message or a few to a topic that is not there yet, then to the next one."""

    name: str
    name_servers: list[Address]
    history: History
    pause_s: float = 0.15
    number: int = 0
    topics: int = 0
    stopped: bool = False
    """Set to end sending."""

    async def run(self, node: Node) -> None:
        """Its process."""
        caller = Caller(node.network)
        routes = Routes(caller, self.name_servers, node.rng)
        while not self.stopped and self.topics < MOST_TOPICS:
            await routes.refresh(DEFAULT_TOPIC)
            if routes.brokers:
                await self._begin(node, caller, routes)
            await asyncio.sleep(TRY_AGAIN_S if not routes.brokers else node.rng.expovariate(1.0) * self.pause_s)
        await caller.close()

    async def _begin(self, node: Node, caller: Caller, routes: Routes) -> None:
        """Begin a topic."""
        self.topics += 1
        topic, broker = f"N-{self.name}-{self.topics}", node.rng.choice(sorted(routes.brokers))
        posts = [self._post(topic, broker, queue_id) for queue_id in range(node.rng.randint(1, MOST_TOGETHER))]
        address = routes.brokers[broker]
        sends = [send(node, caller, address, post, self.history) for post in posts]
        self.history.sends += await asyncio.gather(*sends)
        self.history.counts["first messages"] += len(sends)

    def _post(self, topic: str, broker: str, queue_id: int) -> Post:
        self.number += 1
        return Post(key=f"{self.name}:{self.number}", topic=topic, broker=broker, queue_id=queue_id)

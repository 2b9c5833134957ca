"""Small clusters for one question each."""

import asyncio
from collections.abc import Awaitable, Callable

from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster

Scenario = Callable[[World, SimCluster, str], Awaitable[None]]


def ask(scenario: Scenario, *, brokers: int = 2, queues: int = 2, seeds: int = 3) -> None:
    """Run a scenario in a quiet cluster, from a few seeds."""

    async def main(world: World) -> None:
        cluster = SimCluster(world, "SYNC_FLUSH", {"T": queues})
        cluster.add_name_server()
        cluster.add_name_server()
        await asyncio.sleep(0.1)
        for number in range(brokers):
            await cluster.add_broker(f"broker{number}")
        await scenario(world, cluster, ";".join(map(str, cluster.name_servers)))

    for seed in range(seeds):
        World(seed).run(main)


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> float:
    """Wait for a condition; return how long that took, in virtual seconds."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while not condition():
        assert loop.time() - begun < seconds, "it has not come"
        await asyncio.sleep(0.05)
    return loop.time() - begun

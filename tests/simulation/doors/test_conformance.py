"""The simulated doors keep the same promises as the real ones."""

import pytest

from firearrow.testing.conformance.clock import CLOCK_CHECKS, ClockCheck
from firearrow.testing.conformance.disk import DISK_CHECKS, DiskCheck
from firearrow.testing.conformance.network import NETWORK_CHECKS, NetworkCheck, Site
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import World


@pytest.mark.parametrize("check", DISK_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("late", [False, True])
def test_disk(check: DiskCheck, late: bool) -> None:
    for seed in range(3):
        world = World(seed, disks=DiskProfile(late_writes=late))
        world.run(lambda world: check(world.node("machine").disk))


@pytest.mark.parametrize("check", CLOCK_CHECKS, ids=lambda check: check.__name__)
def test_clock(check: ClockCheck) -> None:
    world = World(1)
    world.run(lambda world: check(world.node("machine", skew_ms=5000, drift_ppm=100).clock))


@pytest.mark.parametrize("check", NETWORK_CHECKS, ids=lambda check: check.__name__)
def test_network(check: NetworkCheck) -> None:
    async def scenario(world: World) -> None:
        server, client = world.node("server"), world.node("client")
        await check(Site(server.network, client.network, server.host))

    for seed in range(5):
        World(seed).run(scenario)


@pytest.mark.parametrize("check", NETWORK_CHECKS, ids=lambda check: check.__name__)
def test_network_within_one_node(check: NetworkCheck) -> None:
    async def scenario(world: World) -> None:
        node = world.node("alone")
        await check(Site(node.network, node.network, "127.0.0.1"))

    World(1).run(scenario)

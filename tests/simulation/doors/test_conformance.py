"""The simulated doors keep the same promises as the real ones."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firearrow.testing.conformance.clock import CLOCK_CHECKS, ClockCheck
from firearrow.testing.conformance.coordinator import COORDINATOR_CHECKS, CoordinatorCheck
from firearrow.testing.conformance.disk import DISK_CHECKS, DiskCheck
from firearrow.testing.conformance.loop import LOOP_CHECKS, LoopCheck
from firearrow.testing.conformance.network import NETWORK_CHECKS, NetworkCheck, Site
from firearrow.testing.conformance.refusals import REFUSAL_CHECKS, RefusalCheck
from firearrow.testing.sim.coordinator import CoordinatorFaults, SimCoordinator
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.disk_image import STANDING
from firearrow.testing.sim.world import Node, World


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


@contextmanager
def refusing(node: Node, kind: str, number: int) -> Iterator[None]:
    """Have calls of a kind refused by a simulated disk."""
    node.image.fail(kind, number=number, times=STANDING)
    try:
        yield
    finally:
        node.image.mend()


@pytest.mark.parametrize("check", REFUSAL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("cold", [0.0, 0.3])
def test_refusals(check: RefusalCheck, cold: float) -> None:
    async def scenario(world: World) -> None:
        node = world.node("machine")
        await check(node.disk, lambda kind, number: refusing(node, kind, number))

    for seed in range(3):
        World(seed, disks=DiskProfile(cold_chance=cold)).run(scenario)


@pytest.mark.parametrize("check", LOOP_CHECKS, ids=lambda check: check.__name__)
def test_loop(check: LoopCheck) -> None:
    World(1).run(lambda _: check())


@pytest.mark.parametrize("check", COORDINATOR_CHECKS, ids=lambda check: check.__name__)
def test_coordinator(check: CoordinatorCheck) -> None:
    async def scenario(_: World) -> None:
        coordinator = SimCoordinator(random.Random(7))
        await check(lambda number: coordinator.member(number, 2.0))

    World(1).run(scenario)


def test_a_modelled_coordinator_fails_as_etcd_does() -> None:
    async def scenario(_: World) -> None:
        faults = CoordinatorFaults(old_read=1.0, lying_renewal=1.0)
        coordinator = SimCoordinator(random.Random(7), faults)
        first, second = coordinator.member(1, 2.0), coordinator.member(2, 2.0)
        assert await first.swap(None, b"a")
        assert await first.swap(b"a", b"b")
        assert (await second.read()).group in (None, b"a")
        assert not await second.swap(b"a", b"c")
        await second.announce(2, b"here")
        coordinator.revoke(1)
        assert await second.renew()
        assert coordinator.snapshot().live == {}
        coordinator.restore(1)
        assert coordinator.value == b"a"

    World(1).run(scenario)

"""Nodes: clocks that lie, crashes that unplug first, and runs that fail when anything in them does."""

import asyncio
import contextlib

import pytest

from firearrow.errors import BrokenInvariant, ConnectionFailed, DiskError
from firearrow.runtime.network import Address
from firearrow.testing.sim.clock import EPOCH_MS
from firearrow.testing.sim.world import Node, World


def test_clocks_skew_drift_and_jump() -> None:
    async def scenario(world: World) -> None:
        true = world.node("true").clock
        skewed = world.node("skewed", skew_ms=-500).clock
        fast = world.node("fast", drift_ppm=1000).clock
        await asyncio.sleep(100)
        assert true.now_ms() == EPOCH_MS + 100_000
        assert skewed.now_ms() == EPOCH_MS + 99_500
        assert fast.now_ms() == EPOCH_MS + 100_100
        skewed.jump(-1000)
        assert skewed.now_ms() == EPOCH_MS + 98_500
        fast.drift(0)
        await asyncio.sleep(1)
        assert fast.now_ms() == EPOCH_MS + 101_100
        assert true.ticks() == 101_000_000_000

    World(1).run(scenario)


def test_a_machine_boots_anew_after_a_power_loss_alone() -> None:
    async def scenario(world: World) -> None:
        node = world.node("node")
        first = node.boot_id
        await node.crash()
        assert node.boot_id == first
        await node.power_loss()
        assert node.boot_id != first

    World(1).run(scenario)


def test_a_crash_unplugs_first_and_cancels_second() -> None:
    told: list[str] = []

    async def program(node: Node) -> None:
        file = node.disk.open("a", create=True)
        file.write_at(0, [b"before"])
        try:
            await asyncio.Event().wait()
        finally:
            try:
                file.write_at(0, [b"after!"])
            except DiskError:
                told.append("dead disk")
            try:
                await node.network.connect(asyncio.Protocol, Address("localhost", 1))
            except ConnectionFailed as error:
                told.append(str(error).rpartition(": ")[2])

    async def scenario(world: World) -> None:
        node = world.node("node")
        node.start(program)
        await asyncio.sleep(1)
        await node.crash()
        assert not node.running
        assert await node.disk.read_whole("a") == b"before"

    World(1).run(scenario)
    assert told == ["dead disk", "node#1 is dead"]


def test_nothing_of_a_dead_process_runs_on() -> None:
    ticks: list[float] = []

    async def program(node: Node) -> None:
        loop = asyncio.get_running_loop()

        def tick() -> None:
            ticks.append(loop.time())
            loop.call_later(1, tick)

        async def orphan() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(-1)

        tick()
        node.orphan = loop.create_task(orphan())  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async def scenario(world: World) -> None:
        node = world.node("node")
        node.start(program)
        await asyncio.sleep(2.5)
        await node.crash()
        before = len(ticks)
        await asyncio.sleep(10)
        assert len(ticks) == before
        await node.restart()
        await asyncio.sleep(2.5)
        assert len(ticks) == 2 * before

    World(1).run(scenario)


def test_a_process_that_dies_frozen_is_dead() -> None:
    async def program(node: Node) -> None:
        await asyncio.sleep(5)
        node.disk.open("too late", create=True)

    async def scenario(world: World) -> None:
        node = world.node("node")
        node.start(program)
        await asyncio.sleep(1)
        node.freeze()
        await asyncio.sleep(10)
        assert not node.disk.exists("too late")
        await node.crash()
        await asyncio.sleep(10)
        assert not node.disk.exists("too late")

    World(1).run(scenario)


def test_stop_lets_the_program_finish_its_business() -> None:
    async def program(node: Node) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await node.disk.replace("goodbye", b"saved")

    async def scenario(world: World) -> bytes:
        node = world.node("node")
        node.start(program)
        await asyncio.sleep(1)
        await node.stop()
        return await node.disk.read_whole("goodbye")

    assert World(1).run(scenario) == b"saved"


async def broken_program(_: Node) -> None:
    await asyncio.sleep(1)
    raise BrokenInvariant("two and two are five")


def test_a_failing_program_fails_the_run_and_tells_the_seed() -> None:
    async def scenario(world: World) -> None:
        world.node("node").start(broken_program)
        await asyncio.sleep(100)

    with pytest.raises(BrokenInvariant) as caught:
        World(77).run(scenario)
    assert "seed 77, 1.000 virtual seconds" in caught.value.__notes__[0]


def test_a_failing_callback_fails_the_run() -> None:
    async def program(_: Node) -> None:
        names: dict[str, int] = {}
        asyncio.get_running_loop().call_later(1, lambda: names["missing"])
        await asyncio.Event().wait()

    async def scenario(world: World) -> None:
        world.node("node").start(program)
        await asyncio.sleep(100)

    with pytest.raises(KeyError, match="missing"):
        World(1).run(scenario)


def test_an_error_nobody_read_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("nobody reads this")

    async def scenario(_: World) -> None:
        asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="nobody reads this"):
        World(1).run(scenario)


def test_a_failing_scenario_ends_its_nodes() -> None:
    ended: list[str] = []

    async def program(_: Node) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def scenario(world: World) -> None:
        world.node("node").start(program)
        await asyncio.sleep(1)
        raise RuntimeError("the scenario's own")

    with pytest.raises(RuntimeError, match="the scenario's own"):
        World(1).run(scenario)
    assert ended == ["ended"]


def test_tasks_that_refuse_to_die_are_named() -> None:
    async def stubborn(_: Node) -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    async def scenario(world: World) -> None:
        node = world.node("mule")
        node.start(stubborn)
        await asyncio.sleep(0.5)
        await node.crash()

    with pytest.raises(AssertionError, match="tasks of mule#1 refuse to be cancelled: mule"):
        World(1).run(scenario)

"""Failing disks: the data that survives a power loss, the data that a crash keeps, and refused calls."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest

from firearrow.errors import DiskError, DiskFull, LockHeld, SyncFailed
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.disk_file import PAGE_BYTES
from firearrow.testing.sim.world import Node, World

Scenario = Callable[[Node], Awaitable[object]]


def play(scenario: Scenario, seed: int = 1, profile: DiskProfile | None = None) -> object:
    return World(seed).run(lambda world: scenario(world.node("machine", disk=profile)))


def outcomes(scenario: Scenario, seeds: int = 200) -> set[object]:
    return {play(scenario, seed) for seed in range(seeds)}


def test_synced_bytes_and_names_survive() -> None:
    async def scenario(node: Node) -> None:
        node.disk.make_directory("x/y")
        file = node.disk.open("x/y/a", create=True)
        file.write_at(0, [b"z" * 10_000])
        await file.sync()
        for directory in ("", "x", "x/y"):
            await node.disk.sync_directory(directory)
        file.write_at(9000, [b"unsynced" * 1000])
        await node.power_loss()
        assert (await node.disk.read_whole("x/y/a"))[:8192] == b"z" * 8192

    outcomes(scenario, 50)


def test_unsynced_pages_survive_in_any_subset() -> None:
    async def scenario(node: Node) -> str:
        file = node.disk.open("a", create=True)
        file.truncate(4 * PAGE_BYTES)
        await file.sync()
        await node.disk.sync_directory()
        for page in range(4):
            file.write_at(page * PAGE_BYTES, [b"x" * PAGE_BYTES])
        await node.power_loss()
        data = await node.disk.read_whole("a")
        pages = [data[start : start + PAGE_BYTES] for start in range(0, len(data), PAGE_BYTES)]
        assert all(page in (bytes(PAGE_BYTES), b"x" * PAGE_BYTES) for page in pages)
        return "".join("x" if page[0] else "0" for page in pages)

    seen = outcomes(scenario)
    assert len(seen) == 16, "every subset of four pages should turn up"


def test_unsynced_growth_survives_to_any_length_with_zeros_for_lost_pages() -> None:
    async def scenario(node: Node) -> tuple[int, bool]:
        file = node.disk.open("a", create=True)
        await node.disk.sync_directory()
        file.write_at(0, [b"x" * 3 * PAGE_BYTES])
        await node.power_loss()
        data = await node.disk.read_whole("a")
        return min(len(data) // PAGE_BYTES, 3), b"\0" in data

    seen = outcomes(scenario)
    assert {(0, False), (3, True), (3, False)} <= seen
    assert {(1, True), (1, False)} & seen
    assert {(2, True), (2, False)} & seen


def test_an_unsynced_truncate_may_come_undone() -> None:
    async def scenario(node: Node) -> bytes:
        file = node.disk.open("a", create=True)
        file.write_at(0, [b"old contents"])
        await file.sync()
        await node.disk.sync_directory()
        file.truncate(3)
        await node.power_loss()
        return await node.disk.read_whole("a")

    seen = outcomes(scenario)
    assert {b"old", b"old contents"} <= seen
    assert seen <= {b"old", b"old contents", b"old" + bytes(9)}


def test_names_survive_by_prefix_and_renames_whole() -> None:
    async def scenario(node: Node) -> tuple[str, ...]:
        disk = node.disk
        for name in ("a", "b"):
            await disk.open(name, create=True).sync()
        await disk.sync_directory()
        disk.open("c", create=True)
        disk.rename("a", "d")
        await disk.unlink("b")
        await node.power_loss()
        return tuple(await node.disk.list())

    assert outcomes(scenario) == {("a", "b"), ("a", "b", "c"), ("b", "c", "d"), ("c", "d")}


def test_a_rename_between_directories_needs_both_synced() -> None:
    async def scenario(node: Node) -> tuple[bool, bool]:
        disk = node.disk
        disk.make_directory("from")
        disk.make_directory("to")
        await disk.open("from/a", create=True).sync()
        for directory in ("", "from", "to"):
            await disk.sync_directory(directory)
        disk.rename("from/a", "to/a")
        await disk.sync_directory("to")
        await node.power_loss()
        return node.disk.exists("from/a"), node.disk.exists("to/a")

    assert outcomes(scenario, 50) == {(True, False), (False, True)}


def test_a_synced_file_without_a_name_is_lost() -> None:
    async def scenario(node: Node) -> bool:
        file = node.disk.open("a", create=True)
        file.write_at(0, [b"x"])
        await file.sync()
        await node.power_loss()
        return node.disk.exists("a")

    assert outcomes(scenario, 50) == {True, False}


def test_a_directory_lost_takes_its_files_with_it() -> None:
    async def scenario(node: Node) -> bool:
        node.disk.make_directory("d")
        await node.disk.open("d/a", create=True).sync()
        await node.disk.sync_directory("d")
        await node.power_loss()
        return node.disk.exists("d/a")

    assert outcomes(scenario, 50) == {True, False}


def test_a_process_crash_keeps_every_written_byte() -> None:
    async def scenario(node: Node) -> None:
        file = node.disk.open("a", create=True)
        file.write_at(0, [b"written"])
        syncing = asyncio.ensure_future(file.sync())
        await asyncio.sleep(0)
        await node.crash()
        syncing.cancel()
        assert await node.disk.read_whole("a") == b"written"
        await node.disk.open("a").sync()
        await node.disk.sync_directory()
        await node.power_loss()
        assert await node.disk.read_whole("a") == b"written"

    outcomes(scenario, 20)


def test_late_writes_are_lost_with_the_process_until_written() -> None:
    async def scenario(node: Node) -> bytes:
        file = node.disk.open("a", create=True)
        file.write_at(0, [b"first"])
        await file.written()
        file.write_at(5, [b"second"])
        assert file.read_at(0, 100) == b"firstsecond"
        assert file.size == node.disk.status("a").size == 11
        await node.crash()
        return await node.disk.read_whole("a")

    late = DiskProfile(late_writes=True)
    assert play(scenario, profile=late) == b"first"
    assert play(scenario) == b"firstsecond"


def test_a_late_write_that_finds_no_space_fails_whoever_waits() -> None:
    async def scenario(node: Node) -> None:
        file = node.disk.open("a", create=True)
        node.image.leave_free(0)
        file.write_at(0, [b"x"])
        with pytest.raises(DiskFull):
            await file.written()
        with pytest.raises(DiskFull):
            await file.sync()

    play(scenario, profile=DiskProfile(late_writes=True))


def test_a_failed_sync_drops_the_pages_and_the_image_says_ok_next_time() -> None:
    async def scenario(node: Node) -> bytes:
        file = node.disk.open("a", create=True)
        file.write_at(0, [b"durable"])
        await file.sync()
        await node.disk.sync_directory()
        node.image.fail("sync")
        file.write_at(0, [b"dropped"])
        with pytest.raises(SyncFailed):
            await file.sync()
        with pytest.raises(SyncFailed):
            await file.sync()
        seen = file.read_at(0, 7)
        await node.crash()
        again = node.disk.open("a")
        await again.sync()  # a new process is not fenced, and the kernel says OK
        await node.power_loss()
        assert await node.disk.read_whole("a") in (b"durable", b"dropped")
        return seen

    assert outcomes(scenario, 50) == {b"durable", b"dropped"}


def test_calls_fail_when_ordered_to() -> None:
    async def scenario(node: Node) -> None:
        file = node.disk.open("a", create=True)
        node.image.fail("write", after=2)
        file.write_at(0, [b"1"])
        file.write_at(1, [b"2"])
        with pytest.raises(DiskError) as caught:
            file.write_at(2, [b"3"])
        assert caught.value.errno == errno.EIO
        file.write_at(2, [b"3"])
        node.image.fail("read", path="b")
        assert file.read_at(0, 3) == b"123"
        node.image.fail("create", number=errno.ENOSPC)
        with pytest.raises(DiskFull):
            node.disk.open("c", create=True)
        node.image.fail("rename")
        with pytest.raises(DiskError):
            node.disk.rename("a", "z")
        node.image.fail("sync_directory", path="")
        for _ in range(2):
            with pytest.raises(SyncFailed):
                await node.disk.sync_directory()

    play(scenario)


def test_space_runs_out_and_comes_back() -> None:
    async def scenario(node: Node) -> None:
        disk, image = node.disk, node.image
        image.leave_free(4 * PAGE_BYTES)
        assert disk.usage().free == 4 * PAGE_BYTES
        file = disk.open("a", create=True)
        file.write_at(0, [bytes(3 * PAGE_BYTES)])
        assert disk.usage().free == PAGE_BYTES
        with pytest.raises(DiskFull, match="free some space"):
            file.write_at(3 * PAGE_BYTES, [bytes(2 * PAGE_BYTES)])
        with pytest.raises(DiskFull):
            await file.allocate(10 * PAGE_BYTES, zeroed=True)
        assert file.size == 3 * PAGE_BYTES
        await file.allocate(1000 * PAGE_BYTES)  # sparse: takes nothing
        file.write_at(0, [b"overwriting needs no space" * 10])
        file.truncate(PAGE_BYTES)
        assert disk.usage().free == 3 * PAGE_BYTES
        await disk.unlink("a")
        assert disk.usage().free == 4 * PAGE_BYTES
        file.write_at(0, [bytes(100 * PAGE_BYTES)])  # nameless: not counted
        await node.power_loss()
        assert node.disk.usage().free >= 0

    play(scenario)


def test_rot_flips_one_bit_for_good() -> None:
    async def scenario(node: Node) -> None:
        file = node.disk.open("a", create=True)
        file.write_at(0, [bytes(10_000)])
        await file.sync()
        await node.disk.sync_directory()
        node.image.rot("a")
        rotten = file.read_at(0, 10_000)
        assert sum(byte.bit_count() for byte in rotten) == 1
        await node.power_loss()
        assert await node.disk.read_whole("a") == rotten

    play(scenario)


def test_slow_syncs_take_their_time() -> None:
    async def scenario(node: Node) -> float:
        file = node.disk.open("a", create=True)
        for _ in range(50):
            file.write_at(0, [b"x"])
            await file.sync()
        return asyncio.get_running_loop().time()

    slow = play(scenario, profile=DiskProfile(sync_mean_s=0.2))
    assert isinstance(slow, float)
    assert 5 < slow < 20


def test_a_crash_gives_the_lock_back() -> None:
    async def scenario(node: Node) -> None:
        node.disk.lock("lock")
        with pytest.raises(LockHeld):
            node.disk.lock("lock")
        await node.crash()
        node.disk.lock("lock")

    play(scenario)


def test_times_of_change_follow_the_node_s_clock() -> None:
    async def scenario(node: Node) -> None:
        file = node.disk.open("a", create=True)
        node.clock.jump(5000)
        file.write_at(0, [b"x"])
        assert node.disk.status("a").modified_ms == node.clock.now_ms()

    play(scenario)

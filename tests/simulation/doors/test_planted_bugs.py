"""The simulator and the suites earn their keep: bugs planted in small subjects are caught, honest versions
are not.

* a log that acknowledges before its sync, caught by a power loss;
* a settings file whose rename is not followed by a directory sync, caught by a power loss;
* a sync that is retried after it failed, caught by fsyncgate and a power loss;
* a network that loses one byte of a stream, caught by the conformance suite.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firearrow.errors import SyncFailed
from firearrow.runtime.network import Address, Listener, Network, ProtocolFactory
from firearrow.testing.conformance.network import NETWORK_CHECKS, Site
from firearrow.testing.sim.disk import SimDisk
from firearrow.testing.sim.world import Node, World

SEEDS = 40
RECORD = 64


def caught(loses: Callable[[int], bool]) -> list[int]:
    """Return the seeds that show the bug."""
    return [seed for seed in range(SEEDS) if loses(seed)]


# -- acknowledge before sync


class Log:
    """Fixed-size records appended to a file; ``append`` returns when the record is acknowledged."""

    def __init__(self, disk: SimDisk) -> None:
        self._file = disk.open("log", create=True)
        self._disk = disk

    async def begin(self) -> None:
        await self._disk.sync_directory()

    async def append(self, record: bytes) -> None:
        self._file.write_at(self._file.size, [record])
        await self._file.sync()


class HastyLog(Log):
    """Acknowledges before the record is durable."""

    async def append(self, record: bytes) -> None:
        self._file.write_at(self._file.size, [record])
        asyncio.get_running_loop().create_task(self._file.sync())


class ForgetfulLog(Log):
    """Never makes the file's name durable."""

    async def begin(self) -> None:
        await asyncio.sleep(0)


def log_loses(kind: type[Log], seed: int) -> bool:
    async def scenario(world: World) -> bool:
        node = world.node("broker")
        acknowledged: list[bytes] = []

        async def program(node: Node) -> None:
            log = kind(node.disk)
            await log.begin()
            for number in range(1000):
                record = (b"record %d" % number).ljust(RECORD, b".")
                await log.append(record)
                acknowledged.append(record)
                await asyncio.sleep(0.001)

        node.start(program)
        await asyncio.sleep(world.rng.uniform(0.01, 0.3))
        await node.power_loss()
        if not node.disk.exists("log"):
            return bool(acknowledged)
        stored = await node.disk.read_whole("log")
        return not all(record in stored for record in acknowledged)

    return World(seed).run(scenario)


def test_an_honest_log_loses_nothing() -> None:
    assert caught(lambda seed: log_loses(Log, seed)) == []


@pytest.mark.parametrize("kind", [HastyLog, ForgetfulLog])
def test_a_log_that_acknowledges_too_early_is_caught(kind: type[Log]) -> None:
    assert len(caught(lambda seed: log_loses(kind, seed))) >= SEEDS // 10


# -- a lost rename


async def save_honestly(disk: SimDisk, data: bytes) -> None:
    await disk.replace("settings", data)


async def save_without_directory_sync(disk: SimDisk, data: bytes) -> None:
    file = disk.open("settings.tmp", create=True)
    file.truncate(0)
    file.write_at(0, [data])
    await file.sync()
    disk.rename("settings.tmp", "settings")


async def save_without_file_sync(disk: SimDisk, data: bytes) -> None:
    file = disk.open("settings.tmp", create=True)
    file.truncate(0)
    file.write_at(0, [data])
    disk.rename("settings.tmp", "settings")
    await disk.sync_directory()


Save = Callable[[SimDisk, bytes], Awaitable[None]]


def settings_lost(save: Save, seed: int) -> bool:
    async def scenario(world: World) -> bool:
        node = world.node("broker")
        for version in range(1 + seed % 3):
            await save(node.disk, b"version %d" % version)
        await node.power_loss()
        if not node.disk.exists("settings"):
            return True
        return await node.disk.read_whole("settings") != b"version %d" % (seed % 3)

    return World(seed).run(scenario)


def test_an_honest_replacement_is_never_lost() -> None:
    assert caught(lambda seed: settings_lost(save_honestly, seed)) == []


@pytest.mark.parametrize("save", [save_without_directory_sync, save_without_file_sync])
def test_a_lost_rename_is_caught(save: Save) -> None:
    assert len(caught(lambda seed: settings_lost(save, seed))) >= SEEDS // 10


# -- a sync retried after it failed


def retried_sync_loses(seed: int, *, honest: bool) -> bool:
    """Whether a record acknowledged after a failed sync is gone after the power loss."""

    async def scenario(world: World) -> bool:
        node = world.node("broker")
        file = node.disk.open("log", create=True)
        await node.disk.sync_directory()
        node.image.fail("sync")
        file.write_at(0, [b"record"])
        acknowledged = False
        try:
            await file.sync()
            acknowledged = True
        except SyncFailed:
            if not honest:  # around the door's fence, as a plain fsync would be retried
                state = node.image.file("log")
                state.finish_sync(state.begin_sync())
                acknowledged = True
        await node.power_loss()
        return acknowledged and await node.disk.read_whole("log") != b"record"

    return World(seed).run(scenario)


def test_a_retried_sync_is_caught() -> None:
    assert caught(lambda seed: retried_sync_loses(seed, honest=True)) == []
    # Nearly always: now and then the kernel had written the page back by itself before the sync that failed.
    assert len(caught(lambda seed: retried_sync_loses(seed, honest=False))) >= SEEDS * 3 // 4


# -- a byte lost in a stream


class LeakyNetwork:
    """Drops one byte in the middle of a stream."""

    def __init__(self, network: Network, leak_at: int) -> None:
        self._network = network
        self._leak_at = leak_at

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        return await self._network.connect(lambda: LeakyProtocol(factory(), self._leak_at), address)

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        return await self._network.listen(factory, address)


class LeakyProtocol(asyncio.Protocol):
    """Passes everything on but one byte."""

    def __init__(self, inner: asyncio.Protocol, leak_at: int) -> None:
        self._inner = inner
        self._left = leak_at
        self.connection_made = inner.connection_made  # type: ignore[method-assign]
        self.connection_lost = inner.connection_lost  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        if 0 <= self._left < len(data):
            data = data[: self._left] + data[self._left + 1 :]
            self._left = -1
        elif self._left >= 0:
            self._left -= len(data)
        if data:
            self._inner.data_received(data)


def suite_passes(seed: int, leak_at: int | None) -> bool:
    async def scenario(world: World) -> None:
        server, client = world.node("server"), world.node("client")
        door: Network = client.network
        if leak_at is not None:
            door = LeakyNetwork(door, leak_at)
        for check in NETWORK_CHECKS:
            await check(Site(server.network, door, server.host))

    try:
        World(seed).run(scenario)
    except (AssertionError, TimeoutError):
        return False
    return True


@pytest.mark.parametrize("leak_at", [0, 1, 5000, 20_000])
def test_a_byte_lost_in_a_stream_is_caught(leak_at: int) -> None:
    assert suite_passes(1, None)
    assert not suite_passes(1, leak_at)

"""Every moment of a run is a crash that might have been.

A log is driven through a random workload on a simulated disk. Before each call that reaches the disk its image is
copied, several times, and each copy suffers something: the process dies, or the power goes and any subset of the
unsynced pages, sizes and names survives. The copy is recovered with a disk that never waits and compared with what was
appended and what was promised. No world is run for a crash state, so one takes about a millisecond.

What must hold, bit rot apart: recovery opens the log; it yields a prefix of what was appended; everything promised is
in it; after the mere death of the process everything written is in it; nothing is called damage; recovering again
changes nothing; and a crash in the middle of the recovery changes nothing either.
"""

import asyncio
import errno
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from campaigns.drafts import columns_of_drafts
from firearrow.errors import DiskError, DiskFull, FireArrowError, Overloaded
from firearrow.record.decode import peek
from firearrow.store.config import LogConfig
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.placement import FLUSHED, WRITTEN, QueueTail
from firearrow.store.recovery.open_log import OpenedLog, open_log
from firearrow.store.running_log import RunningLog
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.disk_image import DiskImage
from firearrow.testing.sim.world import Node, World
from tests.simulation.store.kit import Died, FrozenClock, InstantDisk, clone, config, draft, no_sink, now

QUEUES: Final = 3


@dataclass
class History:
    """The acts on the log, and its promises."""

    placed: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    """(physical, end, queue offset, body) in log order, without what the log took back."""
    flushed: int = 0
    """The highest end that was acknowledged as FLUSHED."""
    written: int = 0
    """The highest end that was acknowledged as WRITTEN."""
    boot: int = 1
    sync_failed: bool = False
    """Whether a sync of the log has failed in this boot and the log could not say so yet: pages may have gone back."""

    forgotten: bool = False
    """Whether a sync of the log has failed since it was opened: what was only written may be gone at once."""

    def take_back(self, tail: int) -> None:
        """The log failed these: they may not come back."""
        while self.placed and self.placed[-1][1] > tail:
            self.placed.pop()

    @property
    def boot_id(self) -> str:
        """The id of the boot that runs."""
        return f"boot-{self.boot}"


@dataclass
class Explorer:
    """Opens crash states and checks them."""

    rng: random.Random
    settings: LogConfig
    history: History
    per_call: int = 4
    counts: Counter[str] = field(default_factory=Counter)
    log_handed: int = 0

    def moment(self, image: DiskImage, operation: str) -> None:
        """The disk is about to do something: try what happens if it never does."""
        for _ in range(self.per_call):
            power = self.rng.random() < 0.75
            self.state(image, power=power)
        self.counts[f"at {operation}"] += 1

    def state(self, image: DiskImage, *, power: bool) -> None:
        """One crash state, recovered, perhaps with a second crash on the way."""
        seed = self.rng.getrandbits(32)
        copied = clone(image, seed)
        copied.process_died()
        boot = self.history.boot
        if power:
            copied.lose_power()
            boot += 1
        if self.rng.random() < 0.15:
            boot = self._crash_inside(copied, boot)
        opened = self._open(copied, boot, seed)
        self._check(opened, copied, power=power or boot != self.history.boot, seed=seed)
        if self.rng.random() < 0.1:
            again = self._open(copied, boot, seed)
            assert again.recovered.end == opened.recovered.end, "recovering again moved the end"
            assert again.recovered.cut_bytes == 0
        self.counts["states"] += 1
        self.counts["power" if power else "process"] += 1
        self.counts["cut"] += opened.recovered.cut_bytes > 0

    def _crash_inside(self, image: DiskImage, boot: int) -> int:
        """Let a recovery die somewhere, and perhaps the power with it."""
        disk = InstantDisk(image, dies_at=self.rng.randrange(40))
        with suppress(Died):
            now(open_log(disk, FrozenClock(), self.settings, f"boot-{boot}"))
        image.process_died()
        if self.rng.random() < 0.7:
            image.lose_power()
            boot += 1
        return boot

    def _open(self, image: DiskImage, boot: int, seed: int) -> OpenedLog:
        try:
            return now(open_log(InstantDisk(image), FrozenClock(), self.settings, f"boot-{boot}"))
        except Exception as error:
            error.add_note(f"crash state {seed} cannot be opened")
            raise

    def _check(self, opened: OpenedLog, image: DiskImage, *, power: bool, seed: int) -> None:
        history, end = self.history, opened.recovered.end
        if history.sync_failed and not power:
            self.counts["after a failed sync"] += 1
            assert end >= history.flushed
            return
        found = now(read_all(opened, image))
        story = f"state {seed}, power={power}, end {end}, {opened.recovered}, promised {history.flushed}"
        assert found == history.placed[: len(found)], f"not a prefix of what was appended: {story}"
        reached = history.placed[len(found) - 1][1] if found else 0
        assert reached <= end, story
        assert end - reached < opened.segments.size, f"the end is nowhere: {story}"
        promised = history.flushed if power or history.forgotten else max(history.written, history.flushed)
        assert end >= promised, f"acknowledged and lost: {story}, written {history.written}"
        assert len(opened.damage) == 0, f"no rot here, yet damage: {story}"


async def read_all(opened: OpenedLog, image: DiskImage) -> list[tuple[int, int, int, bytes]]:
    """Every record of a recovered log: (physical, end, queue offset, body)."""
    del image
    found: list[tuple[int, int, int, bytes]] = []
    at = opened.segments.min_offset
    while at < opened.recovered.end:
        walked = await opened.scanner.walk(at, opened.recovered.end)
        for head in walked.heads:
            again = peek(walked.piece, head.start)
            place = head.physical_offset
            found.append((place, place + head.size, head.queue_offset, again.body(walked.piece)))
        assert walked.end > at, f"the log is not whole at {at}: {walked.reason}"
        at = walked.end
    return found


class Driver:
    """One run of the log, from start to crash or close."""

    def __init__(self, node: Node, settings: LogConfig, history: History, rng: random.Random) -> None:
        self._node = node
        self._settings = settings
        self._history = history
        self._rng = rng
        self.failed: FireArrowError | None = None

    async def run(self) -> None:
        """Recover, then append until told otherwise."""
        node, history = self._node, self._history
        try:
            running = await RunningLog.open(node.disk, node.clock, self._settings, history.boot_id, no_sink)
        except DiskError:
            return
        self._check_recovered(running)
        tails = [QueueTail("T", number) for number in range(QUEUES)]
        for physical, _, queue_offset, _ in history.placed:
            tails[physical % QUEUES].next_offset = max(tails[physical % QUEUES].next_offset, queue_offset + 1)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(running.run())
            for _ in range(self._rng.randrange(5, 40)):
                try:
                    await self._act(running, tails)
                except (Overloaded, DiskFull):
                    # Whoever is refused hears of it, and `_told` takes back what will never be there.
                    await asyncio.sleep(0.01)
                except DiskError as error:
                    self.failed = error
                    break
            if self.failed is None and self._rng.random() < 0.5:
                await self._close(running)
            elif self.failed is None:
                await asyncio.sleep(self._rng.random())
            running.log.fence(DiskError("the run is over"))
            task.cancel()

    async def _close(self, running: RunningLog) -> None:
        try:
            await running.close()
        except DiskError as error:
            self.failed = error

    def _check_recovered(self, running: RunningLog) -> None:
        history, end = self._history, running.log.tail
        history.take_back(end)
        assert end >= history.flushed
        history.flushed = history.written = end
        history.forgotten = False

    async def _act(self, running: RunningLog, tails: list[QueueTail]) -> None:
        rng, log = self._rng, running.log
        choice = rng.random()
        if choice < 0.6:
            self._append(running, [rng.randbytes(rng.choice((0, 10, 300, 1200)))], tails)
        elif choice < 0.7:
            self._append(running, [rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(1, 6))], tails)
        elif choice < 0.85:
            await asyncio.sleep(rng.expovariate(1.0) * 0.004)
        elif choice < 0.95 and self._history.placed:
            await log.reached(min(self._history.placed[-1][1], log.tail), rng.choice((WRITTEN, FLUSHED)))
        else:
            await running.flush()

    def _append(self, running: RunningLog, bodies: list[bytes], tails: list[QueueTail]) -> None:
        log, history = running.log, self._history
        tail = tails[log.tail % QUEUES]
        longest = self._rng.choice((0, 0, 40, 900 if len(bodies) == 1 else 40))
        words = [f"KEYS\x01{'k' * self._rng.randrange(1, longest)}\x02" if longest else "" for _ in bodies]
        drafts = [
            draft(body, queue_id=tail.queue_id, properties=word) for body, word in zip(bodies, words, strict=True)
        ]
        if len(drafts) > 1:
            envelope, columns = columns_of_drafts(drafts)
            batch = log.append_columns(envelope, [tail] * len(drafts), columns)
            starts, first, end = batch.physical_offsets, batch.queue_offsets[0], batch.end
        else:
            place = log.append(tail, drafts[0])
            starts, first, end = [place.physical_offset], place.queue_offset, place.end
        ends = [*starts[1:], end]
        history.placed += zip(starts, ends, range(first, first + len(bodies)), bodies, strict=True)
        for level in (WRITTEN, FLUSHED):
            log.on_reached(end, level, partial(self._told, log, level, end))

    def _told(self, log: CommitLog, level: int, end: int, error: FireArrowError | None) -> None:
        history = self._history
        if error is not None:
            if isinstance(error, DiskFull):
                history.take_back(log.tail)
            return
        if level is FLUSHED:
            history.flushed = max(history.flushed, end)
        history.written = max(history.written, end)


def explore(seed: int, *, per_call: int = 4, late: bool = False) -> Counter[str]:
    """Run one random history of several runs and check the crash states along it; return what was seen.

    Every third seed has a disk that is full again and again, every third one whose syncs fail; else any call may fail
    now and then. With ``late`` nothing fails, and writes stay in the process for a while.
    """
    rng = random.Random(seed)
    settings = config(
        sync=rng.random() < 0.5,
        segment=rng.choice((4096, 8192, 20480)),
        verify_window_bytes=rng.choice((0, 4096, 1 << 20)),
        zero_fill_ahead=rng.random() < 0.5,
        flush_interval_commit_log=10,
        flush_commit_log_thorough_interval=20,
        max_pending_bytes=rng.choice((4096, 1 << 20)),
    )
    history = History()
    world = World(seed, disks=DiskProfile(sync_mean_s=rng.choice((0.0005, 0.003)), late_writes=late))
    explorer = Explorer(rng, settings, history, per_call)

    async def scenario(world: World) -> None:
        node = world.node("disk")
        _watch(node.image, explorer)
        for _ in range(rng.randrange(1, 4)):
            if not late:
                _order_faults(node.image, rng, seed % 3)
            driver = Driver(node, settings, history, rng)
            node.start(lambda _, driver=driver: driver.run())  # type: ignore[misc]
            if rng.random() < 0.5:
                await node.finished()
            else:
                await asyncio.sleep(rng.random() * 0.1)
            await _end(node, history, rng)

    world.run(scenario)
    return explorer.counts


async def _end(node: Node, history: History, rng: random.Random) -> None:
    node.image._failures.clear()
    if rng.random() < 0.5:
        await node.crash()
        return
    await node.power_loss()
    history.boot += 1
    history.sync_failed = False
    history.written = history.flushed


def _order_faults(image: DiskImage, rng: random.Random, kind: int) -> None:
    if kind == 1:
        for after in range(10, 60, 10):
            image.fail("write", number=errno.ENOSPC, after=after + rng.randrange(10))
    elif kind == 2:
        image.fail("sync", after=rng.randrange(8, 40))
    elif rng.random() < 0.3:
        _order_any_fault(image, rng)


def _order_any_fault(image: DiskImage, rng: random.Random) -> None:
    operation = rng.choice(("write", "write", "sync", "sync_directory", "truncate", "allocate", "create"))
    number = errno.ENOSPC if rng.random() < 0.5 else errno.EIO
    image.fail(operation, number=number, after=rng.randrange(20), times=rng.randrange(1, 3))


def _watch(image: DiskImage, explorer: Explorer) -> None:
    check = image.check

    def watched(operation: str, path: str) -> None:
        if operation in ("write", "sync", "sync_directory", "truncate", "allocate", "create", "rename", "unlink"):
            explorer.moment(image, operation)
        try:
            check(operation, path)
        except OSError:
            if operation == "sync" and path.startswith(("commitlog", "firearrow/next-segment")):
                explorer.history.sync_failed = explorer.history.forgotten = True
            raise
        if operation == "write" and path == "firearrow/flushed":
            explorer.history.sync_failed = False

    image.check = watched  # type: ignore[method-assign]

"""Crash states of the whole store: the log with its queues, its index, and the offsets that groups and delays stand at.

`crashes` looks at the log alone, with syncs under way. Here a store on a disk that never waits is driven through a
random workload, and before every call that would change the disk a copy of its image suffers: the process dies, or the
power goes and any subset of unsynced pages, sizes and names survives. The copy is opened, sometimes dying on the way
once more.

What must hold: everything promised is in the log; the queues and the index are exactly what the log would give if they
were built from it again; and neither a group nor a delay level that wrote down how far it is stands behind the end of
its queue.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from firearrow.broker.delivery.delay_offsets import PATH as DELAYS_PATH
from firearrow.broker.delivery.delay_offsets import DelayOffsets
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.tables.offset_rows import PATH as OFFSETS_PATH
from firearrow.broker.tables.offset_rows import OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.store.queue.consume_queue import SCHEDULE_TOPIC
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import Shop, entries_of, keys_of_index, open_shop, truth_of
from tests.property.store.test_views import play
from tests.simulation.store.kit import Died, FrozenClock, InstantDisk, clone, fresh_image, now

GROUP: Final = "readers"
NO_END: Final = 1 << 62


class Progress:
    """The offsets of a group and of the delay levels, in files as brokers keep them."""

    def __init__(self, shop: Shop) -> None:
        self.offsets = OffsetTable()
        self.delays = DelayOffsets()
        rows = OffsetRows(self.offsets, lambda _topic, _queue_id: NO_END)
        self._files = [
            StateFile(shop.disk, OFFSETS_PATH, rows, settled=shop.flush_log),
            StateFile(shop.disk, DELAYS_PATH, self.delays, settled=shop.flush_log),
        ]

    async def load(self) -> None:
        """Take over what the files hold, and nothing that a crash left above the end of a queue."""
        for file in self._files:
            await file.load()

    async def commit(self, shop: Shop, *, whole: bool) -> None:
        """A group and the delays have come to the end of everything that can be seen, and write it down."""
        for queue in shop.views.queues:
            self.offsets.commit(GROUP, queue.topic, queue.queue_id, queue.max_offset)
        for queue in shop.views.queues.of_topic(SCHEDULE_TOPIC):
            self.delays.advance(queue.queue_id + 1, queue.max_offset)
        for file in self._files:
            await file.save()
            if whole:
                await file.write_whole(pause_s=0)


class WatchedDisk(InstantDisk):
    """Lets somebody look before every call that changes something."""

    def __init__(self, image: DiskImage, look: Callable[[str], None]) -> None:
        super().__init__(image)
        self._look = look

    def step(self, operation: str, path: str) -> None:
        """Look, then let it happen."""
        self._look(operation)
        super().step(operation, path)


class WholeExplorer:
    """Drives one store and opens what crashes leave of it."""

    def __init__(self, seed: int, share: float) -> None:
        self._rng = random.Random(seed)
        self._seed = seed
        self._share = share
        self._sync = self._rng.random() < 0.5
        self._clock = FrozenClock()
        self._shop: Shop | None = None
        self._boot = 1
        self.image = fresh_image(seed)
        self.counts: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        """A few lives of the store, each ended by a crash or in order."""
        rng = self._rng
        for _ in range(rng.randrange(1, 4)):
            self._shop = None
            shop = await open_shop(
                self.image,
                f"boot-{self._boot}",
                sync=self._sync,
                clock=self._clock,
                disk=WatchedDisk(self.image, self._moment),
            )
            shop.views.queues.writer.synced_each = rng.choice([0, 2, 100])
            self._shop = shop
            progress = Progress(shop)
            await progress.load()
            for _ in range(rng.randrange(1, 6)):
                await play(shop, rng, rng.randrange(12))
                await progress.commit(shop, whole=rng.random() < 0.3)
            if rng.random() < 0.4:
                await shop.close()
            self.image = clone(self.image, rng.getrandbits(32))
            self.image.process_died()
            if rng.random() < 0.6:
                self.image.lose_power()
                self._boot += 1
        return self.counts

    def _moment(self, operation: str) -> None:
        self.counts[f"at {operation}"] += 1
        if self._rng.random() < self._share:
            self._state(power=self._rng.random() < 0.75)

    def _state(self, *, power: bool) -> None:
        """One crash state, opened and compared."""
        seed = self._rng.getrandbits(32)
        image, boot = clone(self.image, seed), self._boot
        image.process_died()
        if power:
            image.lose_power()
            boot += 1
        promised = self._promised(power=power)
        if random.Random(seed).random() < 0.15:
            with suppress(Died):
                dying = InstantDisk(image, dies_at=random.Random(seed).randrange(120))
                now(open_shop(image, f"boot-{boot}", sync=self._sync, clock=self._clock, disk=dying))
            image.process_died()
            self.counts["dying twice"] += 1
        story = f"seed {self._seed}, state {seed}, power={power}, boot {boot}"
        try:
            shop = now(open_shop(image, f"boot-{boot}", sync=self._sync, clock=self._clock))
            now(self._check(shop, promised, story))
        except Exception as error:
            error.add_note(story)
            raise
        self.counts["states"] += 1
        self.counts["power" if power else "process"] += 1
        self.counts["cut"] += shop.opened.recovered.cut_bytes > 0

    def _promised(self, *, power: bool) -> int:
        if self._shop is None:
            return 0
        log = self._shop.running.log
        return log.flushed if power else log.written

    async def _check(self, shop: Shop, promised: int, story: str) -> None:
        assert shop.opened.recovered.end >= promised, f"acknowledged to {promised} and lost: {story}"
        assert len(shop.opened.damage) == 0, f"no rot here, yet damage: {story}"
        truth = await truth_of(shop)
        assert entries_of(shop) == dict(truth.entries), f"queues are not those of the log: {story}"
        assert await keys_of_index(shop, truth) == dict(truth.keys), f"the index is not that of the log: {story}"
        await self._check_offsets(shop, story)

    async def _check_offsets(self, shop: Shop, story: str) -> None:
        ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in shop.views.queues}
        progress = Progress(shop)
        await progress.load()
        for group, topic, queues in progress.offsets.rows():
            for queue_id, offset in queues.items():
                self.counts["offsets"] += 1
                assert offset <= ends.get((topic, queue_id), 0), f"{group} is ahead in {topic}/{queue_id}: {story}"
        for level, offset in progress.delays.table().offset_table.items():
            self.counts["delays"] += 1
            assert offset <= ends.get((SCHEDULE_TOPIC, level - 1), 0), f"level {level} is ahead: {story}"


def explore_whole(seed: int, share: float = 0.15) -> Counter[str]:
    """Run one random history and check a share of the crash states along it; return what was seen."""
    return asyncio.run(WholeExplorer(seed, share).run())

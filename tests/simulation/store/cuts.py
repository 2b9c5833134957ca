"""Cuts of a log under crashes: a replica owes a cut, dies at any calls on the way, and in the end the cut is whole.

What must hold once the cut is paid: the log ends at the cut and equals the old one below; no byte of the old tail is
left in a log file; queues and index are what the log gives; no group stands behind the end of its queue. And when the
log has grown again with other messages, after further crashes: still no record, entry or offset of the old tail.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress

from firearrow.broker.state.state_file import StateFile
from firearrow.broker.tables.offset_rows import PATH as OFFSETS_PATH
from firearrow.broker.tables.offset_rows import OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.errors import DiskError
from firearrow.store.paths import COMMIT_LOG
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import Shop, open_shop, truth_of
from tests.property.store.test_views import agrees, play
from tests.simulation.store.kit import Died, FrozenClock, InstantDisk, clone, fresh_image

GROUP = "readers"


class Replica:
    """A store with the offsets of a group, opened and cut as a broker does it."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.offsets = OffsetTable()
        rows = OffsetRows(self.offsets, lambda _topic, _queue_id: 1 << 62)
        self.file = StateFile(shop.disk, OFFSETS_PATH, rows, settled=shop.flush_log)

    @classmethod
    async def open(
        cls, image: DiskImage, boot: int, clock: FrozenClock, *, sync: bool, disk: InstantDisk | None = None
    ) -> "Replica":
        shop = await open_shop(image, f"boot-{boot}", sync=sync, clock=clock, disk=disk)
        replica = cls(shop)
        await replica.file.load()
        if replica.offsets.cut(replica.end_of):
            await replica.file.save_before_serving("offsets above the end of their queue")
        if shop.opened.replica.cut.offset is not None:
            await shop.views.flush_after_cut()
            await shop.opened.replica.cut.paid()
        return replica

    def end_of(self, topic: str, queue_id: int) -> int:
        queue = self.shop.views.queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    async def commit(self) -> None:
        for queue in self.shop.views.queues:
            self.offsets.commit(GROUP, queue.topic, queue.queue_id, queue.max_offset)
        await self.file.save()

    def committed(self) -> dict[tuple[str, int], int]:
        return {(topic, one): at for _, topic, queues in self.offsets.rows() for one, at in queues.items()}


class CutExplorer:
    """One history with one cut."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._clock = FrozenClock()
        self._sync = self._rng.random() < 0.5
        self._boot = 1
        self._image = fresh_image(seed)
        self.counts: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        rng = self._rng
        replica = await self._grown(await self._open())
        shop = replica.shop
        await shop.flush_log()
        old = await truth_of(shop)
        ends = [0, *(start + len(record) for start, record in old.records.items())]
        cut = rng.choice(ends)
        begun = rng.choice(ends)
        await shop.opened.replica.history.begin(1, 0)
        if begun:
            await shop.opened.replica.history.begin(2, begun)
        if rng.random() < 0.5:
            await shop.flush()
            await replica.commit()
        await shop.opened.replica.cut.owe(cut)
        if rng.random() < 0.5:
            await shop.close()
            self.counts["closed"] += 1
        self._crash()
        for _ in range(rng.randrange(4)):
            await self._die_on_the_way()
        replica = await self._open()
        await self._check(replica, cut, {at: record for at, record in old.records.items() if at < cut})
        at_cut = replica.committed()
        await self._grow_again(replica, set(old.records.values()), cut, at_cut)
        self.counts["cuts"] += 1
        self.counts["cut bytes"] += shop.running.log.tail - cut
        return self.counts

    async def _open(self) -> Replica:
        return await Replica.open(self._image, self._boot, self._clock, sync=self._sync)

    async def _grown(self, replica: Replica) -> Replica:
        for _ in range(self._rng.randrange(1, 4)):
            await play(replica.shop, self._rng, self._rng.randrange(1, 30))
            await replica.commit()
        return replica

    def _crash(self) -> None:
        self._image = clone(self._image, self._rng.getrandbits(32))
        self._image.process_died()
        if self._rng.random() < 0.5:
            self._image.lose_power()
            self._boot += 1
            self.counts["power"] += 1

    async def _die_on_the_way(self) -> None:
        dying = InstantDisk(self._image, dies_at=self._rng.randrange(250))
        with suppress(Died, DiskError):
            await Replica.open(self._image, self._boot, self._clock, sync=self._sync, disk=dying)
        self.counts["died"] += 1
        self._crash()

    async def _check(self, replica: Replica, cut: int, kept: dict[int, bytes]) -> None:
        shop = replica.shop
        assert shop.running.log.tail == cut, "the log does not end at the cut"
        assert (await truth_of(shop)).records == kept, "records below the cut changed"
        for name in await shop.disk.list(COMMIT_LOG):
            data = await shop.disk.read_whole(f"{COMMIT_LOG}/{name}")
            assert not any(data[max(cut - int(name), 0) :]), "stale bytes are left behind the cut"
        assert len(shop.opened.damage) == 0, "a cut is no damage"
        assert shop.opened.replica.cut.offset is None
        assert all(entry.start_offset < cut for entry in shop.opened.replica.history.epochs.entries)
        await self._agrees(replica)

    async def _agrees(self, replica: Replica) -> None:
        await agrees(replica.shop)
        for (topic, queue_id), offset in replica.committed().items():
            assert offset <= replica.end_of(topic, queue_id), "a group is ahead of its queue"

    async def _grow_again(
        self, replica: Replica, old: set[bytes], cut: int, at_cut: dict[tuple[str, int], int]
    ) -> None:
        """Other messages come; after more crashes nothing of the old tail is back."""
        rng = self._rng
        self._clock.at_ms += 60_000
        for _ in range(2):
            await play(replica.shop, rng, rng.randrange(1, 60))
            await replica.shop.flush_log()
            self._crash()
            replica = await self._open()
            await self._agrees(replica)
            assert replica.committed() == at_cut, "a group skips messages that came after the cut"
            truth = await truth_of(replica.shop)
            assert not old & {record for at, record in truth.records.items() if at >= cut}


def explore_cut(seed: int) -> Counter[str]:
    """Run one history with a cut; return what was seen."""

    async def main() -> Counter[str]:
        try:
            return await CutExplorer(seed).run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise

    return asyncio.run(main())

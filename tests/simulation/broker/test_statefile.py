"""A table on disk through crashes, power cuts, rot, failing calls, and somebody else who writes the file.

A random history of changes, savings and whole writings is driven on a disk that never waits. Before every call that
changes the disk a copy of its image suffers a crash and is read. What must hold: every row is as it was told to be
durable, or as it became later; and the file that Apache reads is whole at every moment.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable

import pytest

from firearrow import fastjson
from firearrow.broker.state.journal import read_journal
from firearrow.broker.state.state_file import StateFile, journal_path
from firearrow.broker.tables.offset_rows import OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topics import PATH, TopicTable
from firearrow.errors import DiskFull, FireArrowError, SettingsError, SyncFailed
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigTable
from firearrow.testing.sim.disk_image import DiskImage
from tests.simulation.store.kit import InstantDisk, clone, fresh_image, now
from tests.simulation.store.wholes import WatchedDisk

SEEDS = 40
STATES = 1_000
NAMES = ("a", "b", "c", "d")
JOURNAL = journal_path(PATH)


def topic(name: str, queues: int = 4) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)


class History:
    """One table, and what each of its rows may be after a crash: from the state told durable to the newest."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._seed = seed
        self.image = fresh_image(seed)
        self.table = TopicTable()
        self.since: dict[str, list[TopicConfig | None]] = {name: [None] for name in NAMES}
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Two lives of the table, the first ended by a crash or in order."""
        for _ in range(2):
            self.table = TopicTable()
            file = StateFile(WatchedDisk(self.image, self._moment), PATH, self.table)
            await file.load()
            self.since = {name: [self.table.get(name)] for name in NAMES}
            for number in range(self._rng.randrange(2, 9)):
                await self._step(file, number)
            if self._rng.random() < 0.3:
                await file.close()
                assert self._apaches_view(self.image) == dict(self.table.topics), "after an orderly end it is whole"
                assert _changes_in_journal(self.image) == 0
            self.image = clone(self.image, self._rng.getrandbits(32))
            self.image.process_died()

    async def _step(self, file: StateFile, number: int) -> None:
        whole = asyncio.create_task(file.write_whole(pause_s=0)) if self._rng.random() < 0.4 else None
        for _ in range(self._rng.randrange(3)):
            await asyncio.sleep(0)
        await self._change(file, number)
        if whole is not None:
            await whole

    async def _change(self, file: StateFile, number: int) -> None:
        for name in self._rng.sample(NAMES, self._rng.randrange(1, 4)):
            if self._rng.random() < 0.3:
                self.table.delete(name, number)
            else:
                self.table.put(topic(name, self._rng.randrange(1, 9)), number)
            self.since[name].append(self.table.get(name))
        durable = {name: len(states) - 1 for name, states in self.since.items()}

        def saved(error: FireArrowError | None) -> None:
            assert error is None
            for name, at in durable.items():
                del self.since[name][:at]

        file.changed(saved)
        await file.save()

    def _moment(self, operation: str) -> None:
        self.counts[operation] += 1
        if self._rng.random() < 0.3:
            self._crash(power=self._rng.random() < 0.7)

    def _crash(self, *, power: bool) -> None:
        seed = self._rng.getrandbits(32)
        image = clone(self.image, seed)
        image.process_died()
        if power:
            image.lose_power()
        table = TopicTable()
        now(StateFile(InstantDisk(image), PATH, table).load())
        for name, states in self.since.items():
            story = f"seed {self._seed}, state {seed}, power {power}, topic {name}"
            assert table.get(name) in states, f"{story}: {table.get(name)} is none of {states}"
        self._apaches_view(image)
        self.counts["states"] += 1

    def _apaches_view(self, image: DiskImage) -> dict[str, TopicConfig]:
        disk = InstantDisk(image)
        if not disk.exists(PATH):
            return {}
        return fastjson.decode(now(disk.read_whole(PATH)), TopicConfigTable).topic_config_table


def _changes_in_journal(image: DiskImage) -> int:
    disk = InstantDisk(image)
    return len(read_journal(now(disk.read_whole(JOURNAL))).changes) if disk.exists(JOURNAL) else 0


def test_what_was_told_durable_survives_every_crash() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = History(seed)
        asyncio.run(history.run())
        counts += history.counts
    assert counts["states"] >= STATES
    assert min(counts[operation] for operation in ("write", "sync", "sync_directory", "rename")) > 0


def _forget_a_line(patch: pytest.MonkeyPatch) -> None:
    async def extend(_self: StateFile, _lines: list[bytes]) -> None:
        """Write nothing."""

    patch.setattr(StateFile, "_extend", extend)


def _do_not_say_which_file(patch: pytest.MonkeyPatch) -> None:
    honest = StateFile._put_in_place

    async def silent(self: StateFile, draft: object, edition: object, holds: int) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        await honest(self, draft, edition, holds)  # type: ignore[arg-type]

    patch.setattr(StateFile, "_put_in_place", silent)


def _cut_too_much(patch: pytest.MonkeyPatch) -> None:
    honest = StateFile._put_in_place

    async def cutting(self: StateFile, draft: object, edition: object, _holds: int) -> None:
        await honest(self, draft, edition, 1 << 60)  # type: ignore[arg-type]

    patch.setattr(StateFile, "_put_in_place", cutting)


@pytest.mark.parametrize("plant", [_forget_a_line, _do_not_say_which_file, _cut_too_much])
def test_a_planted_bug_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        deque(asyncio.run(History(seed).run()) for seed in range(SEEDS))


# ---- rot, and others who write


async def _kept(*, whole: bool) -> tuple[DiskImage, dict[str, TopicConfig]]:
    """A table on disk: all of it in the file, or its last change in the journal only."""
    image = fresh_image()
    table = TopicTable()
    file = StateFile(InstantDisk(image), PATH, table)
    table.put(topic("a"), 1)
    await file.save()
    table.put(topic("b"), 2)
    table.delete("a", 3)
    await (file.close() if whole else file.save())
    return image, dict(table.topics)


def _read(image: DiskImage) -> dict[str, TopicConfig]:
    table = TopicTable()
    now(StateFile(InstantDisk(image), PATH, table).load())
    return dict(table.topics)


@pytest.mark.parametrize("whole", [True, False])
def test_no_rotten_bit_changes_a_table(whole: bool) -> None:
    image, expected = asyncio.run(_kept(whole=whole))
    disk = InstantDisk(image)
    for path in (PATH, f"{PATH}.bak", JOURNAL):
        for position in range(disk.status(path).size):
            for bit in (0, 4, 7):
                image.file(path).rot(position, bit)
                assert _read(image) == expected, f"{path} at {position}, bit {bit}"
                image.file(path).rot(position, bit)


def test_a_bit_turned_over_by_a_program_is_rot_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """One digit of an offset: the file is newer than what was written, and skips messages."""

    async def main() -> None:
        image = fresh_image()
        offsets = OffsetTable()
        rows = OffsetRows(offsets, lambda _topic, _queue_id: 10)
        file = StateFile(InstantDisk(image), "config/consumerOffset.json", rows)
        offsets.commit("g", "T", 0, 5)
        await file.close()
        disk = InstantDisk(image)
        data = await disk.read_whole(file.path)
        await disk.replace(file.path, data.replace(b'"0":5', b'"0":7'))
        image.file(file.path).modified_ms += 1_000
        again = OffsetTable()
        await StateFile(disk, file.path, OffsetRows(again, lambda _topic, _queue_id: 10)).load()
        assert again.committed("g", "T", 0) == 5

    asyncio.run(main())
    assert "it has rotted" in caplog.text


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_is_damaged_at_length_leaves_its_copy(whole: bool) -> None:
    image, expected = asyncio.run(_kept(whole=whole))

    async def damage() -> None:
        disk = InstantDisk(image)
        good = await disk.read_whole(PATH)
        for at in range(len(good)):
            for bad in (good[:at], good[:at] + bytes(len(good) - at), good[:at] + bytes(64) + good[at + 64 :]):
                await disk.replace(PATH, bad)
                table = TopicTable()
                await StateFile(disk, PATH, table).load()
                assert dict(table.topics) == expected, bad

    asyncio.run(damage())


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("later_ms", [1, -100_000])
def test_a_file_that_another_wrote_is_believed_whatever_its_time_is(whole: bool, copies: bool, later_ms: int) -> None:
    """Apache's broker, which came later, or a backup that was put back with its time."""
    image, _ = asyncio.run(_kept(whole=whole))

    async def apache_runs() -> None:
        disk = InstantDisk(image)
        other = b'{\n\t"dataVersion":{"counter":9},\n\t"topicConfigTable":{"x":{"topicName":"x"}}\n}'
        await disk.replace(f"{PATH}.bak", other if copies else await disk.read_whole(PATH))
        await disk.replace(PATH, other)
        for path in (PATH, f"{PATH}.bak"):
            image.file(path).modified_ms += later_ms

    asyncio.run(apache_runs())
    assert list(_read(image)) == ["x"]

    async def we_run() -> None:
        table = TopicTable()
        file = StateFile(InstantDisk(image), PATH, table)
        await file.load()
        table.put(topic("y"), 1)
        await file.save()

    asyncio.run(we_run())
    assert sorted(_read(image)) == ["x", "y"]


def test_a_file_without_a_journal_is_read_and_its_copy_where_it_cannot_be() -> None:
    async def main() -> None:
        disk = InstantDisk(fresh_image())
        disk.make_directory("config")
        await disk.replace(f"{PATH}.bak", b'{"topicConfigTable":{"x":{"topicName":"x"}}}')
        assert list(_read(disk.image)) == ["x"], "the copy alone"
        await disk.replace(PATH, b'{"topicConfigTable":{"y":')
        assert list(_read(disk.image)) == ["x"], "half a file"
        await disk.replace(f"{PATH}.bak", b"nothing")
        with pytest.raises(SettingsError, match="neither edition can be read"):
            _read(disk.image)

    asyncio.run(main())


# ---- calls that fail


def test_a_change_that_could_not_be_written_is_told_and_written_later() -> None:
    async def main() -> None:
        image = fresh_image()
        for failing in range(1, 40):
            table = TopicTable()
            disk = _FailingDisk(image)
            file = StateFile(disk, PATH, table)
            await file.load()
            told: list[FireArrowError | None] = []
            table.put(topic(f"t{failing}"), failing)
            file.changed(told.append)
            disk.fails_in = failing
            error = await file.save()
            disk.fails_in = 0
            assert told == [error]
            assert await file.save() is None
            assert table.topics.keys() <= _read(image).keys(), f"call {failing} failed"
            await file.close()
            assert dict(table.topics) == _read(image)

    asyncio.run(main())


class _FailingDisk(InstantDisk):
    """Says once that the disk is full, or that a sync failed."""

    fails_in = 0

    def step(self, operation: str, path: str) -> None:
        """Count down, then fail."""
        super().step(operation, path)
        if self.fails_in:
            self.fails_in -= 1
            if not self.fails_in:
                raise SyncFailed("no", 5) if operation == "sync" else DiskFull("no", 28)

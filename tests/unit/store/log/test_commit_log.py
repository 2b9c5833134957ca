"""Appending, writing once a turn, reading, and what happens when the disk says no."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from campaigns.drafts import columns_of_drafts
from firearrow.errors import DiskFull, IllegalMessage, OffsetNotStored, StoreFenced
from firearrow.model import EpochMs, Message, PhysicalOffset, QueueOffset
from firearrow.model.flags import COMMIT, PREPARED, ROLLBACK
from firearrow.record.batch import columns_of, encode_batch
from firearrow.record.columns import Envelope, UniformProperties
from firearrow.record.decode import decode, peek, size_and_magic
from firearrow.record.encode import Draft, encode
from firearrow.record.layout import BLANK_MAGIC
from firearrow.store.config import LogConfig
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.log.segments import Segments
from firearrow.store.placement import FLUSHED, WRITTEN, AppendedColumns, Placed, QueueTail, Rows
from firearrow.store.read.log_bytes import LogBytes
from firearrow.store.running_log import RunningLog
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.disk_image import DiskImage
from firearrow.testing.sim.world import Node, World
from tests.simulation.store.kit import HOST, FrozenClock, InstantDisk, config, draft, fresh_image

SEGMENT = 4096
ENVELOPE = Envelope("T", HOST, HOST)


class Bench:
    """A log on an instant disk, without a flusher."""

    def __init__(self, settings: LogConfig | None = None) -> None:
        self.image: DiskImage = fresh_image()
        self.disk = InstantDisk(self.image)
        self.disk.make_directory("commitlog")
        self.rows: list[Placed] = []
        self.segments = Segments(self.disk, SEGMENT)
        self.clock = FrozenClock()
        settings = settings or config(sync=False, segment=SEGMENT)
        self.log = CommitLog(self.segments, self.clock, settings, 0, self.rows.extend)
        self.bytes = LogBytes(self.log, self.segments)
        self.tail = QueueTail("T", 0)

    def bytes_at(self, physical: int, length: int) -> bytes:
        """The bytes on the disk."""
        return self.image.file(f"commitlog/{physical - physical % SEGMENT:020d}").read(physical % SEGMENT, length)


def _append_batch(bench: Bench, drafts: list[Draft]) -> AppendedColumns:
    envelope, columns = columns_of_drafts(drafts)
    return bench.log.append_columns(envelope, [bench.tail] * len(drafts), columns)


def on_bench(test: Callable[[Bench], Awaitable[None]]) -> Callable[[], None]:
    """Run a test inside a loop."""

    def run() -> None:
        async def main() -> None:
            await test(Bench())

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


@on_bench
async def test_one_turn_is_one_write(bench: Bench) -> None:
    calls = bench.disk.calls
    places = [bench.log.append(bench.tail, draft(b"x")) for _ in range(5)]
    assert bench.log.written == 0
    await asyncio.sleep(0)
    assert bench.log.written == bench.log.tail == places[-1].end
    assert bench.disk.calls - calls == 3, "create, lengthen, write"
    assert [row[3] for row in bench.rows] == [0, 1, 2, 3, 4]


@on_bench
async def test_a_record_is_what_the_place_says(bench: Bench) -> None:
    bench.log.append(bench.tail, draft(b"first"))
    place = bench.log.append(bench.tail, draft(b"second", properties="TAGS\x01a\x02"))
    record = bench.bytes.read_from(place.physical_offset, place.end - place.physical_offset)
    message = decode(record)
    assert (message.body, message.tag) == (b"second", "a")
    assert message.physical_offset == place.physical_offset
    assert message.queue_offset == place.queue_offset == 1
    assert message.store_timestamp == place.store_timestamp == bench.clock.at_ms
    assert bench.log.written == place.end, "reading it had it written"


@on_bench
async def test_store_times_never_go_back(bench: Bench) -> None:
    first = bench.log.append(bench.tail, draft())
    await asyncio.sleep(0)
    bench.clock.at_ms -= 5000
    assert bench.log.append(bench.tail, draft()).store_timestamp == first.store_timestamp


@on_bench
async def test_half_and_rolled_back_messages_take_no_queue_offset(bench: Bench) -> None:
    kinds = (0, PREPARED, ROLLBACK, COMMIT)
    places = [bench.log.append(bench.tail, draft(sys_flag=kind)) for kind in kinds]
    assert [place.queue_offset for place in places] == [0, 0, 0, 1]
    assert bench.tail.next_offset == 2
    await asyncio.sleep(0)
    assert [peek(bench.bytes_at(place.physical_offset, SEGMENT)).queue_offset for place in places] == [0, 0, 0, 1]


@pytest.mark.parametrize("spare", [7, 8, 9])
def test_eight_bytes_of_every_segment_are_the_fillers(spare: int) -> None:
    async def main() -> None:
        bench = Bench()
        empty = len(encode(draft(b""), QueueOffset(0), PhysicalOffset(0), EpochMs(0)))
        bench.log.append(bench.tail, draft(b"x" * (SEGMENT - 2 * empty - spare)))
        place = bench.log.append(bench.tail, draft(b""))
        await asyncio.sleep(0)
        assert place.physical_offset == (SEGMENT - empty - spare if spare >= 8 else SEGMENT)
        if spare < 8:
            left = empty + spare
            assert size_and_magic(bench.bytes_at(SEGMENT - left, 8)) == (left, BLANK_MAGIC)
        assert [segment.file.size for segment in bench.segments] == [SEGMENT] * (1 if spare >= 8 else 2)

    asyncio.run(main())


@on_bench
async def test_a_batch_is_never_split(bench: Bench) -> None:
    bench.log.append(bench.tail, draft(b"x" * 3000))
    places = _append_batch(bench, [draft(b"y" * 300) for _ in range(4)])
    assert places.physical_offsets[0] == SEGMENT
    assert list(places.queue_offsets) == [1, 2, 3, 4]
    await asyncio.sleep(0)
    assert [row[1:4:2] for row in bench.rows[1:]] == list(zip(places.physical_offsets, (1, 2, 3, 4), strict=True))
    assert bench.rows[-1][1] + bench.rows[-1][2] == places.end
    with pytest.raises(IllegalMessage, match="one piece"):
        _append_batch(bench, [draft(b"y" * 900) for _ in range(5)])
    assert bench.tail.next_offset == 5


@on_bench
async def test_only_what_does_not_fit_goes_unstamped(bench: Bench) -> None:
    bench = Bench(config(sync=False, segment=SEGMENT * 32))
    bench.segments.size = SEGMENT * 32
    long = "a\x01" + "b" * 32_700 + "\x02"
    longest = "a\x01" + "b" * 32_760 + "\x02"
    places = _append_batch(bench, [draft(properties=long), draft(properties=longest), draft()])
    ends = [*places.physical_offsets[1:], places.end]
    stamped = [bench.bytes.read_from(end - 20, 9) for end in ends]
    assert [tail == b"__CRC32#\x01" for tail in stamped] == [True, False, True]


@on_bench
async def test_too_large_a_body_is_refused_and_changes_nothing(bench: Bench) -> None:
    bench = Bench(config(sync=False, segment=SEGMENT, max_message_size=100))
    with pytest.raises(IllegalMessage, match="maxMessageSize"):
        bench.log.append(bench.tail, draft(b"x" * 101))
    with pytest.raises(IllegalMessage, match="maxMessageSize"):
        _append_batch(bench, [draft(b"x"), draft(b"x" * 101)])
    assert (bench.log.tail, bench.tail.next_offset) == (0, 0)
    bench.log.append(bench.tail, draft(b"x" * 100))


@on_bench
async def test_pending_bytes_have_a_limit(bench: Bench) -> None:
    bench = Bench(config(sync=False, segment=SEGMENT, max_pending_bytes=4096))
    for _ in range(40):
        bench.log.append(bench.tail, draft(b"x" * 200))
        assert bench.log.tail - bench.log.handed < 4096


@on_bench
async def test_reading_outside_is_refused(bench: Bench) -> None:
    place = bench.log.append(bench.tail, draft())
    for physical, size in ((place.end, 1), (0, place.end + 1), (SEGMENT * 9, 10)):
        with pytest.raises(OffsetNotStored):
            bench.bytes.read_hot(physical, size)
    assert bench.bytes.read_from(place.end, 100) == b""
    assert bench.bytes.read_hot(0, 4) == bench.bytes.read_from(0, 4) == await bench.bytes.read_cold(0, 4)


@on_bench
async def test_the_tail_is_read_as_it_grows(bench: Bench) -> None:
    grown: list[int] = []
    bench.log.on_growth(lambda: grown.append(bench.log.written))
    for _ in range(12):
        bench.log.append(bench.tail, draft(b"x" * 700))
    await asyncio.sleep(0)
    assert len(grown) == 1
    copy = b""
    while len(copy) < bench.log.written:
        copy += bench.bytes.read_from(len(copy), 1000)
    assert copy[: SEGMENT * 2] == bench.bytes_at(0, SEGMENT) + bench.bytes_at(SEGMENT, SEGMENT)


@on_bench
async def test_waiting_for_what_is_there_returns_at_once(bench: Bench) -> None:
    place = bench.log.append(bench.tail, draft())
    await bench.log.reached(place.end, WRITTEN)
    told: list[object] = []
    bench.log.on_reached(place.end, WRITTEN, told.append)
    assert told == [None]
    assert bench.log.has_reached(place.end, WRITTEN)
    assert not bench.log.has_reached(place.end, FLUSHED)


@on_bench
async def test_a_sink_that_fails_fences(bench: Bench) -> None:
    def broken(rows: Rows) -> None:
        raise ValueError(f"no queue takes {len(rows)} rows")

    log = CommitLog(bench.segments, bench.clock, config(sync=False, segment=SEGMENT), 0, broken)
    log.append(bench.tail, draft())
    with pytest.raises(ValueError, match="no queue"):
        log.write_pending()
    with pytest.raises(StoreFenced):
        log.append(bench.tail, draft())


def in_world(program: Callable[[Node], Awaitable[None]], **profile: bool) -> None:
    """Run a program on a simulated machine."""

    async def scenario(world: World) -> None:
        node = world.node("a", disk=DiskProfile(**profile))

        async def run(node: Node) -> None:
            await program(node)

        node.start(run)
        await node.finished()

    World(1).run(scenario)


def test_a_full_disk_refuses_and_recovers_without_a_restart() -> None:
    async def program(node: Node) -> None:
        rows: list[Placed] = []
        settings = config(segment=SEGMENT * 4, zero_fill_ahead=False)
        running = await RunningLog.open(node.disk, node.clock, settings, "b", rows.extend)
        tail = QueueTail("T", 0)
        async with asyncio.TaskGroup() as group:
            group.create_task(running.run())
            first = running.log.append(tail, draft(b"x" * 100))
            await running.log.reached(first.end, FLUSHED)
            node.image.leave_free(0)
            lost = running.log.append(tail, draft(b"y" * 9000))
            with pytest.raises(DiskFull):
                await running.log.reached(lost.end, WRITTEN)
            assert (running.log.tail, tail.next_offset) == (first.end, 1)
            assert LogBytes(running.log, running.opened.segments).read_hot(0, first.end)
            node.image.leave_free(1 << 20)
            await running.flush()
            again = running.log.append(tail, draft(b"z"))
            assert (again.physical_offset, again.queue_offset) == (first.end, 1)
            await running.log.reached(again.end, FLUSHED)
            assert [row[3] for row in rows] == [0, 1]
            await running.close()

    in_world(program)


def test_a_batch_that_a_full_disk_refuses_gives_its_places_back() -> None:
    async def program(node: Node) -> None:
        rows: list[Placed] = []
        settings = config(segment=SEGMENT * 8, zero_fill_ahead=False)
        running = await RunningLog.open(node.disk, node.clock, settings, "b", rows.extend)
        one, other = QueueTail("T", 0), QueueTail("T", 1)
        sent = [Message("T", b"y" * 3000, {"UNIQ_KEY": f"7F00000118B4AAC2{number:08X}"}) for number in range(3)]
        columns = columns_of(encode_batch(sent), 0, 1)
        assert type(columns.properties) is UniformProperties
        async with asyncio.TaskGroup() as group:
            group.create_task(running.run())
            first = running.log.append(one, draft(b"x" * 100))
            await running.log.reached(first.end, FLUSHED)
            node.image.leave_free(0)
            running.log.append(one, draft(b"before"))
            lost = running.log.append_columns(ENVELOPE, [one] * 3, columns)
            running.log.append(other, draft(b"behind", queue_id=1))
            assert (one.next_offset, other.next_offset) == (5, 1)
            with pytest.raises(DiskFull):
                await running.log.reached(lost.end, WRITTEN)
            assert (running.log.tail, one.next_offset, other.next_offset) == (first.end, 1, 0)
            node.image.leave_free(1 << 20)
            await running.flush()
            again = running.log.append_columns(ENVELOPE, [one] * 3, columns)
            assert (again.physical_offsets[0], again.queue_offsets[0]) == (first.end, 1)
            await running.log.reached(again.end, FLUSHED)
            assert [row[3] for row in rows] == [0, 1, 2, 3]
            await running.close()

    in_world(program)


def test_late_writes_are_waited_for() -> None:
    async def program(node: Node) -> None:
        rows: list[Placed] = []
        settings = config(sync=False, segment=SEGMENT)
        running = await RunningLog.open(node.disk, node.clock, settings, "b", rows.extend)
        tail = QueueTail("T", 0)
        async with asyncio.TaskGroup() as group:
            group.create_task(running.run())
            for _ in range(20):
                place = running.log.append(tail, draft(b"x" * 500))
                await asyncio.sleep(0)
                if running.log.handed == place.end:
                    assert running.log.written < place.end
                await running.log.reached(place.end, WRITTEN)
                assert rows[-1][1] == place.physical_offset
            await running.close()

    in_world(program, late_writes=True)

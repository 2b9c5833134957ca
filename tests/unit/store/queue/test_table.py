"""The table of queues: entries in memory and in files, gaps, deletion, and many queues at once."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

from firearrow.errors import DiskFull
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels
from firearrow.model.flags import COMMIT, PREPARED, ROLLBACK
from firearrow.store.dispatch import Dispatch
from firearrow.store.placement import Placed
from firearrow.store.queue.consume_queue import ENTRY, FILLER, entries_below
from firearrow.store.queue.table import LARGEST_GAP, QueueConfig, Queues
from firearrow.testing.sim.disk_image import DiskImage
from tests.simulation.store.kit import InstantDisk, fresh_image

PER_FILE = 5
CONFIG = QueueConfig(mapped_file_size_consume_queue=PER_FILE * 20, max_open_queue_files=8)


class Bench:
    """A table on an empty disk."""

    def __init__(self, config: QueueConfig = CONFIG) -> None:
        self.image: DiskImage = fresh_image()
        self.disk = InstantDisk(self.image)
        self.queues = Queues(self.disk, config)
        self.dispatch = Dispatch(self.queues, None, parse_delay_levels(DEFAULT_DELAY_LEVELS))

    def row(self, offset: int, queue_id: int = 0, flag: int = 0, topic: str = "T", properties: bytes = b"") -> Placed:
        """A message of 100 bytes."""
        return (self.queues.tail_of(topic, queue_id), offset * 100, 100, offset, 1, flag, properties)

    def data(self, queue_id: int, number: int) -> bytes:
        """The bytes in a file."""
        return self.image.file(f"consumequeue/T/{queue_id}/{number * PER_FILE * 20:020d}").read(0, 1 << 20)


def on_bench(test: Callable[[Bench], Awaitable[None]]) -> Callable[[], None]:
    """Run a test inside a loop."""

    @wraps(test)
    def run() -> None:
        async def main() -> None:
            await test(Bench())

        asyncio.run(main())

    del run.__wrapped__
    return run


@on_bench
async def test_entries_wait_in_memory_and_are_read_from_there(bench: Bench) -> None:
    bench.dispatch([bench.row(n) for n in range(3)])
    assert not bench.disk.exists("consumequeue")
    queue = bench.queues.tail_of("T", 0)
    assert bench.queues.entries_hot(queue, 1, 10) == ENTRY.pack(100, 100, 0) + ENTRY.pack(200, 100, 0)
    assert bench.queues.entries_hot(queue, 3, 10) == b""
    assert bench.dispatch.position == 300


@on_bench
async def test_a_flush_writes_files_of_full_length(bench: Bench) -> None:
    bench.dispatch([bench.row(n) for n in range(7)])
    bench.queues.writer.begin_flush(bench.dispatch.position)
    await bench.queues.writer.flush()
    assert bench.data(0, 0) == b"".join(ENTRY.pack(n * 100, 100, 0) for n in range(5))
    assert bench.data(0, 1) == ENTRY.pack(500, 100, 0) + ENTRY.pack(600, 100, 0) + bytes(60)
    queue = bench.queues.tail_of("T", 0)
    assert (queue.durable, queue.written, bench.queues.writer.pending_bytes) == (7, 7, 0)
    bench.image.lose_power()
    assert len(bench.data(0, 1)) == 100


@on_bench
async def test_rows_that_come_again_change_nothing(bench: Bench) -> None:
    rows = [bench.row(n) for n in range(4)]
    bench.dispatch(rows)
    bench.dispatch(rows[1:3])
    bench.dispatch([*rows[3:], bench.row(4)])
    assert bench.queues.tail_of("T", 0).max_offset == 5


@on_bench
async def test_prepared_and_rolled_back_messages_get_no_entry(bench: Bench) -> None:
    bench.dispatch([bench.row(0), bench.row(0, flag=PREPARED), bench.row(0, flag=ROLLBACK), bench.row(1, flag=COMMIT)])
    assert bench.queues.tail_of("T", 0).max_offset == 2


@on_bench
async def test_a_new_queue_that_begins_late_has_fillers_before(bench: Bench) -> None:
    bench.dispatch([bench.row(13)])
    bench.queues.writer.begin_flush(bench.dispatch.position)
    await bench.queues.writer.flush()
    queue = bench.queues.tail_of("T", 0)
    assert (queue.start, queue.max_offset) == (10, 14)
    assert bench.data(0, 2) == FILLER * 3 + ENTRY.pack(1300, 100, 0) + bytes(20)
    assert bench.queues.min_offset(queue, 0) == 13


@on_bench
async def test_a_gap_is_filled_and_one_beyond_reason_is_left_alone(bench: Bench) -> None:
    bench.dispatch([bench.row(0), bench.row(3)])
    queue = bench.queues.tail_of("T", 0)
    assert [bench.queues.entry(queue, n)[1] for n in range(4)] == [100, 0x7FFFFFFF, 0x7FFFFFFF, 100]
    bench.dispatch([bench.row(LARGEST_GAP * 2)])
    assert queue.max_offset == 4


@on_bench
async def test_a_queue_without_a_possible_directory_is_passed_over(bench: Bench) -> None:
    bench.dispatch([bench.row(0, topic="../up"), bench.row(0)])
    bench.queues.writer.begin_flush(bench.dispatch.position)
    await bench.queues.writer.flush()
    assert await bench.disk.list("consumequeue") == ["T"]


@on_bench
async def test_the_oldest_message_left_is_found_among_fillers(bench: Bench) -> None:
    bench.dispatch([bench.row(n) for n in (2, 3, 7, 8)])
    queue = bench.queues.tail_of("T", 0)
    expected = {0: 2, 200: 2, 201: 3, 301: 7, 700: 7, 701: 8, 801: 9}
    for start, offset in expected.items():
        queue.min_known_for = -1
        assert bench.queues.min_offset(queue, start) == offset


@on_bench
async def test_files_below_the_log_go_but_never_the_last(bench: Bench) -> None:
    bench.dispatch([bench.row(n) for n in range(12)])
    bench.queues.writer.begin_flush(bench.dispatch.position)
    await bench.queues.writer.flush()
    assert await bench.queues.drop_files_below(400, 10) == 0
    assert await bench.queues.drop_files_below(401, 10) == 1
    assert await bench.queues.drop_files_below(100_000, 10) == 1
    queue = bench.queues.tail_of("T", 0)
    assert (queue.start, await bench.disk.list("consumequeue/T/0")) == (10, [f"{200:020d}"])


@on_bench
async def test_a_deleted_topic_is_gone_and_late_rows_do_not_bring_it_back(bench: Bench) -> None:
    bench.dispatch([bench.row(0), bench.row(0, 1)])
    bench.queues.writer.begin_flush(bench.dispatch.position)
    await bench.queues.writer.flush()
    late = [bench.row(1)]
    bench.dispatch([bench.row(1, 1)])
    assert await bench.queues.delete_topic("T") == 2
    bench.dispatch(late)
    assert len(bench.queues) == 0
    assert not bench.disk.exists("consumequeue/T")
    assert bench.queues.writer.pending_bytes == 0


@on_bench
async def test_cutting_by_place_leaves_zeros(bench: Bench) -> None:
    bench.dispatch([bench.row(n) for n in range(12)])
    bench.queues.writer.begin_flush(bench.dispatch.position)
    await bench.queues.writer.flush()
    await bench.queues.cut(301)
    assert bench.queues.tail_of("T", 0).max_offset == 4
    assert await bench.disk.list("consumequeue/T/0") == [f"{0:020d}"]
    assert bench.data(0, 0)[80:] == bytes(20)


@on_bench
async def test_too_much_waiting_is_written_out(bench: Bench) -> None:
    small = Bench(QueueConfig(mapped_file_size_consume_queue=100, max_pending_queue_bytes=200, max_open_queue_files=8))
    for offset in range(4):
        small.dispatch([small.row(offset, queue_id) for queue_id in range(40)])
        assert small.queues.writer.pending_bytes <= 200
    del bench


def test_a_flush_that_stops_halfway_is_made_up_for_by_the_next() -> None:
    class FailsOnce(InstantDisk):
        failing = False

        def step(self, operation: str, path: str) -> None:
            if self.failing and operation == "sync" and "/1/" in path:
                self.failing = False
                raise DiskFull("no space")
            super().step(operation, path)

    async def main() -> None:
        disk = FailsOnce(fresh_image())
        queues = Queues(disk, CONFIG)
        dispatch = Dispatch(queues, None, (1000,))
        dispatch([(queues.tail_of("T", number), number * 100, 100, 0, 1, 0, b"") for number in range(3)])
        disk.failing = True
        queues.writer.begin_flush(dispatch.position)
        with pytest.raises(DiskFull):
            await queues.writer.flush()
        assert [queue.durable for queue in queues] == [0, 0, 0]
        queues.writer.begin_flush(dispatch.position)
        await queues.writer.flush()
        assert [queue.durable for queue in queues] == [1, 1, 1]

    asyncio.run(main())


def test_a_full_disk_loses_no_entry() -> None:
    class FullDisk(InstantDisk):
        full = True

        def step(self, operation: str, path: str) -> None:
            if self.full and operation in ("write", "create", "make"):
                raise DiskFull("no space")
            super().step(operation, path)

    async def main() -> None:
        disk = FullDisk(fresh_image())
        queues = Queues(disk, CONFIG)
        dispatch = Dispatch(queues, None, (1000,))
        dispatch([(queues.tail_of("T", 0), n * 100, 100, n, 1, 0, b"") for n in range(7)])
        queues.writer.begin_flush(dispatch.position)
        with pytest.raises(DiskFull):
            await queues.writer.flush()
        disk.full = False
        queues.writer.begin_flush(dispatch.position)
        await queues.writer.flush()
        queue = queues.tail_of("T", 0)
        assert queue.durable == 7
        assert [queues.entry(queue, n)[0] for n in range(7)] == [n * 100 for n in range(7)]

    asyncio.run(main())


@on_bench
async def test_what_comes_while_a_flush_is_under_way_is_durable_after_the_next(bench: Bench) -> None:
    bench.dispatch([bench.row(n) for n in range(3)])
    bench.queues.writer.begin_flush(bench.dispatch.position)
    bench.dispatch([bench.row(n) for n in range(3, 5)])
    await bench.queues.writer.flush()
    queue = bench.queues.tail_of("T", 0)
    assert (queue.durable, queue.written) == (3, 5)
    bench.queues.writer.begin_flush(bench.dispatch.position)
    await bench.queues.writer.flush()
    assert queue.durable == 5


@on_bench
async def test_what_is_written_out_early_counts_no_earlier(bench: Bench) -> None:
    bench.dispatch([bench.row(n) for n in range(3)])
    queue = bench.queues.tail_of("T", 0)
    bench.queues.writer.write_out(queue)
    bench.queues.writer.begin_flush(bench.dispatch.position)
    for n in range(3, 6):
        bench.dispatch([bench.row(n)])
        bench.queues.writer.write_out(queue)
    await bench.queues.writer.flush()
    assert (queue.durable, queue.written) == (3, 6)


@on_bench
async def test_an_entry_that_could_not_be_written_early_is_written_by_the_flush(bench: Bench) -> None:
    bench.dispatch([bench.row(0)])
    queue = bench.queues.tail_of("T", 0)
    bench.queues.writer.begin_flush(bench.dispatch.position)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.queues.files, "write", _full)
        with pytest.raises(DiskFull):
            bench.queues.writer.write_out(queue)
    await bench.queues.writer.flush()
    assert (queue.durable, queue.written) == (1, 1)
    assert bench.data(0, 0)[:20] == ENTRY.pack(0, 100, 0)


def _full(*_: object) -> None:
    raise DiskFull("no space")


@pytest.mark.parametrize(
    ("places", "position", "expected"),
    [
        ([0, 100, 200], 300, 3),
        ([0, 100, 200], 200, 2),
        ([0, 100, 200], 0, 0),
        ([None, None, 300], 300, 0),
        ([100, None, 300], 300, 1),
        ([100, None, 300, 400], 301, 3),
    ],
)
def test_entries_below_a_place_in_the_log_are_counted(places: list[int | None], position: int, expected: int) -> None:
    entries = b"".join(FILLER if place is None else ENTRY.pack(place, 100, 0) for place in places)
    assert entries_below(entries, position) == expected

"""Bytes of index files as Apache has them, rolling over, and questions by key."""

import asyncio
import struct
from array import array
from datetime import timedelta, timezone

import pytest

from firearrow.model.java_hash import java_hash
from firearrow.store.index.active_file import link
from firearrow.store.index.files import IndexFiles, time_name
from firearrow.store.index.key_hash import absolute, key_hash
from firearrow.store.index.key_index import TEXT_AT_ONCE, TEXT_HELD_BACK, Index
from firearrow.store.index.layout import ENTRY, Header, Shape, decode_header, name_after
from firearrow.store.index.load import load_found
from firearrow.store.placement import Placed
from firearrow.store.property_fields import MOST_KEY_BYTES, MOST_WORDS
from firearrow.store.queue.table import QueueConfig, Queues
from tests.simulation.store.kit import FrozenClock, InstantDisk, fresh_image

NOW = 1_700_000_000_000


class Bench:
    """An index on an empty disk."""

    def __init__(self, shape: Shape) -> None:
        self.disk = InstantDisk(fresh_image())
        self.index = Index(IndexFiles(self.disk, FrozenClock(NOW), shape))
        self.queues = Queues(self.disk, QueueConfig())

    def row(self, physical: int, properties: str, topic: str = "TopicA", store_ms: int = NOW, flag: int = 0) -> Placed:
        """A message."""
        return (self.queues.tail_of(topic, 0), physical, 100, 0, store_ms, flag, properties.encode())

    async def flush(self) -> None:
        """Write the index."""
        self.index.begin_flush()
        await self.index.flush()

    async def places(self, key: str, topic: str = "TopicA") -> list[int]:
        """The places of messages with a key."""
        found = self.index.candidates(topic, key, 0, 1 << 60)
        return [candidate.entry.physical async for candidate in found]


def test_the_hash_is_apaches() -> None:
    assert java_hash("TopicA#k1") == -1903240649
    assert key_hash("TopicA", "k1") == 1903240649
    assert key_hash("TopicA", "k1") % 1000 == 649
    assert absolute(0x80000000) == 0, "the smallest number has no absolute value"
    assert absolute(0xFFFFFFFF) == 1


def test_a_full_length_file_is_apaches() -> None:
    assert Shape(5_000_000, 20_000_000).file_bytes == 420_000_040


def test_the_bytes_of_a_file() -> None:
    async def main() -> None:
        bench = Bench(Shape(1000, 10))
        bench.index.put([bench.row(7, "UNIQ_KEY\x01u\x02KEYS\x01k1 k2\x02")])
        bench.index.put([bench.row(500, "KEYS\x01k1", store_ms=NOW + 2_999)])
        await bench.flush()
        (name,) = await bench.disk.list("index")
        assert name == "20231114221320000"
        data = await bench.disk.read_whole(f"index/{name}")
        assert len(data) == 40 + 4 * 1000 + 20 * 10
        assert struct.unpack(">qqqqii", data[:40]) == (NOW, NOW + 2_999, 7, 500, 3, 5)
        slot = key_hash("TopicA", "k1") % 1000
        assert struct.unpack_from(">i", data, 40 + 4 * slot) == (4,)
        entries = list(ENTRY.iter_unpack(data[4040 + 20 : 4040 + 100]))
        assert entries[1] == (1903240649, 7, 0, 0)
        assert entries[3] == (1903240649, 500, 2, 2)
        assert [entry[0] for entry in entries[:3]] == [key_hash("TopicA", key) for key in ("u", "k1", "k2")]

    asyncio.run(main())


def test_a_new_file_follows_a_full_one_and_both_are_asked() -> None:
    async def main() -> None:
        bench = Bench(Shape(3, 4))
        for number in range(8):
            bench.index.put([bench.row(number * 100, f"KEYS\x01k{number % 2}\x02", store_ms=NOW + number)])
        assert await bench.places("k1") == [700, 500, 300, 100], "from memory alone"
        await bench.flush()
        assert await bench.places("k0") == [600, 400, 200, 0]
        names = await bench.disk.list("index")
        assert len(names) == 3
        headers = [decode_header((await bench.disk.read_whole(f"index/{name}"))[:40]) for name in names]
        assert [header.next_number for header in headers] == [4, 4, 3]
        assert [(header.begin_physical, header.end_physical) for header in headers] == [
            (0, 200),
            (300, 500),
            (600, 700),
        ]
        found = bench.index.candidates("TopicA", "k0", NOW + 5, NOW + 6)
        assert [candidate.entry.physical async for candidate in found][:1] == [600]

    asyncio.run(main())


def test_files_that_apache_named_by_another_clock_are_put_in_order() -> None:
    """Apache names files by local time: west of Greenwich its new file has an earlier name than our old one."""

    async def main() -> None:
        bench = Bench(Shape(3, 4))
        for number in range(11):
            bench.index.put([bench.row(number * 100, "KEYS\x01k\x02", store_ms=NOW + number)])
        await bench.flush()
        bench.index.files.close()
        first, second, third, fourth = await bench.disk.list("index")
        bench.disk.rename(f"index/{third}", "index/20231114170000000")
        bench.disk.rename(f"index/{fourth}", "index/20231114180000000")
        bench.index = Index(IndexFiles(bench.disk, FrozenClock(NOW), Shape(3, 4)))
        assert await load_found(bench.index, None, 1100) == 1100
        assert await bench.places("k") == list(range(1000, -1, -100))
        found = bench.index.candidates("TopicA", "k", NOW + 9, NOW + 10)
        assert [candidate.entry.physical async for candidate in found][:2] == [1000, 900]
        names = await bench.disk.list("index")
        assert names[:2] == [first, second], "files in order keep their names"
        headers = [decode_header((await bench.disk.read_whole(f"index/{name}"))[:40]) for name in names]
        assert [header.begin_physical for header in headers] == [0, 300, 600, 900]

    asyncio.run(main())


def test_files_that_hold_the_same_stretch_of_the_log_hide_nothing() -> None:
    """After a crash Apache may enter a stretch of the log again, into other files than those that have it."""

    async def main() -> None:
        bench = Bench(Shape(3, 5))
        bench.index.put(
            [bench.row(number * 100, f"KEYS\x01k{number}\x02", store_ms=NOW + number) for number in range(6)]
        )
        await bench.flush()
        bench.index.files.close()
        bench.index = Index(IndexFiles(bench.disk, FrozenClock(NOW + 1000), Shape(3, 5)))
        again = range(3, 8)
        bench.index.put([bench.row(number * 100, f"KEYS\x01k{number}\x02", store_ms=NOW + number) for number in again])
        await bench.flush()
        bench.index.files.close()
        bench.index = Index(IndexFiles(bench.disk, FrozenClock(NOW), Shape(3, 5)))
        assert await load_found(bench.index, None, 800) == 800
        for number in range(8):
            found = bench.index.candidates("TopicA", f"k{number}", NOW + number, NOW + number)
            assert {candidate.entry.physical async for candidate in found} == {number * 100}

    asyncio.run(main())


def test_files_are_named_by_local_time() -> None:
    assert time_name(NOW) == "20231114221320000"
    assert time_name(NOW, timezone(timedelta(hours=-5))) == "20231114171320000"


def test_files_below_the_log_go_but_never_the_last() -> None:
    async def main() -> None:
        bench = Bench(Shape(3, 3))
        for number in range(6):
            bench.index.put([bench.row(number * 100, "KEYS\x01k\x02")])
        await bench.flush()
        assert await bench.index.files.drop_below(100, 10) == 0
        assert await bench.index.files.drop_below(101, 10) == 1
        assert await bench.index.files.drop_below(10_000, 10) == 1
        assert len(await bench.disk.list("index")) == 1
        assert await bench.places("k") == [500, 400]

    asyncio.run(main())


def test_long_and_foreign_keys_hash_like_javas() -> None:
    async def main() -> None:
        bench = Bench(Shape(101, 50))
        keys = ["k" * 33, "\u4e2d\u6587", "\U0001f600", "a", "F" * 56, "\u00e9" * 16]
        bench.index.put([bench.row(n, f"UNIQ_KEY\x01{key}\x02", topic="\u4e2d") for n, key in enumerate(keys)])
        for number, key in enumerate(keys):
            assert await bench.places(key, "\u4e2d") == [number]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("last", "now", "name"),
    [
        ("", "20260101000000000", "20260101000000000"),
        ("20260101000000000", "20260101000000000", "20260101000000001"),
        ("20270101000000000", "20260101000000000", "20270101000000001"),
    ],
)
def test_names_always_rise(last: str, now: str, name: str) -> None:
    assert name_after(last, now) == name
    assert time_name(0) == "19700101000000000"


def test_links_are_made_again_from_entries() -> None:
    entries = b"".join(ENTRY.pack(key_hash, 10 * n, 0, 77) for n, key_hash in enumerate([1, 4, 2, 1]))
    slots = array("i", bytes(12))
    used, wrong = link(entries, 1, slots)
    assert (used, list(slots)) == (2, [0, 4, 3])
    assert [(number, ENTRY.unpack(entry)[3]) for number, entry in wrong] == [(1, 0), (2, 1), (3, 0), (4, 2)]


def test_a_header_of_too_few_bytes_is_an_empty_one() -> None:
    assert decode_header(b"") == Header()


def test_so_much_of_keys_is_indexed() -> None:
    async def main() -> None:
        bench = Bench(Shape(16, 4000))
        words = [f"k{number}" for number in range(MOST_WORDS + 1)]
        long = "L" * (MOST_KEY_BYTES + 1)
        bench.index.put([bench.row(0, f"KEYS\x01{' '.join(words)}\x02"), bench.row(100, f"KEYS\x01{long}\x02")])
        bench.index.put([bench.row(200, f"UNIQ_KEY\x01{long}\x02"), bench.row(300, f"KEYS\x01a {long}\x02")])
        bench.index.put([bench.row(400, f"KEYS\x01{long[:-1]}\x02")])
        assert await bench.places("k127") == [0]
        assert await bench.places("k128") == []
        assert await bench.places(long) == []
        assert await bench.places("a") == [300]
        assert await bench.places(long[:-1]) == [400]
        bench.index.files.close()

    asyncio.run(main())


@pytest.mark.parametrize("is_flushing", [False, True])
def test_long_keys_do_not_wait_until_there_are_many(*, is_flushing: bool) -> None:
    """256 messages with as many keys as fit would block the loop for seconds."""

    async def main() -> None:
        bench = Bench(Shape(16, 400_000))
        most = 0
        if is_flushing:
            bench.index.begin_flush()
        limit = TEXT_HELD_BACK if is_flushing else TEXT_AT_ONCE
        for number in range(300):
            bench.index.put([bench.row(100 * number, f"KEYS\x01{'a ' * 16_000}\x02")])
            most = max(most, bench.index._waiting_rows)
        assert most * 32_000 <= limit + 32_000
        bench.index.put([bench.row(100_000, "KEYS\x01b\x02")])
        assert await bench.places("b") == [100_000]
        bench.index.files.close()

    asyncio.run(main())

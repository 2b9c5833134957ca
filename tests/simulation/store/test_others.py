"""Apache ran here before us, after us, or instead of us: what it wrote is neither cut nor called damage.

Apache is played by a writer of unstamped records, of copies that bear a stamp of ours grown stale, and of its abort
and checkpoint files.
"""

import struct

import pytest

from firearrow.errors import SettingsError
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.record.encode import encode
from firearrow.record.layout import blank
from firearrow.record.properties import StoredProperties
from firearrow.record.stamp import stamp_of
from firearrow.store.recovery.open_log import OpenedLog, checkpoint_crc, open_log
from tests.simulation.store.kit import FrozenClock, InstantDisk, config, draft, fresh_image, now, one_tail

SEGMENT = 4096
SETTINGS = config(segment=SEGMENT)
FOUND = config(segment=0)
STALE = StoredProperties(b"DELAY\x011\x02" + stamp_of(12345))


class Site:
    """A store directory, and whoever writes in it."""

    def __init__(self) -> None:
        self.image = fresh_image()
        self.disk = InstantDisk(self.image)
        self.tail = 0
        self.places: list[int] = []
        self.disk.make_directory("commitlog")

    def write(self, bodies: int, *, stamped: bool, properties: StoredProperties | None = None) -> None:
        """Records at the tail, as either program writes them, store times one second apart."""
        for _ in range(bodies):
            number = len(self.places)
            message = draft(number.to_bytes(2, "big") * 300)
            if properties:
                message = type(message)(
                    message.topic, 0, message.body, properties, EpochMs(1), message.born_host, message.store_host
                )
            record = self._encode(message, number, stamped=stamped)
            if self.tail % SEGMENT + len(record) + 8 > SEGMENT:
                self._put(blank(SEGMENT - self.tail % SEGMENT))
                self.tail += SEGMENT - self.tail % SEGMENT
                record = self._encode(message, number, stamped=stamped)
            self._put(record)
            self.places.append(self.tail)
            self.tail += len(record)

    def _encode(self, message: object, number: int, *, stamped: bool) -> bytes:
        assert isinstance(message, type(draft()))
        place = PhysicalOffset(self.tail)
        return encode(message, QueueOffset(number), place, EpochMs(1_000_000 + number * 1000), stamped=stamped)

    def _put(self, data: bytes) -> None:
        file = self.disk.open(f"commitlog/{self.tail - self.tail % SEGMENT:020d}", create=True)
        if file.size < SEGMENT:
            file.truncate(SEGMENT)
        file.write_at(self.tail % SEGMENT, [data])

    def spare(self) -> None:
        """The empty segment that Apache makes ahead."""
        self.disk.open(f"commitlog/{self.tail - self.tail % SEGMENT + SEGMENT:020d}", create=True).truncate(SEGMENT)

    def checkpoint(self, ms: int) -> None:
        """Apache's checkpoint."""
        now(self.disk.replace("checkpoint", struct.pack(">qqq", ms, ms, 0).ljust(4096, b"\0")))

    def open(self, settings: object = SETTINGS, boot: str = "boot-1") -> OpenedLog:
        """Open it with our own code."""
        self.disk.held.clear()
        assert isinstance(settings, type(SETTINGS))
        return now(open_log(self.disk, FrozenClock(), settings, boot))

    def ours(self, bodies: int, *, close: bool, flushed: bool = True) -> None:
        """A run of ours that appends and ends in order, or dies."""
        opened = self.open()
        self.write(bodies, stamped=True)
        if flushed:
            opened.slot.note(self.tail)
        if close:
            opened.ranges.ranges.finish(self.tail)
            now(opened.ranges.save(SEGMENT))
            now(opened.slot.finish(self.tail, now(checkpoint_crc(self.disk))))
            now(opened.presence.leave(in_order=True))

    def abort(self, content: bytes | None) -> None:
        """Apache's abort file, or its removal."""
        if content is not None:
            now(self.disk.replace("abort", content))
        elif self.disk.exists("abort"):
            now(self.disk.unlink("abort"))

    def check(self, settings: object = SETTINGS, boot: str = "boot-1") -> OpenedLog:
        """Open: everything is there, nothing is bad."""
        opened = self.open(settings, boot)
        assert now(readable(opened)) == self.places
        assert len(opened.damage) == 0
        assert opened.recovered.end == self.tail
        assert opened.recovered.cut_bytes == 0
        return opened


async def readable(opened: OpenedLog) -> list[int]:
    """The positions of the records that a reader gets."""
    rows = opened.scanner.rows(0, opened.recovered.end, one_tail, opened.damage.next_good)
    return [row[1] async for batch in rows for row in batch]


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize("died", [True, False])
@pytest.mark.parametrize("settings", [SETTINGS, FOUND], ids=["size given", "size found"])
def test_a_store_of_apaches(site: Site, settings: object, *, died: bool) -> None:
    site.write(20, stamped=False)
    site.spare()
    site.checkpoint(1_000_000)
    site.abort(b"4711" if died else None)
    opened = site.check(settings)
    assert opened.died is died
    assert opened.segments.size == SEGMENT
    assert opened.ranges.ranges.as_list() == [(site.tail, None)]


@pytest.mark.parametrize("died", [True, False])
def test_damage_in_a_store_of_apaches_cuts_nothing(site: Site, *, died: bool) -> None:
    site.write(20, stamped=False)
    site.checkpoint(0)
    site.abort(b"4711" if died else None)
    victim = site.places[-3]
    site.image.file(f"commitlog/{victim - victim % SEGMENT:020d}").rot(victim % SEGMENT + 100, 3)
    opened = site.open()
    assert now(readable(opened)) == [place for place in site.places if place != victim]
    assert [bad.start for bad in opened.damage.as_list()] == [victim]
    assert opened.recovered.end == site.tail


def test_apache_went_on_after_we_closed(site: Site) -> None:
    site.ours(8, close=True)
    ours = site.tail
    site.write(3, stamped=False)
    site.write(2, stamped=False, properties=STALE)
    site.checkpoint(1_020_000)
    opened = site.check()
    assert opened.ranges.ranges.as_list() == [(0, ours), (site.tail, None)]


@pytest.mark.parametrize(
    "left", [b"4711", b"", b"firearrow\n", None], ids=["killed", "killed 4.9", "unmarked", "closed"]
)
def test_apache_went_on_after_we_died(site: Site, left: bytes | None) -> None:
    site.ours(8, close=False)
    ours = site.tail
    site.write(3, stamped=False)
    site.write(2, stamped=False, properties=STALE)
    site.write(1, stamped=False)
    site.checkpoint(1_020_000)
    site.abort(left)
    site.check(boot="boot-1")
    opened = site.check(boot="boot-2")
    assert opened.ranges.ranges.as_list() == [(0, ours), (site.tail, None)]


def test_we_go_on_after_apache_went_on(site: Site) -> None:
    site.ours(5, close=True)
    site.write(5, stamped=False)
    site.checkpoint(1_020_000)
    site.ours(5, close=True)
    site.write(2, stamped=False)
    site.abort(b"4711")
    opened = site.check()
    assert len(opened.ranges.ranges.as_list()) == 3


def test_a_size_that_does_not_fit_is_refused(site: Site) -> None:
    site.write(20, stamped=False)
    with pytest.raises(SettingsError, match="mappedFileSizeCommitLog"):
        site.open(config(segment=4096 + 512))
    assert site.disk.held == set(), "a store that cannot be opened is not held"


def test_a_partial_last_write_of_a_dead_process_is_cut_and_kept(site: Site) -> None:
    site.ours(4, close=False)
    end = site.tail
    site.write(1, stamped=True)
    last = site.places.pop()
    site.image.file(f"commitlog/{last - last % SEGMENT:020d}").write(site.tail % SEGMENT - 40, bytes(40))
    site.tail = end
    opened = site.open()
    assert opened.recovered.end == end
    assert opened.recovered.cut_bytes > 0
    (cut,) = opened.damage.as_list()
    assert (cut.start, cut.kind) == (last, "cut")
    site.check()

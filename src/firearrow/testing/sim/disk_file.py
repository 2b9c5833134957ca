"""The contents of one simulated file: what programs see, and what survives a power loss.

A file is 4 KiB pages and a size. A write changes the visible pages and marks them dirty; nothing makes them
durable but a sync, or luck: the kernel may write any dirty page back at any time. On power loss every dirty
page is kept or lost by itself, so any subset survives, in the version of any moment.

Growing and truncating are a list of metadata changes, in order, until the file is synced. On power loss some
prefix of the list survives; a surviving growth may stop anywhere inside it. A size that survives without its
pages reads as zeros, and pages that survive beyond the size are gone.

A failed sync (fsyncgate) makes the dirty pages clean without storing them: some read back as before, some
still show what was never stored. The next sync says OK. Fencing is the door's duty.
"""

import random
from dataclasses import dataclass
from typing import Final

PAGE_BYTES: Final = 4096
_ZEROS: Final = bytes(PAGE_BYTES)


@dataclass(frozen=True, slots=True)
class _Resize:
    """A metadata change of a file: from one size to another."""

    before: int
    after: int


@dataclass(slots=True)
class SyncInProgress:
    """The pages and resizes that one running sync makes durable if it succeeds."""

    pages: dict[int, bytes]
    resizes: list[_Resize]


class FileNode:
    """One file: its visible contents, its durable contents, and the changes between them."""

    __slots__ = ("counted", "dirty", "durable", "durable_size", "modified_ms", "pages", "resizes", "size", "syncing")

    def __init__(self, modified_ms: int) -> None:
        self.pages: dict[int, bytearray] = {}
        self.size = 0
        self.durable: dict[int, bytes] = {}
        self.durable_size = 0
        self.dirty: dict[int, None] = {}
        self.resizes: list[_Resize] = []
        self.syncing: list[SyncInProgress] = []
        self.modified_ms = modified_ms
        self.counted = True  # whether its pages take space on the disk: a nameless file's do not

    # -- what programs see

    def read(self, position: int, length: int) -> bytes:
        """Return visible bytes, fewer at the end."""
        end = min(position + length, self.size)
        if end <= position:
            return b""
        first, last = position // PAGE_BYTES, (end - 1) // PAGE_BYTES
        if first == last:
            offset = position - first * PAGE_BYTES
            return bytes(self.pages.get(first, _ZEROS)[offset : offset + end - position])
        whole = b"".join([self.pages.get(number, _ZEROS) for number in range(first, last + 1)])
        return whole[position - first * PAGE_BYTES : end - first * PAGE_BYTES]

    def missing_pages(self, position: int, length: int) -> int:
        """Return how many pages a write there would have to allocate."""
        if not length:
            return 0
        numbers = range(position // PAGE_BYTES, (position + length - 1) // PAGE_BYTES + 1)
        return sum(number not in self.pages for number in numbers)

    def write(self, position: int, data: bytes) -> None:
        """Change visible bytes."""
        if position + len(data) > self.size:
            self._resize(position + len(data))
        done = 0
        while done < len(data):
            number, offset = divmod(position + done, PAGE_BYTES)
            page = self.pages.get(number)
            if page is None:
                page = self.pages[number] = bytearray(PAGE_BYTES)
            piece = data[done : done + PAGE_BYTES - offset]
            page[offset : offset + len(piece)] = piece
            self.dirty[number] = None
            done += len(piece)

    def truncate(self, size: int) -> int:
        """Cut or lengthen; return how many pages that freed."""
        before = len(self.pages)
        if size < self.size:
            keep, inside = divmod(size, PAGE_BYTES)
            for number in [n for n in self.pages if n >= keep + (inside > 0)]:
                del self.pages[number]
                self.dirty.pop(number, None)
            if inside and keep in self.pages:
                self.pages[keep][inside:] = bytes(PAGE_BYTES - inside)
                self.dirty[keep] = None
        if size != self.size:
            self._resize(size)
        return before - len(self.pages)

    def _resize(self, size: int) -> None:
        last = self.resizes[-1] if self.resizes else None
        if last is not None and last.before <= last.after <= size:
            self.resizes[-1] = _Resize(last.before, size)  # one growth
        else:
            self.resizes.append(_Resize(self.size, size))
        self.size = size

    # -- durability

    def write_back(self, rng: random.Random) -> None:
        """The kernel stores one dirty page by itself."""
        number = rng.choice(list(self.dirty)[:64])
        del self.dirty[number]
        self.durable[number] = bytes(self.pages[number])
        for sync in self.syncing:
            sync.pages.pop(number, None)  # a page is on its way once: an older version cannot land after this one

    def begin_sync(self) -> SyncInProgress:
        """Take what is dirty now; later writes are not part of it."""
        pages = {number: bytes(self.pages[number]) for number in self.dirty}
        sync = SyncInProgress(pages, self.resizes)
        self.dirty, self.resizes = {}, []
        self.syncing.append(sync)
        return sync

    def finish_sync(self, sync: SyncInProgress) -> None:
        """Everything taken at the beginning is durable."""
        self.syncing.remove(sync)
        self._apply_resizes([(resize, resize.after) for resize in sync.resizes])
        self.durable.update(sync.pages)

    def fail_sync(self, sync: SyncInProgress, rng: random.Random) -> None:
        """The pages are dropped: clean, and not stored. Some show it at once."""
        self.syncing.remove(sync)
        self.resizes = sync.resizes + self.resizes
        for number in sync.pages:
            if number not in self.dirty and number in self.pages and rng.random() < 0.5:
                self.pages[number] = bytearray(self.durable.get(number, _ZEROS))

    def abandon_syncs(self) -> None:
        """Abandon syncs of a dead process: the pages are as dirty as before."""
        for sync in reversed(self.syncing):
            self.resizes = sync.resizes + self.resizes
            self.dirty = {**{n: None for n in sync.pages if n in self.pages}, **self.dirty}
        self.syncing.clear()

    def lose_power(self, rng: random.Random) -> None:
        """Keep what is durable, and what luck adds."""
        running = self.syncing
        self.syncing = []
        resizes = [resize for sync in running for resize in sync.resizes] + self.resizes
        self._apply_resizes(_lucky_resizes(resizes, rng))
        chance = rng.choice((0.0, 0.5, 0.5, 1.0))
        for pages in [sync.pages for sync in running] + [{n: bytes(self.pages[n]) for n in self.dirty}]:
            for number, page in pages.items():
                if rng.random() < chance:
                    self.durable[number] = page
        self._cut_durable(self.durable_size)
        self.dirty, self.resizes = {}, []
        self.pages = {number: bytearray(page) for number, page in self.durable.items()}
        self.size = self.durable_size

    def _apply_resizes(self, resizes: list[tuple[_Resize, int]]) -> None:
        for resize, reached in resizes:
            if resize.after < resize.before:
                self._cut_durable(reached)
            self.durable_size = reached

    def _cut_durable(self, size: int) -> None:
        keep, inside = divmod(size, PAGE_BYTES)
        for number in [n for n in self.durable if n >= keep + (inside > 0)]:
            del self.durable[number]
        if inside and keep in self.durable:
            self.durable[keep] = self.durable[keep][:inside] + bytes(PAGE_BYTES - inside)

    def rot(self, position: int, bit: int) -> None:
        """Flip one bit, stored and seen."""
        number, offset = divmod(position, PAGE_BYTES)
        for pages in (self.pages, self.durable):
            if number in pages:
                page = bytearray(pages[number])
                page[offset] ^= 1 << bit
                pages[number] = page if pages is self.pages else bytes(page)  # type: ignore[assignment]


def _lucky_resizes(resizes: list[_Resize], rng: random.Random) -> list[tuple[_Resize, int]]:
    """Return the changes that survive, each with the size it reached."""
    if not resizes:
        return []
    count = rng.randrange(len(resizes) + 1)
    kept = [(resize, resize.after) for resize in resizes[:count]]
    if kept and (last := kept[-1][0]).after > last.before and rng.random() < 0.5:
        kept[-1] = (last, rng.randint(last.before, last.after))
    return kept

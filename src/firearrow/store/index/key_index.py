"""The key index: from ``topic#key`` to the positions of its messages, newest first.

Keys of many rows are hashed at once, at a tenth of the cost of one by one. A lookup gives candidates: two keys may have
the same hash, so the caller must check the records. Keys reach their file only in `flush`. Java: ``IndexService``.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from operator import itemgetter
from sys import maxsize
from typing import Annotated, Final, NamedTuple, cast

from msgspec import Meta, Struct

from firearrow.errors import ResourceShortage
from firearrow.runtime.turn import breathe
from firearrow.store.dispatch import Row
from firearrow.store.index.active_file import KeyPlace
from firearrow.store.index.checksums import sum_of_edges
from firearrow.store.index.files import DamagedIndex, IndexFiles, LostRange, OldIndex, Source
from firearrow.store.index.key_hash import key_hash
from firearrow.store.index.layout import FIRST_ENTRY, HEADER_BYTES, Header, IndexEntry
from firearrow.store.index.row_keys import hashed_keys, uniform_hashes
from firearrow.store.placement import Rows, UniformRows

ROWS_AT_ONCE: Final = 256
"""Rows whose keys are hashed together."""
ROWS_HELD_BACK: Final = 65_536
"""The most rows that wait while a flush writes the file."""
ROWS_TAKEN: Final = 256
"""Rows that are hashed at once after such a wait: all of them would block the loop for a tenth of a second."""
TEXT_AT_ONCE: Final = 128 << 10
TEXT_HELD_BACK: Final = 4 << 20
"""Bytes of properties that wait: 256 messages with a hundred keys each would block the loop for 40 ms."""
MOST_WORK: Final = 100_000
"""The most entries that one lookup by key reads, in all files together; a record counts as several."""
WORK_AT_ONCE: Final = 32
"""Entries that a lookup reads before it gives way: about half a millisecond."""


KEY_BYTES: Final = 160
"""About the memory of a hashed key that is in no file yet: a tuple of three numbers."""
ROW_BYTES: Final = 400
"""About the memory of a row whose keys are not hashed yet."""
_properties = itemgetter(6)


class IndexConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings of the key index."""

    message_index_enable: Annotated[bool, Meta(description="Whether messages can be found by key.")] = True
    max_hash_slot_num: Annotated[int, Meta(ge=1, le=1 << 28, description="Slots of one index file.")] = 5_000_000
    max_index_num: Annotated[int, Meta(ge=2, le=1 << 30, description="Entries of one index file.")] = 20_000_000


class Candidate(NamedTuple):
    """A message that may have the wanted key, and the entry that names it."""

    file_name: str
    number: int
    entry: IndexEntry
    checked: bool
    """Whether the entry was checked against a checksum."""


GiveWay = Callable[[], Awaitable[None]]
"""Lets others work: called between two pieces of a long work, and never under a lock."""


class Walk:
    """The work that one lookup by key may still do. Gives way after every piece of it."""

    def __init__(self, give_way: GiveWay = breathe) -> None:
        self._left = MOST_WORK
        self._done = 0
        self._give_way = give_way

    @property
    def is_over(self) -> bool:
        """Whether the lookup must end."""
        return self._left <= 0

    async def did(self, work: int = 1) -> None:
        """Count ``work`` entries; give way if it is time."""
        self._left -= work
        self._done += work
        if self._done >= WORK_AT_ONCE:
            self._done = 0
            await self._give_way()


class IndexState(NamedTuple):
    """The end of the index: its newest file and that file's header."""

    name: str
    header: Header
    edges: int = 0
    """Checksum of the entries on its first and last page, which page sums do not protect after a crash; or 0."""


class Index:
    """Adds the keys of rows to index files, and looks keys up."""

    def __init__(self, files: IndexFiles) -> None:
        self.files = files
        self.indexed_to = 0
        """Keys of records below this offset are in the index; their rows are skipped when they come again."""
        self.stalled: ResourceShortage | None = None
        """The error that keeps keys from being added to a file, until the next successful flush; else None."""
        self._waiting: list[Rows] = []
        self._waiting_rows = 0
        self._waiting_text = 0
        self._keys: list[KeyPlace] = []
        self._held_back = False
        self._state: IndexState | None = None

    # ---- putting

    def put(self, rows: Rows) -> None:
        """Take the keys of rows, in the order of the log."""
        waiting = self._waiting
        if type(rows) is UniformRows:
            waiting.append(rows)
            texts: Iterable[bytes] = rows.properties.texts
        else:
            if waiting and isinstance(waiting[-1], list):
                waiting[-1] += rows
            else:
                waiting.append(rows.copy())
            texts = map(_properties, rows)
        self._waiting_rows += len(rows)
        self._waiting_text += sum(map(len, texts))  # the work of hashing keys grows with the texts that hold them
        if self._waiting_rows >= (ROWS_HELD_BACK if self._held_back else ROWS_AT_ONCE):
            self.absorb(max(2 * len(rows), ROWS_TAKEN))
        elif self._waiting_text >= (TEXT_HELD_BACK if self._held_back else TEXT_AT_ONCE):
            self.absorb()

    def absorb(self, most: int = maxsize) -> None:
        """Hash waiting keys and add them to the file. If a full disk allows no new file, they go on waiting."""
        waiting, before = self._waiting, self._waiting_rows
        taken = 0
        while taken < len(waiting) and most > 0:
            rows = waiting[taken]
            if len(rows) > most:
                waiting[taken], rows = rows[most:], rows[:most]
            else:
                taken += 1
            most -= len(rows)
            self._waiting_rows -= len(rows)
            if type(rows) is not UniformRows or not self._enter_uniform(rows):
                self._gather(rows)
        del waiting[:taken]
        self._waiting_text = self._waiting_text * self._waiting_rows // before if before else 0
        self._enter()

    def _gather(self, rows: Rows) -> None:
        """Hash the keys of rows; `_enter` adds them to the file."""
        fresh = cast(
            "list[Row]",
            list(rows) if rows[0][1] >= self.indexed_to else [row for row in rows if row[1] >= self.indexed_to],
        )
        if fresh:
            self._keys += hashed_keys(fresh)
            self.indexed_to = fresh[-1][1] + 1

    def _enter_uniform(self, rows: UniformRows) -> bool:
        """Hash and add the keys of uniform rows; return False when they must be hashed one by one."""
        if self._keys and self.stalled is None:
            self._enter()
        active, places = self.files.active, rows.places
        if self._keys or active is None or places[0] < self.indexed_to:
            return False
        columns = uniform_hashes(rows)
        if columns is None or active.room < len(columns) * len(places):
            return False
        if columns:
            active.put_columns(columns, places, rows.store_ms)
        self.indexed_to = places[-1] + 1
        return True

    def _enter(self) -> None:
        while self._keys:
            active = self.files.active
            if active is None or active.room <= 0:
                try:
                    active = self.files.roll()
                except ResourceShortage as shortage:
                    self.stalled = shortage
                    return
            room = active.room
            active.put(self._keys[:room])
            self._keys = self._keys[room:]

    @property
    def waiting_bytes(self) -> int:
        """About the memory of the keys that are in no file yet."""
        in_files = sum(active.waiting_bytes for active in self.files.in_memory())
        return in_files + len(self._keys) * KEY_BYTES + self._waiting_rows * ROW_BYTES

    # ---- flushing

    def begin_flush(self) -> None:
        """Set the goal of the next flush: all keys added by now."""
        self.absorb()
        if self._keys and self.stalled is not None:
            raise self.stalled
        self.stalled = None
        active = self.files.active
        self._state = None if active is None else IndexState(active.name, active.header)
        self._held_back = True

    @property
    def state(self) -> IndexState | None:
        """The end of the index when the last flush began."""
        return self._state

    async def flush(self) -> None:
        """Make the keys durable that were added before `begin_flush`."""
        async with self.files.changing:
            try:
                await self.files.write_durably()
                await self._sum_edges()
            finally:
                self._held_back = False

    async def _sum_edges(self) -> None:
        state = self._state
        if state is not None:
            file = next((source.file for source in self.files.newest_first() if source.name == state.name), None)
            if file is not None:
                edges = await sum_of_edges(file, self.files.shape, state.header.next_number)
                self._state = state._replace(edges=edges)

    async def retire(self, name: str) -> LostRange:
        """Remove a damaged file from use; return the range that it held. `IndexFiles.make_again` must follow."""
        self.absorb()
        return await self.files.retire(name, self.indexed_to)

    # ---- looking up

    async def absorb_in_turns(self) -> None:
        """Add the waiting keys to the file. Yields to the loop."""
        for _ in range(0, self._waiting_rows, ROWS_TAKEN):
            self.absorb(ROWS_TAKEN)
            await breathe()

    async def candidates(
        self, topic: str, key: str, begin_ms: int, end_ms: int, walk: Walk | None = None
    ) -> AsyncIterator[Candidate]:
        """Entries with a key's hash whose store time may lie in the range, newest first. Raises `DamagedIndex`."""
        walk = walk or Walk()
        await self.absorb_in_turns()
        wanted = key_hash(topic, key)
        async with self.files.changing:
            newest_first = self.files.newest_first()
        for source in newest_first:
            header = source.header
            if isinstance(source, OldIndex):
                await self.files.read(source, 0, HEADER_BYTES)
            if header.next_number > FIRST_ENTRY and header.begin_ms <= end_ms and header.end_ms >= begin_ms:
                async for candidate in self._chain(source, wanted, begin_ms, end_ms, walk):
                    yield candidate
            if header.begin_ms < begin_ms or walk.is_over:
                return
            await walk.did()

    async def _chain(
        self, source: Source, wanted: int, begin_ms: int, end_ms: int, walk: Walk
    ) -> AsyncIterator[Candidate]:
        header = source.header
        slot = wanted % self.files.shape.slots
        number = await self.files.newest_of(source, slot)
        while FIRST_ENTRY <= number < header.next_number and not walk.is_over:
            entry = await self.files.entry(source, number)
            if entry.key_hash % self.files.shape.slots != slot or entry.seconds < 0:
                raise DamagedIndex(source.name, f"entry {number} does not belong to its chain")
            stored_ms = header.begin_ms + entry.seconds * 1000  # or up to a second later
            if stored_ms + 999 < begin_ms:
                return  # as Apache does: earlier entries are older still
            if entry.key_hash == wanted and stored_ms <= end_ms:
                yield Candidate(source.name, number, entry, self.files.sums_of(source) is not None)
            if entry.before >= number:
                raise DamagedIndex(source.name, f"entry {number} leads to {entry.before}")
            number = entry.before
            await walk.did()

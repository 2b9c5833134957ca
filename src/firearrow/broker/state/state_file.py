"""A table of the broker on disk: Apache's JSON file, written whole from time to time, and our journal of every change.

The cost of a change does not depend on the size of the table: changed rows go into the journal, with one synced append
for all rows that changed together. The file is written whole later, in pieces between turns of the loop, at most a
tenth of the time and at the latest after `WHOLE_LATEST_S`; then the journal is emptied. After an orderly stop the file
is complete and the journal empty, so Apache can open the directory. After a kill Apache sees the last whole file; we
also read the changes since from the journal (`journal`). `whole_file` chooses which copy of the file is read.

Changes are only noted, and written at most once per interval. A caller that waits until a change is durable has the
changes written at once. ``settled`` is awaited after a row is rendered and before it is written: offsets wait there
until the log is durable up to the rendered offset.

Invariants: the file is one edition or the next, never a mix; a change is reported as durable once the journal or the
file holds it durably; a row that changes during a write is written again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

import msgspec

from firearrow.broker.state.journal import DecodedJournal, Edition, encode_changes, encode_edition, read_journal
from firearrow.broker.state.whole_file import PAUSE_S, EditionDraft, FileChoice, choose, find, find_both
from firearrow.errors import BadBody, BrokenInvariant, DiskError, FireArrowError, SettingsError, SyncFailed
from firearrow.runtime.disk.door import Disk, File, parent_of
from firearrow.store.paths import OURS

T = TypeVar("T")
OnSaved = Callable[[FireArrowError | None], None]

ROWS_AT_ONCE: Final = 250
"""Rows rendered in one turn of the loop."""
JOURNAL_ROWS_MAX: Final = 20_000
"""The most rows that are written to the journal together; above it the file is written whole instead."""
WHOLE_SOONEST_S: Final = 1.0
WHOLE_LATEST_S: Final = 60.0
WHOLE_SHARE: Final = 10
"""The pause after a whole write, as a multiple of the time that the write took."""
RETRY_S: Final = 1.0

log = logging.getLogger(__name__)


class StateTable(Protocol):
    """A table that a state file stores. Journal lines have the table's own format; no line holds a line feed."""

    changes: dict[Any, None]
    """Keys of the changed rows; a save takes them and puts an empty dictionary in their place."""

    def line(self, key: Any) -> bytes:  # noqa: ANN401 - a table has keys of its own
        """Return the journal line of a row's current state."""
        ...

    def apply(self, line: bytes) -> None:
        """Apply a journal line to the table; raise ``BadBody`` when it cannot be read."""
        ...

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole file, a few hundred rows a piece. The table may change between two pieces."""
        ...

    def restore(self, data: bytes) -> None:
        """Load the table from a whole file; raise ``BadBody`` when it cannot be read."""
        ...


async def _at_once() -> None:
    pass


class StateFile:
    """The file and the journal of one table."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        table: StateTable,
        *,
        interval_ms: int = 0,
        settled: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self.path = path
        self.journal_path = journal_path(path)
        self._disk = disk
        self._table = table
        self._interval_s = interval_ms / 1000
        self._settled = settled
        self._waiting: list[OnSaved] = []
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._one_whole = asyncio.Lock()
        self._one_record = asyncio.Lock()
        self._behind = asyncio.Event()
        """Set while the whole file is out of date."""
        self._edition: Edition | None = None
        """The edition of the file in place; None when the file must be written whole before a journal can follow it."""
        self._journal: File | None = None
        self._number = 0
        self._lines: list[tuple[int, list[bytes]]] = []
        """The lines in the journal, with the numbers of their records."""
        self._whole_took_s = 0.0

    # ---- reading

    async def load(self) -> bool:
        """Load the table; return whether there was a file. Raise when neither copy can be read."""
        found = await find(self._disk, self.journal_path)
        journal = DecodedJournal() if found is None else read_journal(found.data)
        if journal.lost:
            log.error("%s: %d records of the journal cannot be read and are lost", self.journal_path, journal.lost)
        file, copy, unreadable = await find_both(self._disk, self.path)
        if unreadable is not None:
            self._behind.set()  # both copies are written again
        choice = choose(file, copy, journal.editions)
        if choice.complaint:
            log.log(logging.ERROR if choice.is_rotten else logging.WARNING, "%s", choice.complaint)
        if not choice.files:
            return False
        self._restore(choice, journal)
        return True

    def _restore(self, choice: FileChoice, journal: DecodedJournal) -> None:
        faults = []
        for file in choice.files:
            try:
                self._table.restore(file.data)
            except BadBody as error:
                log.warning("%s cannot be read: %s", file.path, error, extra={"path": file.path})
                faults.append(f"{file.path}: {error}")
                continue
            edition = journal.edition_of(file.data)
            if edition is not None:
                self._replay(journal.since(edition))
            elif journal.changes:
                log.error("%s is of another file: what it holds is not read", self.journal_path)
            if file.path == self.path and edition is not None:
                self._edition = Edition(edition.size, edition.crc)
            if file.path != self.path or faults or (edition is None and journal.editions):
                self._behind.set()
            return
        raise SettingsError(f"neither edition can be read ({'; '.join(faults)}): repair one or move both away")

    def _replay(self, lines: list[bytes]) -> None:
        for line in lines:
            try:
                self._table.apply(line)
            except BadBody as error:
                log.error("%s: a change cannot be read and is lost: %s", self.journal_path, error)  # noqa: TRY400
        if lines:
            # A new journal is written with the lines of the old one, whose end may be torn.
            self._lines = [(0, lines)]
            self._behind.set()

    # ---- changing

    def changed(self, on_saved: OnSaved | None = None) -> None:
        """Note a change; ``on_saved`` is called when the change is durable, or with the error that prevented that."""
        if on_saved is not None:
            self._waiting.append(on_saved)
            self._hurry.set()
        self._wanted.set()

    async def run(self) -> None:
        """Write changes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._save_changes())
            group.create_task(self._write_whole_now_and_then())

    async def _save_changes(self) -> None:
        while True:
            await self._wanted.wait()
            if self._interval_s:
                await self._pause()
            if await self.save() is not None:
                await asyncio.sleep(RETRY_S)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._interval_s):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def _write_whole_now_and_then(self) -> None:
        while True:
            await self._behind.wait()
            least = max(self._interval_s, WHOLE_SOONEST_S)
            await asyncio.sleep(min(max(least, WHOLE_SHARE * self._whole_took_s), WHOLE_LATEST_S))
            await self.write_whole()

    async def save(self) -> FireArrowError | None:
        """Make all noted changes durable; return the error that prevented it, which waiting callbacks get too."""
        async with self._one_at_a_time:
            self._wanted.clear()
            self._hurry.clear()
            waiting, self._waiting = self._waiting, []
            changes, self._table.changes = self._table.changes, {}
            try:
                error = await self._append(changes) if changes else None
            except BaseException:
                self._give_back(changes)
                self._waiting = waiting + self._waiting
                raise
            if error is not None:
                self._give_back(changes)
            self._tell(waiting, error)
            return error

    async def save_before_serving(self, what: str) -> None:
        """Make all noted changes durable, or raise: the next start must not find ``what`` in the file again."""
        error = await self.save()
        if error is not None:
            reason = f"{self.path} holds {what}, which must be gone from it before anything is served"
            raise DiskError(f"{reason}: make it writable and start again ({error})") from error

    def _give_back(self, changes: dict[Hashable, None]) -> None:
        self._table.changes.update(changes)
        self._wanted.set()

    def _tell(self, waiting: list[OnSaved], error: FireArrowError | None) -> None:
        if error is not None:
            log.error("%s cannot be written: %s", self.path, error, extra={"path": self.path})
        tell_all(waiting, error)

    # ---- the journal

    async def _append(self, changes: dict[Hashable, None]) -> FireArrowError | None:
        """Write rows to the journal, or write the file whole if that is less work or no journal can follow the file."""
        if self._edition is None or len(changes) > JOURNAL_ROWS_MAX:
            return await self.write_whole()
        try:
            lines = [line async for line in self._rendered(changes)]
            await self._settled()
            async with self._one_record:
                await self._extend(lines)
        except DiskError as error:
            return error
        self._behind.set()
        return None

    async def _rendered(self, changes: dict[Hashable, None]) -> AsyncIterator[bytes]:
        for done, key in enumerate(changes, 1):
            yield self._table.line(key)
            if done % ROWS_AT_ONCE == 0:
                await asyncio.sleep(PAUSE_S)

    async def _extend(self, lines: list[bytes]) -> None:
        if self._edition is None:
            raise DiskError(f"{self.journal_path} failed and the file is not written whole yet: it is tried again")
        journal = self._journal or await self._begin_journal()
        number = self._number + 1
        await self._write_record(journal, encode_changes(number, lines))
        self._lines.append((number, lines))

    async def _write_record(self, journal: File, record: bytes) -> None:
        """Append a record durably. After a failure the journal is truncated to its old end, or given up."""
        end, number = journal.size, self._number
        try:
            journal.write_at(end, [record])
            self._number += 1  # before the sync: the record stays even if the wait is cancelled
            await journal.sync()
        except SyncFailed:
            self._give_up_journal()
            raise
        except DiskError:
            self._number = number
            self._cut(journal, end)
            raise

    def _cut(self, journal: File, end: int) -> None:
        try:
            journal.truncate(end)
        except DiskError:
            self._give_up_journal()

    def _give_up_journal(self) -> None:
        """Close the journal after a failure: the next save writes the file whole."""
        if self._journal is not None:
            self._journal.close()
        self._journal = None
        self._edition = None
        self._behind.set()

    async def _begin_journal(self) -> File:
        """Replace the journal with a new one: the edition of the file, and the changes that the file lacks."""
        assert self._edition is not None
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self._number = 1
        records = [encode_edition(1, self._edition)]
        kept = [line for _, lines in self._lines for line in lines]
        if kept:
            self._number = 2
            records.append(encode_changes(2, kept))
        self._lines = [(2, kept)] if kept else []
        await self._make_directory(self.journal_path)
        await self._disk.replace(self.journal_path, b"".join(records))
        self._journal = self._disk.open(self.journal_path)
        return self._journal

    # ---- the whole file

    async def write_whole(self, *, pause_s: float = PAUSE_S) -> FireArrowError | None:
        """Write the file whole and empty the journal; return the error that prevented it."""
        async with self._one_whole:
            self._behind.clear()
            loop = asyncio.get_running_loop()
            began = loop.time()
            error: FireArrowError | None = None
            try:
                await self._try_whole(pause_s)
            except DiskError as failure:
                error = failure
                self._behind.set()
            except BaseException:
                self._behind.set()
                raise
            self._whole_took_s = loop.time() - began
            return error

    async def _try_whole(self, pause_s: float) -> None:
        async with self._one_record:
            if self._journal is None and self._edition is not None:
                await self._begin_journal()
            holds = self._number
        draft = EditionDraft(self._disk, self.path)
        try:
            await self._make_directory(self.path)
            edition = await draft.write(self._table.pieces(), pause_s=pause_s)
            await self._settled()
            async with self._one_record:
                await self._put_in_place(draft, edition, holds)
        except DiskError:
            await draft.discard()
            raise

    async def _put_in_place(self, draft: EditionDraft, edition: Edition, holds: int) -> None:
        if self._journal is not None:
            # Whether a crash leaves the old file or the new one, the journal must hold its edition.
            known = Edition(edition.size, edition.crc, holds)
            await self._write_record(self._journal, encode_edition(self._number + 1, known))
        await draft.put_in_place()
        self._edition = edition
        self._lines = [(number, lines) for number, lines in self._lines if number > holds]
        await self._begin_journal()

    async def _make_directory(self, path: str) -> None:
        directory = parent_of(path)
        if directory and not self._disk.exists(directory):
            self._disk.make_directory(directory)
            await self._disk.sync_directory(parent_of(directory))

    async def close(self) -> None:
        """Write the file whole and empty the journal; if that fails, log it and keep the changes in the journal."""
        if self._behind.is_set() or self._table.changes or self._lines:
            error = await self.write_whole(pause_s=0)
            if error is None:
                self._table.changes = {}
            else:
                log.error("%s cannot be written whole: %s", self.path, error, extra={"path": self.path})
        await self.save()
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def tell_all(waiting: list[OnSaved], error: FireArrowError | None) -> None:
    """Call callbacks of several clients: a bug in one of them must not keep the others from their outcome."""
    for on_saved in waiting:
        try:
            on_saved(error)
        except BrokenInvariant:
            raise
        except Exception:
            log.exception("a callback failed after a table was saved")


def journal_path(path: str) -> str:
    """Return the path of a file's journal: in our own directory, which Apache ignores."""
    return f"{OURS}/{path.rpartition('/')[2].partition('.')[0]}.journal"


def in_pieces(rows: Iterator[bytes], head: bytes, tail: bytes) -> Iterator[bytes]:
    """Yield a JSON file in pieces: ``head``, the rows separated by commas, ``tail``."""
    before = head
    while some := b",".join(islice(rows, ROWS_AT_ONCE)):
        yield before + some
        before = b","
    yield tail if before == b"," else head + tail


def decode_line(line: bytes, kind: type[T]) -> T:
    """Decode a journal line; raise ``BadBody`` when it cannot be decoded."""
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"{line[:80]!r}: {error}") from error

"""The audit log of a server: what was allowed and denied, appended to files that are never changed afterwards.

There are two sets of files, each a chain of its own: ``audit-*`` about requests that were allowed, ``refused-*`` about
those that were refused. Anybody can be refused without end, so refusals are damped (`refusal_rate`), and however many
there are, they take no room from the lines about changes.

Events of one turn of the loop are written together in the next turn; then the operating system has them, so they
survive the end of the process. Files are synced every `SYNC_S` seconds, so a power loss takes at most the events since
then. A file that has its size is followed by another one; the oldest are removed when there are too many. A start goes
on behind the last whole line, in a new file when the last line is unfinished.

Invariants: no byte that was written is written again; an event that could not be written, or was damped, is counted,
and the count is a line. The form of lines: `audit_lines`.
"""

import asyncio
import logging
import re
from typing import Final

from firearrow.access.audit_lines import ChainEnd, Event, LostEvents, end_of
from firearrow.access.settings import AccessConfig
from firearrow.errors import DiskError
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk, File
from firearrow.runtime.turn import Share, soon
from firearrow.telemetry.damped import DampedEvents

DIRECTORY: Final = "audit"
WAITING_MAX: Final = 10_000
"""The most events that wait to be written; further ones are lost and counted."""
SYNC_S: Final = 1.0
DAMPED_S: Final = 10.0
"""Seconds between two lines that count damped events."""
ALLOWED: Final = "audit"
REFUSED: Final = "refused"
"""The beginnings of the names of the two sets of files."""
UNWRITTEN: Final = "they could not be written"
DAMPED: Final = "there were too many refusals to write each of them"

_NAME: Final = re.compile(rf"({ALLOWED}|{REFUSED})-(\d{{8}})\.jsonl")

log = logging.getLogger(__name__)


def file_number(name: str, which: str = ALLOWED) -> int | None:
    """Return the number of an audit file of one set by its name; None for another file."""
    match = _NAME.fullmatch(name)
    return int(match[2]) if match is not None and match[1] == which else None


class AuditLog:
    """Appends events to one set of files in a directory of a disk."""

    def __init__(self, config: AccessConfig, disk: Disk, clock: Clock, which: str = ALLOWED) -> None:
        self._which = which
        self._size = config.audit_log_file_size
        self._count = config.audit_log_files
        self._disk = disk
        self.clock: Final = clock
        self._chain = ChainEnd()
        self._file: File | None = None
        self._number = 0
        self._position = 0
        self._waiting: list[Event] = []
        self._unsaid: dict[str, int] = {}
        """Events that were lost and are in no line yet, by the reason."""
        self._damped_said_ms = 0
        self._is_synced = True
        self._failures = DampedEvents()
        self.lines = 0
        """Lines that were written since the start."""
        self.lost = 0
        """Events that could not be written since the start."""
        self.damped = 0
        """Events that were counted instead of written since the start."""

    async def open(self) -> None:
        """Find the end of the log, and begin a file if there is none to go on with."""
        self._disk.make_directory(DIRECTORY)
        names = await self._disk.list(DIRECTORY)
        numbers = [number for name in names if (number := file_number(name, self._which)) is not None]
        torn = 0
        for number in sorted(numbers, reverse=True):
            data = await self._disk.read_whole(self._path(number))
            if b"\n" in data:
                torn = self._continue(number, data)
                break
            await self._remove_unbegun(number)
        if self._file is None:
            self._begin_file(torn)
        await self._sync()
        extra = {"line": self._chain.seq, "hash": self._chain.hash, "files": self._which}
        log.info("the audit log goes on behind line %d, hash %s, in files %s-*", *extra.values(), extra=extra)

    async def _remove_unbegun(self, number: int) -> None:
        """Remove a file without a whole line; the next file that is begun gets its number."""
        path = self._path(number)
        log.warning("%s has no whole line: the server was killed as it began the file; it is begun anew", path)
        await self._disk.unlink(path)
        self._number = number - 1

    def _continue(self, number: int, data: bytes) -> int:
        """Go on with the last file if it is whole; return the bytes of its last line if that is unfinished."""
        self._number = number
        path = self._path(number)
        try:
            end = end_of(data)
        except ValueError as error:
            log.warning("%s: %s; the log begins anew behind it", path, error, extra={"reason": str(error)})
            return 0
        if end is None:
            return 0
        self._chain, torn = end
        if torn:
            log.warning("%s ends with an unfinished line: the server was killed while it wrote", path)
        elif len(data) < self._size:
            self._file, self._position = self._disk.open(path), len(data)
        return torn

    def add(self, event: Event) -> None:
        """Write an event soon."""
        if len(self._waiting) >= WAITING_MAX:
            self._lose(1)
            return
        if not self._waiting:
            soon(Share.SERVICE, self._write)
        self._waiting.append(event)

    def damp(self) -> None:
        """Count an event instead of writing it."""
        self.damped += 1
        self._unsaid[DAMPED] = self._unsaid.get(DAMPED, 0) + 1

    def _lose(self, count: int) -> None:
        self.lost += count
        self._unsaid[UNWRITTEN] = self._unsaid.get(UNWRITTEN, 0) + count

    def _due(self) -> dict[str, int]:
        """The counts of lost events that are to be written now."""
        if DAMPED not in self._unsaid or self.clock.now_ms() - self._damped_said_ms >= DAMPED_S * 1000:
            return self._unsaid
        return {why: count for why, count in self._unsaid.items() if why != DAMPED}

    def _write(self) -> None:
        events, self._waiting = self._waiting, []
        due = self._due()
        if not events and not due:
            return
        seq, last = self._chain.seq, self._chain.hash
        try:
            if self._file is None or self._position >= self._size:
                self._begin_file()
                seq, last = self._chain.seq, self._chain.hash
            lines = [self._chain.line(event) for event in events]
            now_ms = self.clock.now_ms()
            lines += [self._chain.line(LostEvents(now_ms, count, why)) for why, count in due.items()]
            self._append(b"".join(lines))
        except DiskError as error:
            self._chain = ChainEnd(seq, last)
            self._lose(len(events))
            self._forget_unfinished()
            self._warn(error)
        else:
            if DAMPED in due:
                self._damped_said_ms = now_ms
            self._unsaid = {why: count for why, count in self._unsaid.items() if why not in due}
            self.lines += len(lines)

    def _append(self, data: bytes) -> None:
        assert self._file is not None, "a file is begun before lines are written"
        self._file.write_at(self._position, [data])
        self._position += len(data)
        self._is_synced = False

    def _forget_unfinished(self) -> None:
        """Cut off what a failed write may have left behind the last line."""
        try:
            if self._file is not None and self._file.size > self._position:
                self._file.truncate(self._position)
        except DiskError:
            self._file = None  # the next file begins without it, and a verification names the unfinished line

    def _begin_file(self, torn: int = 0) -> None:
        number = self._number + 1
        file = self._disk.open(self._path(number), create=True, private=True)
        chain = ChainEnd(self._chain.seq, self._chain.hash)
        line = chain.first(number, torn)
        file.write_at(0, [line])
        if self._file is not None:
            self._file.close()
            extra = {"line": chain.seq, "hash": chain.hash}
            log.info("another file of the audit log begins with line %d, hash %s", *extra.values(), extra=extra)
        self._file, self._number, self._position, self._chain = file, number, len(line), chain
        self._is_synced = False

    def _warn(self, error: DiskError) -> None:
        if self._failures.count(asyncio.get_running_loop().time()):
            extra = {"reason": str(error), "lost": self.lost}
            log.warning("the audit log cannot be written, %d events are lost: %s", self.lost, error, extra=extra)

    async def run(self) -> None:
        """Sync files and remove the oldest, until cancelled; then write and sync what is left."""
        try:
            while True:
                await asyncio.sleep(SYNC_S)
                await self._look_after()
        finally:
            self._damped_said_ms = 0
            await self._look_after()

    async def _look_after(self) -> None:
        self._write()
        try:
            await self._sync()
            names = await self._disk.list(DIRECTORY)
            names = [name for name in names if file_number(name, self._which) is not None]
            for name in names[: -self._count]:
                await self._disk.unlink(f"{DIRECTORY}/{name}")
        except DiskError as error:
            self._warn(error)

    async def _sync(self) -> None:
        if not self._is_synced and self._file is not None:
            self._is_synced = True
            await self._file.sync()
            await self._disk.sync_directory(DIRECTORY)

    def _path(self, number: int) -> str:
        return f"{DIRECTORY}/{self._which}-{number:08}.jsonl"

"""The audit log of a server: what was allowed and denied, appended to files that are never changed afterwards.

Events of one turn of the loop are written together in the next turn; then the operating system has them, so they
survive the end of the process. Files are synced every `SYNC_S` seconds, so a power loss takes at most the events since
then. A file that has its size is followed by another one; the oldest are removed when there are too many. A start goes
on behind the last whole line, in a new file when the last line is unfinished.

Invariants: no byte that was written is written again; an event that could not be written is counted, and the count is
the next line that can be. The form of lines: `audit_lines`.
"""

import asyncio
import logging
import re
from typing import Final

from firearrow.access.audit_lines import Chain, Event, Lost, end_of
from firearrow.access.settings import AccessConfig
from firearrow.errors import DiskError
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk, File
from firearrow.telemetry.damped import Damped

DIRECTORY: Final = "audit"
WAITING_MAX: Final = 10_000
"""The most events that wait to be written; further ones are lost and counted."""
SYNC_S: Final = 1.0

_NAME: Final = re.compile(r"audit-(\d{8})\.jsonl")

log = logging.getLogger(__name__)


def file_number(name: str) -> int | None:
    """Return the number of an audit file by its name; None for another file."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


class AuditLog:
    """Appends events to files in a directory of a disk."""

    def __init__(self, config: AccessConfig, disk: Disk, clock: Clock) -> None:
        self._size = config.audit_log_file_size
        self._count = config.audit_log_files
        self._disk = disk
        self.clock: Final = clock
        self._chain = Chain()
        self._file: File | None = None
        self._number = 0
        self._position = 0
        self._waiting: list[Event] = []
        self._unsaid = 0
        """Events that were lost and are in no line yet."""
        self._is_synced = True
        self._failures = Damped()
        self.lines = 0
        """Lines that were written since the start."""
        self.lost = 0
        """Events that could not be written since the start."""

    async def open(self) -> None:
        """Find the end of the log, and begin a file if there is none to go on with."""
        self._disk.make_directory(DIRECTORY)
        numbers = [number for name in await self._disk.list(DIRECTORY) if (number := file_number(name)) is not None]
        torn = await self._continue(max(numbers)) if numbers else 0
        if self._file is None:
            self._begin_file(torn)
        await self._sync()
        extra = {"line": self._chain.seq, "hash": self._chain.hash}
        log.info("the audit log goes on behind line %d, hash %s", *extra.values(), extra=extra)

    async def _continue(self, number: int) -> int:
        """Go on with the last file if it is whole; return the bytes of its last line if that is unfinished."""
        self._number = number
        data = await self._disk.read_whole(_path(number))
        try:
            end = end_of(data)
        except ValueError as error:
            log.warning("%s: %s; the log begins anew behind it", _path(number), error, extra={"reason": str(error)})
            return 0
        if end is None:
            return 0
        self._chain, torn = end
        if torn:
            log.warning("%s ends with an unfinished line: the server was killed while it wrote", _path(number))
        elif len(data) < self._size:
            self._file, self._position = self._disk.open(_path(number)), len(data)
        return torn

    def add(self, event: Event) -> None:
        """Write an event soon."""
        if len(self._waiting) >= WAITING_MAX:
            self._lose(1)
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        self._waiting.append(event)

    def _lose(self, count: int) -> None:
        self.lost += count
        self._unsaid += count

    def _write(self) -> None:
        events, self._waiting = self._waiting, []
        if not events:
            return
        seq, last = self._chain.seq, self._chain.hash
        try:
            if self._file is None or self._position >= self._size:
                self._begin_file()
                seq, last = self._chain.seq, self._chain.hash
            lines = [self._chain.line(event) for event in events]
            if self._unsaid:
                why = "they could not be written"
                lines.append(self._chain.line(Lost(self.clock.now_ms(), self._unsaid, why)))
            self._append(b"".join(lines))
        except DiskError as error:
            self._chain = Chain(seq, last)
            self._lose(len(events))
            self._forget_unfinished()
            self._warn(error)
        else:
            self._unsaid = 0
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
        file = self._disk.open(_path(number), create=True, private=True)
        chain = Chain(self._chain.seq, self._chain.hash)
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
            self._write()
            await self._look_after()

    async def _look_after(self) -> None:
        try:
            await self._sync()
            names = [name for name in await self._disk.list(DIRECTORY) if file_number(name) is not None]
            for name in names[: -self._count]:
                await self._disk.unlink(f"{DIRECTORY}/{name}")
        except DiskError as error:
            self._warn(error)

    async def _sync(self) -> None:
        if not self._is_synced and self._file is not None:
            self._is_synced = True
            await self._file.sync()
            await self._disk.sync_directory(DIRECTORY)


def _path(number: int) -> str:
    return f"{DIRECTORY}/audit-{number:08}.jsonl"

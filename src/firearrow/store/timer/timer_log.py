"""The timer log: units one after the other in files of fixed size. Java: ``store.timer.TimerLog``.

Invariants: a file has its full size from its creation on, zeros behind the last unit; a unit never crosses the end of a
file, a filler stands there instead. Bytes below `synced` are durable.
"""

from bisect import bisect_right
from collections.abc import AsyncIterator
from typing import Final

from firearrow.runtime.disk.door import Disk, File
from firearrow.store.paths import segment_name, segment_start
from firearrow.store.timer.layout import FILLER_BYTES, UNIT_BYTES, Unit, filler, unit_at

DIRECTORY: Final = "timerlog"
CHAIN_READ_BYTES: Final = 4096 * UNIT_BYTES
"""Bytes read at once along a chain, which mostly runs through neighbours."""


class TimerLog:
    """The files of ``timerlog/``, found by position."""

    def __init__(self, disk: Disk, file_bytes: int) -> None:
        self._disk = disk
        self.file_bytes = file_bytes
        self._files: dict[int, File] = {}
        self._starts: list[int] = []
        self._unsynced: set[int] = set()
        self._new_names = False
        self.end = 0
        """The position after the last unit."""
        self.synced = 0

    async def load(self, synced: int | None = None) -> None:
        """Open the files that exist. `end` is the end of the last file until recovery has found the last unit.

        ``synced`` is the position up to which the checkpoint says that the log is durable. A file above it may be
        short after a power loss, so its size says nothing about the size of files.
        """
        names = await self._disk.list(DIRECTORY) if self._disk.exists(DIRECTORY) else []
        starts = sorted(start for name in names if (start := segment_start(name)) is not None)
        for start in starts:
            file = self._disk.open(f"{DIRECTORY}/{segment_name(start)}")
            if file.size:
                self._files[start] = file
                self._starts.append(start)
            else:
                file.close()
        if len(self._starts) > 1:
            self.file_bytes = self._starts[1] - self._starts[0]
        elif self._starts and (synced is None or synced > self._starts[0]):
            self.file_bytes = self._files[self._starts[0]].size
        self.end = self._starts[-1] + self.file_bytes if self._starts else 0
        # The process before this one may have been killed between a write and its sync.
        self._unsynced.update(self._starts)
        self._new_names = bool(self._starts)

    @property
    def start(self) -> int:
        """The position of the oldest unit; `end` when there is none."""
        return self._starts[0] if self._starts else self.end

    def file_start(self, position: int) -> int | None:
        """The start of the file that holds a position; None when there is no such file."""
        index = bisect_right(self._starts, position) - 1
        if position < 0 or index < 0 or position >= self._starts[index] + self.file_bytes:
            return None
        return self._starts[index]

    @property
    def starts(self) -> tuple[int, ...]:
        """The starts of the files."""
        return tuple(self._starts)

    async def read(self, position: int, length: int) -> bytes:
        """Return bytes of one file, fewer at its end; empty when the log does not hold the position."""
        start = self.file_start(position)
        if start is None:
            return b""
        return await self._files[start].read(position - start, min(length, start + self.file_bytes - position))

    async def unit(self, position: int) -> Unit | None:
        """Return the unit at a position; None when there is none."""
        data = await self.read(position, UNIT_BYTES)
        if len(data) < UNIT_BYTES:
            return None
        unit = unit_at(data, 0)
        return unit if unit.is_valid else None

    async def units(self, position: int) -> AsyncIterator[tuple[int, Unit]]:
        """Return the whole units from the first at or behind a position on, with their positions."""
        position = max(position, self.start)
        while (start := self.file_start(position)) is not None and position < self.end:
            position = start + -(-(position - start) // UNIT_BYTES) * UNIT_BYTES
            data = await self.read(position, CHAIN_READ_BYTES)
            for into in range(0, len(data) - UNIT_BYTES + 1, UNIT_BYTES):
                unit = unit_at(data, into)
                if unit.is_valid:
                    yield position + into, unit
            position += len(data) - len(data) % UNIT_BYTES
            if len(data) < UNIT_BYTES or position + UNIT_BYTES > start + self.file_bytes:
                position = start + self.file_bytes

    # ---- writing

    def next_position(self, position: int) -> int:
        """Return where a unit goes that follows ``position``: there, or at the start of the next file."""
        into = position % self.file_bytes
        return position - into + self.file_bytes if into + UNIT_BYTES + FILLER_BYTES > self.file_bytes else position

    def append(self, units: list[bytes]) -> None:
        """Append units; the first goes to ``next_position(end)``, each next one behind it by the same rule.

        When that fails, `end` stays, and the next call writes over what was written.
        """
        run: list[bytes] = []
        run_start = self.end
        position = self.end
        for unit in units:
            at = self.next_position(position)
            if at != position:
                self._write(run_start, run)
                self._fill(position)
                run, run_start = [], at
            run.append(unit)
            position = at + UNIT_BYTES
        self._write(run_start, run)
        self.end = position

    def _write(self, position: int, run: list[bytes]) -> None:
        if run:
            start = self._file_for(position)
            self._files[start].write_at(position - start, [b"".join(run)])
            self._unsynced.add(start)

    def _fill(self, position: int) -> None:
        start = self.file_start(position)
        if start is not None:
            left = start + self.file_bytes - position
            self._files[start].write_at(position - start, [filler(left)[:left]])
            self._unsynced.add(start)

    def _file_for(self, position: int) -> int:
        start = position - position % self.file_bytes
        if start not in self._files:
            self._disk.make_directory(DIRECTORY)
            file = self._disk.open(f"{DIRECTORY}/{segment_name(start)}", create=True)
            file.truncate(self.file_bytes)
            self._files[start] = file
            self._starts.append(start)
            self._new_names = True
        return start

    async def cut(self, end: int) -> None:
        """Forget everything from ``end`` on; the bytes behind it become zeros, later files are deleted."""
        for start in [start for start in self._starts if start > end or start == end != 0]:
            await self._drop(start)
        keeps = self.file_start(end)
        if keeps is not None and self._files[keeps].next_data(end - keeps) < self.file_bytes:
            self._files[keeps].truncate(end - keeps)
            self._files[keeps].truncate(self.file_bytes)
            self._unsynced.add(keeps)
        self.end = end
        self.synced = min(self.synced, end)

    async def _drop(self, start: int) -> None:
        self._starts.remove(start)
        self._files.pop(start).close()
        self._unsynced.discard(start)
        await self._disk.unlink(f"{DIRECTORY}/{segment_name(start)}")

    async def sync(self) -> None:
        """Return once every unit that was appended before is durable."""
        end, starts, new_names = self.end, sorted(self._unsynced), self._new_names
        self._unsynced.clear()
        try:
            for start in starts:
                if start in self._files:
                    await self._files[start].sync()
            if new_names:
                await self._disk.sync_directory(DIRECTORY)
                await self._disk.sync_directory()
                self._new_names = False
        except BaseException:
            self._unsynced.update(starts)
            raise
        self.synced = max(self.synced, end)

    async def delete_below(self, physical: int) -> int:
        """Delete the oldest files whose last unit names a record below a physical offset; return how many.

        Java: ``deleteExpiredFileByOffsetForTimerLog``.
        """
        last_unit = (self.file_bytes - FILLER_BYTES) // UNIT_BYTES * UNIT_BYTES - UNIT_BYTES
        deleted = 0
        for start in self._starts[:-1]:
            unit = await self.unit(start + last_unit)
            if unit is None or unit.physical >= physical:
                break
            await self._drop(start)
            deleted += 1
        return deleted

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._starts.clear()

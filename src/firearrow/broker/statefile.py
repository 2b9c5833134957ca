"""A table of the broker in a file: Apache's JSON, replaced whole, with the previous edition beside it as ``.bak``.

Changes are only noted; the file is written at most once an interval, however many there were. Whoever needs to know
when a change is durable says so and hastens the writing. ``settled`` is awaited between taking the picture of the table
and writing it: offsets wait there until the log is durable as far as the picture says.

Invariants: the file is one edition or the next, never a mix; a change noted while a writing runs is in the next one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from firearrow.errors import BadBody, DiskError, FireArrowError, SettingsError
from firearrow.runtime.disk import Disk

T = TypeVar("T")
OnSaved = Callable[[FireArrowError | None], None]

log = logging.getLogger(__name__)


async def _at_once() -> None:
    pass


class StateFile:
    """One file that follows one table."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        encode: Callable[[], bytes],
        *,
        interval_ms: int = 0,
        settled: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self.path = path
        self._disk = disk
        self._encode = encode
        self._interval_s = interval_ms / 1000
        self._settled = settled
        self._is_dirty = False
        self._waiting: list[OnSaved] = []
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    async def read(self, decode: Callable[[bytes], T]) -> T | None:
        """What the file holds, or the edition before it; None when there is neither."""
        faults = []
        for path in (self.path, f"{self.path}.bak"):
            if not self._disk.exists(path):
                continue
            try:
                return decode(await self._disk.read_whole(path))
            except BadBody as error:
                log.warning("a file cannot be read", extra={"path": path, "reason": str(error)})
                faults.append(f"{path}: {error}")
        if faults:
            raise SettingsError(f"neither edition can be read ({'; '.join(faults)}): repair one or move both away")
        return None

    def changed(self, on_saved: OnSaved | None = None) -> None:
        """Note a change; ``on_saved`` is called when it is durable, or with the error that prevented it."""
        self._is_dirty = True
        if on_saved is not None:
            self._waiting.append(on_saved)
            self._hurry.set()
        self._wanted.set()

    async def run(self) -> None:
        """Write what changes, until cancelled."""
        while True:
            await self._wanted.wait()
            if self._interval_s:
                await self._pause()
            await self.save()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._interval_s):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def save(self) -> None:
        """Write the table as it is now, if it changed since the last time; an error is told to whoever waits."""
        async with self._one_at_a_time:
            self._wanted.clear()
            self._hurry.clear()
            if not self._is_dirty:
                return
            waiting, self._waiting = self._waiting, []
            self._is_dirty = False
            data = self._encode()
            error = await self._write(data)
            if error is not None:
                self._is_dirty = True
                log.error("a file cannot be written", extra={"path": self.path, "reason": str(error)})
            for on_saved in waiting:
                on_saved(error)

    async def _write(self, data: bytes) -> FireArrowError | None:
        try:
            await self._settled()
            directory = self.path.rpartition("/")[0]
            if directory and not self._disk.exists(directory):
                self._disk.make_directory(directory)
                await self._disk.sync_directory(directory.rpartition("/")[0])
            if self._disk.exists(self.path):
                await self._disk.replace(f"{self.path}.bak", await self._disk.read_whole(self.path))
            await self._disk.replace(self.path, data)
        except DiskError as error:
            return error
        return None

"""A value in a file; a change takes effect once it is durable.

Changes that arrive while the file is being written are written together next. The callback of a change gets None once
the new value is durable and in force, or the error, and then nothing has changed. The previous contents stay in
``<path>.bak``, as in Apache, and are read if the file itself is not usable. A private file has no such copy, which
could bring back what was revoked, and only its owner may read it.

Invariants: ``value`` is what a restart would read; changes apply in the order in which they were asked for.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from firearrow.errors import BadBody, DiskError, FireArrowError, ResourceShortage, SettingsError
from firearrow.runtime.disk.door import Disk

T = TypeVar("T")

OnDone = Callable[[FireArrowError | None], None]

log = logging.getLogger(__name__)


class StoredValue(Generic[T]):
    """A value in a file, and its waiting changes."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        initial: T,
        *,
        encode: Callable[[T], bytes],
        decode: Callable[[bytes], T],
        limit_bytes: int,
        on_change: Callable[[T], None],
        private: bool = False,
    ) -> None:
        self.value = initial
        self._disk = disk
        self._path = path
        self._encode = encode
        self._decode = decode
        self._limit = limit_bytes
        self._on_change = on_change
        self._private = private
        self._waiting: list[tuple[Callable[[T], T], OnDone]] = []
        self._wanted = asyncio.Event()

    async def read(self) -> None:
        """Read the file; do nothing if there is none yet."""
        for path in (self._path,) if self._private else (self._path, self._path + ".bak"):
            if not self._disk.exists(path):
                continue
            try:
                self.value = self._decode(await self._disk.read_whole(path))
            except ResourceShortage:
                raise  # the file may become readable later
            except (BadBody, SettingsError, DiskError) as error:
                log.warning("%s cannot be read: %s", path, error, extra={"path": path, "reason": str(error)})
                continue
            return
        if self._disk.exists(self._path):
            copy = "" if self._private else ", nor can its .bak"
            raise SettingsError(f"{self._path} cannot be read{copy}: repair it or move it away")

    async def put(self, value: T) -> None:
        """Put a value in the file before changes are written; raise ``DiskError`` when that fails."""
        error = await self._write(self._checked(value))
        if error is not None:
            raise error
        self.value = value

    def change(self, how: Callable[[T], T], on_done: OnDone) -> None:
        """Request a change; ``how`` returns the new value for the old one, or raises an error."""
        self._waiting.append((how, on_done))
        self._wanted.set()

    async def write_changes(self) -> None:
        """Write requested changes, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._write_all()

    async def _write_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        value, asked = self.value, []
        for how, on_done in waiting:
            try:
                value = self._checked(how(value))
            except FireArrowError as refusal:
                on_done(refusal)
            else:
                asked.append(on_done)
        error = await self._write(value) if asked else None
        if error is None and asked:
            self.value = value
            self._on_change(value)
        for on_done in asked:
            on_done(error)

    def _checked(self, value: T) -> T:
        size = len(self._encode(value))
        if size > self._limit:
            message = f"{self._path} would take {size} bytes, {self._limit} are allowed"
            raise ResourceShortage(message, errno.EFBIG)
        return value

    async def _write(self, value: T) -> DiskError | None:
        try:
            directory = self._path.rpartition("/")[0]
            if directory:
                self._disk.make_directory(directory)
            if self._disk.exists(self._path) and not self._private:
                await self._keep_previous()
            await self._disk.replace(self._path, self._encode(value), private=self._private)
        except DiskError as error:
            log.error("%s cannot be written: %s", self._path, error, extra={"path": self._path})  # noqa: TRY400 - expected
            return error
        return None

    async def _keep_previous(self) -> None:
        """Copy the file to ``.bak``; if it cannot be read, leave ``.bak`` unchanged."""
        try:
            previous = await self._disk.read_whole(self._path)
            self._decode(previous)
        except ResourceShortage:
            raise
        except (BadBody, SettingsError, DiskError) as error:
            log.warning("%s cannot be read: %s; its .bak stays as it is", self._path, error)
            return
        await self._disk.replace(self._path + ".bak", previous)

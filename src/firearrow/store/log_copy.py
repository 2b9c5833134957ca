"""The copy of another broker's log, taken as bytes come: the same records at the same physical offsets.

Bytes may come in any pieces. Whole records are appended at once, as views of the bytes that came; the beginning of a
record waits in memory for its rest, so that the log never ends inside a record. A copy into an empty directory may
begin at any log file of the master's; the new beginning is durable before the first record is appended. Queues and
index follow the log on their own (`CopyDispatch`).
"""

from typing import Final

from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.store.log.copied_log import whole_records
from firearrow.store.placement import WRITTEN
from firearrow.store.running_log import RunningLog
from firearrow.store.views.views import Views

OTHERS_LARGEST: Final = 16 << 20
"""The largest body that a master may have taken, by the longest frame, unless ``maxMessageSize`` here is larger."""
LARGEST_REST: Final = 1 << 20
"""More than all other parts of a record."""


class LogCopy:
    """Appends the bytes of another log to a store."""

    def __init__(self, running: RunningLog, views: Views) -> None:
        self._running = running
        self._log = running.log
        self._segment_bytes = running.opened.segments.size
        self._views = views
        self._largest = max(running.largest_body, OTHERS_LARGEST) + LARGEST_REST
        self._owed = running.opened.replica.cut
        self._rest = bytearray()
        self._wanted = 0

    @property
    def end(self) -> int:
        """The end of the copied log: the offset behind its last whole record."""
        return self._log.tail

    def interrupted(self) -> None:
        """Forget the beginning of a record: the next bytes begin at `end`."""
        self._rest.clear()
        self._wanted = 0

    async def take(self, offset: int, data: bytes) -> None:
        """Append bytes that lie at ``offset`` of the other log."""
        if self._owed.offset is not None:
            raise OffsetNotStored(f"the log must be cut at {self._owed.offset} before it takes anything")
        if offset and not self._log.tail and not self._rest:
            await self._begin_at(offset)
        expected = self._log.tail + len(self._rest)
        if offset != expected:
            raise OffsetNotStored(f"the master sent the log from {offset} on, and the copy goes on at {expected}")
        view = await self._finish_rest(memoryview(data))
        self._rest += view[await self._append(view) :]

    async def _finish_rest(self, view: memoryview) -> memoryview:
        """Complete and append the record that has begun; return the bytes that follow it."""
        while self._rest and view:
            missing = self._wanted - len(self._rest)
            self._rest += view[:missing]
            view = view[missing:]
            if len(self._rest) == self._wanted:
                piece = memoryview(bytes(self._rest))
                self._rest.clear()
                self._rest += piece[await self._append(piece) :]
        return view

    async def _append(self, piece: memoryview) -> int:
        """Append the whole records of a piece; return where they end."""
        start, size = 0, self._segment_bytes
        while start < len(piece):
            base = self._log.tail
            end, self._wanted = whole_records(piece, start, base, base - base % size + size)
            if self._wanted > self._largest:
                raise BadRecord(
                    f"the master sends a record of {self._wanted} bytes and {self._largest} are held here at most; set "
                    "maxMessageSize to the master's, if that is larger",
                    offset=base + end - start,
                )
            if end > start:
                # A disk that writes later must not be more than a log file behind.
                await self._log.reached(self._log.handed, WRITTEN)
                self._log.append_copy(piece[start:end])
                start = end
            if self._wanted:
                break
        return start

    async def _begin_at(self, offset: int) -> None:
        if offset % self._segment_bytes:
            raise OffsetNotStored(
                f"the master's log begins at {offset}, which is no multiple of the {self._segment_bytes} bytes of a "
                "log file here; set mappedFileSizeCommitLog to the master's size and start with an empty directory"
            )
        await self._running.begin_at(offset)
        self._views.dispatch.position = offset

"""Raw bytes of the log by offset. Pending appends are written before they are read."""

from firearrow.errors import OffsetNotStored
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.log.segments import Segment, Segments


class LogBytes:
    """The bytes of a log that is appended to."""

    def __init__(self, log: CommitLog, segments: Segments) -> None:
        self._log = log
        self._segments = segments

    def read_hot(self, physical: int, size: int) -> bytes | None:
        """The bytes at an offset, inside one segment; None when that needs the device."""
        segment = self._holding(physical, size)
        data = segment.file.read_hot(physical - segment.start, size)
        return None if data is None else self._whole(data, physical, size)

    async def read_cold(self, physical: int, size: int) -> bytes:
        """The bytes at an offset, inside one segment; off the loop when that needs the device."""
        segment = self._holding(physical, size)
        return self._whole(await segment.file.read(physical - segment.start, size), physical, size)

    def read_from(self, physical: int, max_bytes: int) -> bytes:
        """The raw bytes from an offset on, up to the end of the segment or of the written log."""
        if physical == self._log.written:
            return b""
        segment = self._holding(physical, 1)
        return segment.file.read_at(
            physical - segment.start, min(max_bytes, segment.end - physical, self._log.written - physical)
        )

    def _holding(self, physical: int, size: int) -> Segment:
        log, segments = self._log, self._segments
        if physical + size > log.handed:
            log.write_pending()
        segment = segments.at(physical)
        if segment is None or physical + size > min(log.handed, segment.end):
            raise OffsetNotStored(
                f"the log holds {segments.min_offset} to {log.handed} in files of {segments.size} bytes; "
                f"{size} bytes at {physical} are not there"
            )
        return segment

    def _whole(self, data: bytes, physical: int, size: int) -> bytes:
        if len(data) != size:
            raise OffsetNotStored(f"the file holds {len(data)} of the {size} bytes at {physical}")
        return data

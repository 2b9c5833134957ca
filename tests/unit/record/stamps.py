"""The stamp of one record, for tests; the store checks many at once, while it scans."""

from zlib import crc32

from firearrow.errors import BadRecord
from firearrow.record.decode import RecordHead
from firearrow.record.layout import Buffer
from firearrow.record.stamp import STAMP_SIZE, ends_with_stamp, stamp_of


def check_stamp(buffer: Buffer, head: RecordHead, *, required: bool = False) -> bool:
    """Raise `BadRecord` if the stamp is wrong, or ``required`` and absent; True when there is one.

    Only a log that stamps every record can require it; without that, a flip inside the stamp's own key reads as no
    stamp. A record that passed through a broker's memory (POP, 39, 309) may carry a stale stamp: check stamps on
    logs alone.
    """
    properties = head.properties(buffer)
    if not ends_with_stamp(properties):
        if required:
            raise BadRecord("it is not stamped, and every record here must be", offset=head.start)
        return False
    stamp = properties[-STAMP_SIZE:]
    expected = stamp_of(crc32(memoryview(buffer)[head.start : head.end - STAMP_SIZE]))
    if stamp != expected:
        raise BadRecord(f"its stamp is {stamp!r}, its bytes make {expected!r}", offset=head.start)
    return True

"""The digest of parts of a log, by which a master and a slave see whether their logs have the same records.

A log only grows, so two logs that went different ways differ from there to the end of the shorter one: the last record
of the slave is enough to see it. The filler of a log file is equal whatever lies before it, so the last part begins
before the last byte that is not zero. Short parts at growing distances before it show logs that were mixed long ago.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from firearrow.broker.replication.feed import SentLog
from firearrow.protocol.ha_stream import Claim, ClaimVerdict
from firearrow.runtime.turn import breathe

PART_BYTES: Final = 64 << 10
PROBE_BYTES: Final = 4 << 10
MOST_ZEROS: Final = 32 << 20
"""The longest filler: more than the largest record."""
MOST_BYTES: Final = MOST_ZEROS + 2 * PART_BYTES


async def claim_of(log: SentLog, identity: int, master_start: int) -> Claim:
    """Return the claim of a slave with this log at a master whose log begins at ``master_start``.

    A log without a record, wherever it begins, ends at 0.
    """
    bounds = log.bounds
    end = 0 if bounds.end == bounds.start else bounds.end
    first = min(max(bounds.start, master_start), end)
    start = await _last_part(log, first, end)
    return Claim(identity, first, start, end, await _digest(log, first, start, end))


async def verdict_on(log: SentLog, claim: Claim) -> ClaimVerdict:
    """Return what a master with this log says to a slave's claim."""
    bounds = log.bounds
    if not claim.end:
        return ClaimVerdict.AGREES
    if claim.end > bounds.end:
        return ClaimVerdict.LONGER
    if claim.end <= bounds.start:
        return ClaimVerdict.DELETED
    is_sound = bounds.start <= claim.first <= claim.start <= claim.end <= claim.start + MOST_BYTES
    is_equal = is_sound and claim.digest == await _digest(log, claim.first, claim.start, claim.end)
    return ClaimVerdict.AGREES if is_equal else ClaimVerdict.DIFFERS


async def _last_part(log: SentLog, first: int, end: int) -> int:
    """Return the start of the part that ends a log and has bytes that are not zero."""
    at = end
    while at > first and end - at < MOST_ZEROS:
        start = max(first, at - PART_BYTES)
        is_filler = not (await _read(log, start, at)).strip(b"\0")
        at = start
        if not is_filler:
            break
    return max(first, at - PART_BYTES)


def _probes(first: int, start: int) -> Iterator[tuple[int, int]]:
    """Yield the short parts before the last one, at distances that double."""
    distance = PART_BYTES
    while start - distance >= first:
        yield start - distance, start - distance + PROBE_BYTES
        distance *= 2


async def _digest(log: SentLog, first: int, start: int, end: int) -> int:
    found = blake2b(digest_size=8)
    for part_start, part_end in (*_probes(first, start), (start, end)):
        at = part_start
        while at < part_end:
            until = min(part_end, at + PART_BYTES)
            found.update(await _read(log, at, until))
            at = until
    return int.from_bytes(found.digest(), signed=True)


async def _read(log: SentLog, start: int, end: int) -> bytes:
    """Return bytes of a log, which may lie in two files; other requests are served between two reads."""
    await breathe()
    size, pieces = log.bounds.segment_bytes, []
    while start < end:
        until = min(end, start - start % size + size)
        pieces.append(await log.read(start, until - start))
        start = until
    return b"".join(pieces)

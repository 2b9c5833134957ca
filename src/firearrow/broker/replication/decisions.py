"""Decisions of a master about its slaves: where a stream begins, who is in sync, what is confirmed. Pure.

A replica here is the master itself or a connected slave; ``inSyncReplicas`` and ``minInSyncReplicas`` count the master.
Java: ``DefaultHAConnection.WriteSocketService``, ``DefaultHAService.isInSyncSlave``, ``GroupTransferService``.
"""

from collections.abc import Iterable, Sequence
from sys import maxsize
from typing import Final

from msgspec import Struct

from firearrow.errors import OffsetNotStored
from firearrow.protocol.ha_stream import FROM_FIRST_BYTE, ClaimVerdict

NOTHING_CONFIRMED: Final = -1
WHOLE_LOG: Final = maxsize


class LogBounds(Struct, frozen=True, gc=False):
    """The part of the log that a master can send."""

    start: int
    end: int
    segment_bytes: int


def first_offset(report: int, log: LogBounds) -> int:
    """Return the offset from which a slave is served after its first report; raise when the log cannot serve it.

    An empty slave of Apache's reports 0 and gets the newest log file, as from Apache's master. An empty slave of ours
    asks for the first byte, because a copy without the older files could not replace its master.
    """
    if report == FROM_FIRST_BYTE:
        return log.start
    if report == 0:
        return max(log.end - log.end % log.segment_bytes, log.start)
    if report < log.start:
        raise OffsetNotStored(refusal_of(ClaimVerdict.DELETED, report, log))
    if report > log.end:
        raise OffsetNotStored(refusal_of(ClaimVerdict.LONGER, report, log))
    return report


def refusal_of(verdict: ClaimVerdict, slave_end: int, log: LogBounds) -> str:
    """Return why a master with this log does not serve a slave whose log ends at an offset, and what to do."""
    if verdict is ClaimVerdict.DELETED:
        return (
            f"the slave's log ends at {slave_end} and the master's oldest file begins at {log.start}: the files that "
            "both had are deleted. Empty the slave's store directory and start it again, so that it begins anew"
        )
    found = (
        "behind the end of the master's log"
        if verdict is ClaimVerdict.LONGER
        else "and has other records than the master's"
    )
    return (
        f"the slave's log ends at {slave_end}, {found}: each of them may have messages that the other does not have. "
        "Keep a copy of the slave's store directory, empty it and start the slave again"
    )


def replicas_acked(slaves: Iterable[tuple[int | str, int]]) -> list[int]:
    """Return how far each replica is, from (who a connected slave is, what it acknowledged): a replica counts once."""
    found: dict[int | str, int] = {}
    for slave, acked in slaves:
        found[slave] = max(acked, found.get(slave, NOTHING_CONFIRMED))
    return list(found.values())


def in_sync(acked: Sequence[int], end: int, largest_gap: int) -> int:
    """Return how many replicas are in sync: the master, and slaves less than ``largest_gap`` bytes behind ``end``."""
    return 1 + sum(offset >= 0 and end - offset < largest_gap for offset in acked)


def confirmed(acked: Sequence[int], replicas: int) -> int:
    """Return the offset below which at least ``replicas`` replicas, the master included, have the log.

    `NOTHING_CONFIRMED` when fewer slaves are connected. The master alone always has its whole log.
    """
    slaves = replicas - 1
    if slaves <= 0:
        return WHOLE_LOG
    if len(acked) < slaves:
        return NOTHING_CONFIRMED
    return sorted(acked, reverse=True)[slaves - 1]

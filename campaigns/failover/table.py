"""The table of failovers: by system and fault how many there were, what they cost, and how long they took."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf, isfinite
from statistics import median, quantiles
from typing import Any, Final

from campaigns.failover.faults import FAULTS, NO_ELECTION
from campaigns.failover.real_group import LEASE_S

PROCESS_DEATH_S: Final = 3.0
SILENCE_S: Final = LEASE_S + 2.0
COLUMNS: Final = (
    "system",
    "fault",
    "failovers",
    "lost",
    "gone",
    "out of order",
    "stuck",
    "no answer p50",
    "p99",
    "goal",
    "Java p50",
    "Go p50",
    "load",
)


def story(entries: Sequence[dict[str, Any]]) -> str:
    """Return the table, and below it what did not come by itself in a failover that was stuck."""
    stuck = Counter((row["system"], row["fault"], row["stuck"]) for row in entries if row.get("stuck"))
    reasons = [f"- {system}, {fault} ({count}): {reason}" for (system, fault, reason), count in stuck.items()]
    return "\n".join([table(entries), *([""] if reasons else []), *reasons])


def table(entries: Iterable[dict[str, Any]]) -> str:
    """Return the table of entries of a ledger, as Markdown."""
    rows = list(entries)
    systems = sorted({row["system"] for row in rows}, reverse=True)
    lines = [
        _line(system, fault, found)
        for system in systems
        for fault in FAULTS
        if (found := [row for row in rows if (row["system"], row["fault"]) == (system, fault)])
    ]
    return "\n".join([_cells(COLUMNS), f"|{'---|' * len(COLUMNS)}", *lines])


def _line(system: str, fault: str, rows: Sequence[dict[str, Any]]) -> str:
    gaps = sorted(_seconds(row["gap_s"]) for row in rows)
    lost, disorder = (sum(row[key] for row in rows) for key in ("lost", "out_of_order"))
    stock = [_stock(rows, kind) for kind in ("java", "go")]
    cells = [
        system,
        fault,
        len(rows),
        lost,
        sum(row.get("gone", 0) for row in rows),
        disorder,
        sum(bool(row.get("stuck")) for row in rows),
        _told(median(gaps), 2),
        _told(p99(gaps), 2),
        _goal(fault),
        *stock,
        f"{median(row['load'] for row in rows):.0f}",
    ]
    return _cells(cells)


def _cells(values: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, values))} |"


def p99(gaps: Sequence[float]) -> float:
    """The 99th percentile; the largest where there are too few for one."""
    return quantiles(gaps, n=100, method="inclusive")[98] if len(gaps) > 1 else gaps[0]


def _stock(rows: Sequence[dict[str, Any]], kind: str) -> str:
    gaps = [_seconds(gap) for row in rows for name, gap in row["stock_gap_s"].items() if name.startswith(kind)]
    return _told(median(gaps), 1) if gaps else "-"


def _seconds(gap: float | None) -> float:
    return inf if gap is None else gap


def _told(seconds: float, digits: int) -> str:
    return f"{seconds:.{digits}f} s" if isfinite(seconds) else "without end"


def _goal(fault: str) -> str:
    if fault in NO_ELECTION:
        return "-"
    return f"{PROCESS_DEATH_S if fault == 'kill' else SILENCE_S:g} s"

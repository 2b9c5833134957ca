"""One line of the table: a figure of a small broker, the same of a large one, and what it may be."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from benchmarks.size.probe import Seen

HOLD_MS = 20.0
"""The most milliseconds for which a broker may answer nobody."""


class Row(NamedTuple):
    """A figure, small and large."""

    what: str
    unit: str
    small: float
    large: float
    limit: float
    """The limit for the large one, in the same unit."""
    rule: str
    """The reason for the limit."""

    @property
    def holds(self) -> bool:
        """Whether the large one keeps to its limit."""
        return self.large <= self.limit

    def line(self) -> str:
        """The row as it is printed."""
        mark = "" if self.holds else "  TOO MUCH"
        return (
            f"| {self.what} | {self.small:,.2f} {self.unit} | {self.large:,.2f} {self.unit} | {self.rule} "
            f"{self.limit:,.2f} {self.unit}{mark} |"
        )


def at_most(what: str, unit: str, small: float, large: float, limit: float) -> Row:
    """A figure with a limit of its own."""
    return Row(what, unit, small, large, limit, "at most")


def times(what: str, unit: str, small: float, large: float, factor: float, least: float) -> Row:
    """A figure that may be so many times the small one; below ``least`` nobody cares."""
    return Row(what, unit, small, large, max(small * factor, least), f"{factor:g} times,")


def paced(name: str, small: Seen, large: Seen, least_ms: float = 1.0) -> Iterator[Row]:
    """Holds and paced sends beside something else, in time and in the broker's CPU."""
    yield at_most(f"{name}: longest hold", "ms", small.hold_ms, large.hold_ms, HOLD_MS)
    yield at_most(f"{name}: longest hold, CPU", "ms", small.hold_cpu_ms, large.hold_cpu_ms, HOLD_MS)
    yield times(f"{name}: paced sends, p99", "ms", small.p99_ms, large.p99_ms, 2, least_ms)
    yield times(f"{name}: paced sends, p99, CPU", "ms", small.p99_cpu_ms, large.p99_cpu_ms, 2, least_ms)
    yield at_most(f"{name}: paced sends refused", "", small.refused, large.refused, 0)


HEAD = "| | small | large | limit |\n|---|---|---|---|"


def show(rows: Iterable[Row]) -> Iterator[Row]:
    """Print rows as they come, and hand them on."""
    for row in rows:
        print(row.line(), flush=True)
        yield row

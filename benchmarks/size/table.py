"""One line of the table: a figure of a small broker, the same of a large one, and what it may be."""

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """A figure, small and large."""

    what: str
    unit: str
    small: float
    large: float
    limit: float
    """What the large one may be, in the same unit."""
    rule: str
    """Where the limit comes from."""

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


HEAD = "| | small | large | limit |\n|---|---|---|---|"


def show(rows: Iterable[Row]) -> bool:
    """Print rows as they come; whether all hold."""
    print(HEAD, flush=True)
    good = True
    for row in rows:
        print(row.line(), flush=True)
        good = good and row.holds
    return good

"""The report of a benchmark: lines to print, figures to keep, goals to judge."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """One number of the contract and what was measured."""

    name: str
    measured: float
    bound: float
    at_least: bool = True
    """Whether the bound is the smallest number that passes; else it is the largest."""

    @property
    def reached(self) -> bool:
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "reached" if self.reached else "MISSED"
        return f"{self.name:58} {self.measured:>10,.3g} {sign} {self.bound:<10,.6g} {verdict}"


@dataclass(slots=True)
class Report:
    """The outcome of one benchmark."""

    title: str
    lines: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def say(self, line: str) -> None:
        self.lines.append(line)


def spread(values: Sequence[float]) -> float:
    """Half the distance of the quartiles as a part of the median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle if middle else 0.0


def shown(values: Sequence[float], digits: int = 2) -> str:
    """The median with its spread."""
    return f"{statistics.median(values):,.{digits}f} ±{spread(values):.0%}"


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that ``part`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

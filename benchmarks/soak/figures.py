"""The figures of a soak, and their bounds. Pure."""

from statistics import median
from typing import NamedTuple

import msgspec

LATE_MS = 500.0
MOST_GROWTH, GROWTH_MIB = 1.05, 2.0
"""The allowed growth of memory in the last third of the steady part over the one before: a factor and a constant."""
MOST_DESCRIPTORS = 4


class Bounds(NamedTuple):
    """The bounds of latency and rate."""

    p99_ratio: float
    """Our delivery p99 in ratio to the rival's, at most."""
    rate: float
    """The part of the rate asked for that is reached in turns, at least."""
    steady_rate: float
    """The same while consumers die and start beside the broker."""


LONG = Bounds(p99_ratio=1.0, rate=0.95, steady_rate=0.6)
SHORT = Bounds(p99_ratio=2.0, rate=0.3, steady_rate=0.15)
"""For two minutes beside other work: a turn of 14 s is noise, and a slow machine holds the rate on neither side."""


class Latency(msgspec.Struct):
    """Delays from the send to the listener."""

    messages: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    late: float
    """The part that took longer than LATE_MS."""


class Turn(msgspec.Struct):
    """One side under the load without trouble."""

    side: str
    whole: Latency
    java: Latency
    ours: Latency
    lost: int
    rate: float
    """Messages acknowledged a second."""


class Sample(msgspec.Struct):
    """The broker at one moment."""

    at_s: float
    part: str
    anon_mib: float
    descriptors: int
    acknowledged: int


class Slice(msgspec.Struct):
    """Deliveries of a few seconds, for the plot."""

    at_s: float
    kind: str
    p50_ms: float
    p99_ms: float


class Figures(msgspec.Struct):
    """Everything."""

    minutes: float
    rate: int
    queues: int
    turns: list[Turn] = []
    samples: list[Sample] = []
    slices: list[Slice] = []
    events: list[tuple[float, str]] = []
    acknowledged: int = 0
    failed_sends: int = 0
    delivered: dict[str, int] = {}
    repeated: dict[str, int] = {}
    lost: dict[str, int] = {}
    exceptions: dict[str, int] = {}
    steady: Latency | None = None
    steady_rate: float = 0.0

    def thirds(self, name: str) -> list[float]:
        """The medians of one figure of the broker over the thirds of the steady part."""
        found = [getattr(sample, name) for sample in self.samples if sample.part == "steady"]
        third = len(found) // 3
        return [float(median(found[place * third : (place + 1) * third])) for place in range(3)] if third else []

    def p99(self, side: str, kind: str = "whole") -> float | None:
        """The median of a side's turns."""
        found = [getattr(turn, kind).p99_ms for turn in self.turns if turn.side == side]
        return float(median(found)) if found else None

    def ratio(self, ours: str, rival: str, kind: str = "whole") -> float | None:
        """Our p99 in ratio to the rival's."""
        here, there = self.p99(ours, kind), self.p99(rival, kind)
        return here / there if here is not None and there else None


def complaints(figures: Figures, ours: str, rival: str, bounds: Bounds = LONG) -> list[str]:
    """Return the broken bounds, each in a sentence; none when all is well."""
    found = [f"{count} exceptions in the log of {who}" for who, count in figures.exceptions.items() if count]
    found += [f"{count} acknowledged messages never came to {group}" for group, count in figures.lost.items() if count]
    found += [f"{turn.lost} acknowledged messages lost in a turn of {turn.side}" for turn in figures.turns if turn.lost]
    ratio = figures.ratio(ours, rival)
    if ratio is not None and ratio > bounds.p99_ratio:
        found.append(f"delivery p99 is {ratio:.2f} times {rival}'s, more than {bounds.p99_ratio:g}")
    return [*found, *_slower(figures, bounds), *_grown(figures)]


def _slower(figures: Figures, bounds: Bounds) -> list[str]:
    held = [(f"in a turn of {turn.side}", turn.rate, bounds.rate) for turn in figures.turns]
    held.append(("while consumers died", figures.steady_rate, bounds.steady_rate))
    return [
        f"the rate of {figures.rate:,} messages/s was not held {when}: {rate:,.0f}/s"
        for when, rate, least in held
        if rate < least * figures.rate
    ]


def _grown(figures: Figures) -> list[str]:
    found = []
    memory, descriptors = figures.thirds("anon_mib"), figures.thirds("descriptors")
    if not memory:
        return ["the steady part was too short to compare memory and descriptors by thirds"]
    if memory[2] > memory[1] * MOST_GROWTH + GROWTH_MIB:
        found.append(f"memory grows: {_listed(memory)} MiB by thirds of the steady part")
    if descriptors[2] > descriptors[1] + MOST_DESCRIPTORS:
        found.append(f"descriptors grow: {_listed(descriptors)} by thirds of the steady part")
    return found


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)

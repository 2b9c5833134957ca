"""The division of the minutes: turns with Apache before and after, deaths, and a part in which the broker lives."""

from typing import NamedTuple

TURNS_PART, DEATHS_PART = 0.25, 0.3
"""The parts of the time for latency in turns and for deaths; the rest is steady."""
LONG_MINUTES = 10
LEAD_S = 12.0
SHORTEST_TURN_S = 14.0


class Plan(NamedTuple):
    """Seconds of each part."""

    rounds_before: int
    rounds_after: int
    turn_s: float
    lead_s: float
    """Before each turn: clients run in and are not measured."""
    warm_up_s: float
    deaths_s: float
    steady_s: float
    pause_s: float
    """Between two events."""


def planned(minutes: float, *, with_rival: bool = True) -> Plan:
    """Divide the minutes. Without a rival there are no turns."""
    seconds = minutes * 60
    is_long = minutes >= LONG_MINUTES
    rounds = 4 if is_long else 1
    lead = LEAD_S if is_long else LEAD_S / 2
    deaths = seconds * DEATHS_PART
    return Plan(
        rounds_before=rounds // 2 or 1 if with_rival else 0,
        rounds_after=rounds // 2 if with_rival else 0,
        turn_s=max(seconds * TURNS_PART / (2 * rounds) - lead, SHORTEST_TURN_S),
        lead_s=lead,
        warm_up_s=60.0 if is_long else 15.0,
        deaths_s=deaths,
        steady_s=seconds * (1 - DEATHS_PART - (TURNS_PART if with_rival else 0)),
        pause_s=min(max(deaths / 12, 5.0), 30.0),
    )

"""Breadth-first search over the states of a modelled group, up to a number of states."""

from typing import NamedTuple

from campaigns.failover.model.rules import Rules
from campaigns.failover.model.state import State, first_state
from campaigns.failover.model.steps import Bounds, Broken, Name, steps


class Found(NamedTuple):
    """The result of a search."""

    states: int
    depth: int
    is_complete: bool
    """Whether every state within the bounds was seen."""
    broken: str = ""
    """The promise that was broken; empty for none."""
    story: tuple[str, ...] = ()
    """The steps that lead there."""


def search(bounds: Bounds, rules: Rules, most_states: int) -> Found:
    """Search until a promise is broken, everything within the bounds is seen, or ``most_states`` are."""
    first = first_state(bounds.replicas, bounds.in_sync, bounds.min_iss)
    came_from: dict[State, tuple[State, Name] | None] = {first: None}
    level, depth = [first], 0
    while level:
        following: list[State] = []
        for state in level:
            try:
                for name, after in steps(state, bounds, rules):
                    if after not in came_from:
                        came_from[after] = (state, name)
                        following.append(after)
            except Broken as broken:
                return Found(len(came_from), depth, False, str(broken), _story(came_from, state))
            if len(came_from) >= most_states:
                return Found(len(came_from), depth, False)
        level, depth = following, depth + 1
    return Found(len(came_from), depth, True)


def _story(came_from: dict[State, tuple[State, Name] | None], state: State) -> tuple[str, ...]:
    names = []
    before = came_from[state]
    while before is not None:
        state, name = before
        names.append(" ".join(map(str, name)))
        before = came_from[state]
    return tuple(reversed(names))

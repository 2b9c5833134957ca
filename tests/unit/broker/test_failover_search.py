"""The rules of failover within small bounds, searched to their end, and the planted mutants of them."""

import pytest

from campaigns.failover.model.hunts import BOUNDS, SLOW, SMALL
from campaigns.failover.model.rules import MUTANTS, Rules
from campaigns.failover.model.search import search
from campaigns.failover.model.steps import Bounds

MOST_STATES = 250_000


@pytest.mark.parametrize("bounds", SMALL)
def test_no_promise_is_broken_within_small_bounds(bounds: Bounds) -> None:
    found = search(bounds, Rules(), MOST_STATES)
    assert not found.broken, "\n".join(found.story)
    assert found.is_complete


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - SLOW))
def test_every_mutant_is_caught(name: str) -> None:
    found = search(BOUNDS[name], MUTANTS[name], MOST_STATES)
    assert found.broken, f"{found.states} states, complete: {found.is_complete}"

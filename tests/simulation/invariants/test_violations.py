"""The judge of simulated runs: histories that it excuses, and those that it does not."""

import pytest

from tests.simulation.invariants.history import History, Outcome, Place, Read, Sent
from tests.simulation.invariants.promise import Promise
from tests.simulation.invariants.violations import violations

PROMISE = Promise(groups=("g",), topics=frozenset({"T"}), window_s=10.0, delays_ms=(1_000,))
WAITS = Place("b", "T", 0, 1)
"""The place where a delayed message waits; the number is that of another topic's queue."""


def _history(lies_at: int) -> History:
    """Power was lost after a message at place 5 was read; a delayed one came to lie at a place later."""
    lost = Sent("p:1", "T", "b", 0, Outcome.OK, Place("b", "T", 0, 5), 50.0, 51.0)
    delayed = Sent("p:2", "T", "b", 0, Outcome.OK, WAITS, 70.0, 71.0, delay_level=1)
    read = Read("p:1", Place("b", "T", 0, 5), 500, 51_000, 0, "T", 52.0)
    final = Read("p:2", Place("b", "T", 0, lies_at), 500, 72_000, 0, "T", 90.0)
    return History(sends=[lost, delayed], reads={"g": [read]}, final=[final], power_losses=[(55.0, "b")])


def test_a_delayed_message_at_a_place_that_was_used_before_may_be_passed_over() -> None:
    assert violations(_history(5), PROMISE) == []


@pytest.mark.parametrize("lies_at", [1, 6])
def test_a_delayed_message_at_a_new_place_must_be_delivered(lies_at: int) -> None:
    assert [wrong[:9] for wrong in violations(_history(lies_at), PROMISE)] == ["I2: p:2 ("]

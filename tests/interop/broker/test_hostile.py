"""Hostile clients beside stock ones, some kinds in turn; ``python -m benchmarks.hostile`` takes all, and longer rounds.

A stock Java producer and consumer beside each attack: deliveries take at most twice as long at p99 as they do alone, in
the same run. What else runs on the machine can only make a round worse, so a round that does not hold is taken again.
"""

import pytest

from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.rounds import (
    FLOOR_MS,
    MOST_MIB,
    MOST_TIMES,
    RESTING_MIB,
    RESTING_SOCKETS,
    Round,
    bench,
)
from campaigns.rotation import this_turn
from tests.yardstick import slowness

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(600)]

SECONDS = 2.0
KINDS = 3
"""Kinds of attacks in a run: one takes a quarter of a minute."""
TRIES = 3


def faults(one: Round) -> list[str]:
    """What did not hold beside an attack."""
    usual_ms = max(one.alone.p99_ms, one.after.p99_ms, FLOOR_MS * slowness())
    found = {
        "it did not attack": one.opened == 0,
        "nothing was delivered beside it": one.beside.messages == 0,
        "deliveries took too long": one.beside.p99_ms > MOST_TIMES * usual_ms,
        "the broker took too much memory": one.mib > MOST_MIB,
        "the broker kept memory": one.after.anon_mib > one.alone.anon_mib + RESTING_MIB,
        "the broker kept connections": one.after.sockets > one.alone.sockets + RESTING_SOCKETS,
        "a send failed": one.failed_sends > 0,
    }
    return [what for what, is_so in found.items() if is_so]


def test_hostile_clients_take_neither_memory_nor_time_of_others() -> None:
    with bench(warm_s=4.0) as running:
        for kind in this_turn(list(ATTACKS), KINDS):
            seen: list[tuple[list[str], Round]] = []
            while len(seen) < TRIES and (not seen or seen[-1][0]):
                one = running.round(kind, SECONDS)
                seen.append((faults(one), one))
            assert seen[-1][0] == [], seen
        assert running.failures() == []

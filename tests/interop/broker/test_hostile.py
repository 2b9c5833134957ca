"""One round of hostile clients beside stock ones; ``python -m benchmarks.hostile`` takes five, and longer ones."""

import pytest

from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.rounds import RESTING_DESCRIPTORS, RESTING_MIB, bench

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(600)]

SECONDS = 2.0
MOST_MIB = 128
SLOW_MS = 250.0
"""A delivery that takes so long is no accident of a busy machine."""


def test_hostile_clients_take_neither_memory_nor_time_of_others() -> None:
    with bench(warm_s=4.0) as running:
        rounds = [running.round(kind, SECONDS) for kind in ATTACKS]
        failures = running.failures()
    assert failures == []
    for one in rounds:
        assert one.opened > 0, one
        assert one.beside.messages > 0, one
        assert one.mib <= MOST_MIB, one
        assert one.beside.p50_ms <= max(SLOW_MS, 4 * one.alone.p50_ms), one
        assert one.after.anon_mib <= one.alone.anon_mib + RESTING_MIB, one
        assert one.after.descriptors <= one.alone.descriptors + RESTING_DESCRIPTORS, one
        assert one.failed_sends == 0, one

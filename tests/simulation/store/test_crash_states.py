"""After any sequence of appends, flushes and crashes, recovery yields a prefix that holds everything acknowledged."""

from collections import Counter

import pytest

from tests.simulation.store.crashes import explore

CHUNKS = 20
STATES_PER_CHUNK = 2_600
"""Together more than 50,000."""
SEEDS_PER_CHUNK = 1_000


@pytest.mark.parametrize("chunk", range(3))
def test_nothing_acknowledged_is_lost_when_writes_come_late(chunk: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK):
        counts += explore(seed, late=True)
        if counts["states"] >= STATES_PER_CHUNK:
            break
    assert counts["states"] >= STATES_PER_CHUNK


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_acknowledged_is_lost(chunk: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK):
        counts += explore(seed)
        if counts["states"] >= STATES_PER_CHUNK:
            break
    # A run that never met what it is about proves nothing.
    assert counts["states"] >= STATES_PER_CHUNK
    assert counts["cut"] > 0
    assert counts["process"] > 0
    assert min(counts[f"at {operation}"] for operation in ("write", "sync", "sync_directory", "rename")) > 0

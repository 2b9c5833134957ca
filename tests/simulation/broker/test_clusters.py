"""Random clusters of name servers, brokers and clients under crashes, power loss, partitions and frozen processes.

A run takes 100 seeds of 200, the next commit takes the others; ``FIREARROW_SEEDS=first:count`` names the seeds instead.
A batch in which too little happened is not a pass: its floors say how much is enough.
"""

import os
from collections import Counter

import pytest

from campaigns.rotation import this_turn
from tests.simulation.broker.chaos import is_valid, run_chaos
from tests.simulation.invariants.history import Outcome

NAMED = os.environ.get("FIREARROW_SEEDS")
FIRST, COUNT = map(int, (NAMED or "0:200").split(":"))
BATCH = 20
BATCHES = range(FIRST, FIRST + COUNT, BATCH)
IN_TURN = list(BATCHES) if NAMED else this_turn(BATCHES, __name__, within=2)

FLOORS = {
    "acknowledged": 1_500,
    "unknown": 5,
    "read": 4_000,
    "valid runs": 10,
    "crash": 3,
    "restart": 8,
    "stop": 3,
    "sent back": 300,
    "duplicates": 10,
    "first messages": 100,
    "topics deleted": 10,
    "half messages": 400,
    "transactions: commit ok": 100,
    "transactions: rollback ok": 60,
    "transactions checked": 150,
    "given up": 20,
    "timed messages": 100,
    "rare ones": 12,
}
"""The events that must have happened in a whole batch of 20 clusters."""
RARE = (
    "power loss", "cut", "freeze", "move", "grow", "full disk", "log write refused", "state refused", "clock step",
    "transaction producer crash", "expired files",
)  # fmt: skip
"""Counted together."""


@pytest.mark.timeout(600)
@pytest.mark.rotating
@pytest.mark.parametrize("first", IN_TURN)
def test_clusters_keep_their_promises(first: int) -> None:
    happened: Counter[str] = Counter()
    seeds = range(first, min(first + BATCH, FIRST + COUNT))
    for seed in seeds:
        history = run_chaos(seed)
        happened += history.counts
        happened["acknowledged"] += sum(sent.outcome is Outcome.OK for sent in history.sends)
        happened["unknown"] += sum(sent.outcome is Outcome.INFO for sent in history.sends)
        happened["read"] += sum(map(len, history.reads.values()))
        happened["timed messages"] += sum(sent.outcome is Outcome.OK and sent.due_ms > 0 for sent in history.sends)
        happened["half messages"] += len(history.halves)
        happened["given up"] += len(history.given_up)
        happened["valid runs"] += is_valid(history)
    happened["rare ones"] = sum(happened[what] for what in RARE)
    if len(seeds) == BATCH:
        short = {what: happened[what] for what, floor in FLOORS.items() if happened[what] < floor}
        assert not short, f"too little happened in seeds {seeds}: {short}, all in all {dict(happened)}"


def test_a_seed_repeats_itself() -> None:
    assert run_chaos(17) == run_chaos(17)

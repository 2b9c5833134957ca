"""Random clusters: name servers, brokers and clients under partitions, crashes, power loss and frozen processes.

``FIREARROW_SEEDS=first:count`` runs other seeds than the 200 of every run. A batch in which too little happened is not
a pass: its floors say how much is enough.
"""

import os
from collections import Counter

import pytest

from tests.simulation.nameserver.chaos import run_chaos

FIRST, COUNT = map(int, os.environ.get("FIREARROW_SEEDS", "0:200").split(":"))
BATCH = 25

FLOORS = {
    "registrations": 3_000,
    "failed": 300,
    "routes": 1_500,
    "crash": 20,
    "power loss": 20,
    "freeze": 20,
    "restart": 40,
    "stop": 20,
    "cut": 40,
    "heal": 40,
    "reset": 20,
    "name server": 30,
    "topic": 40,
    "text": 20,
    "seen to go at once": 3,
}
"""The events that must have happened in a whole batch of 25 clusters."""


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_clusters_converge_and_show_nobody_dead(first: int) -> None:
    happened: Counter[str] = Counter()
    seeds = range(first, min(first + BATCH, FIRST + COUNT))
    for seed in seeds:
        seen = run_chaos(seed)
        happened.update(seen.faults)
        happened.update(registrations=seen.registrations, failed=seen.failed, routes=seen.routes)
    if len(seeds) == BATCH:
        short = {what: happened[what] for what, floor in FLOORS.items() if happened[what] < floor}
        assert not short, f"too little happened in seeds {seeds}: {short}, all in all {dict(happened)}"


def test_a_seed_repeats_itself() -> None:
    assert run_chaos(7) == run_chaos(7)

"""Random replicated groups keep what a SYNC_MASTER promises, and each planted bug is caught within a few seeds."""

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from campaigns.rotation import this_turn
from firearrow.broker.replication import near_slaves
from firearrow.broker.replication.master import SentStore
from firearrow.broker.replication.slave import Slave
from tests.simulation.broker.groups import GroupOptions, run_group
from tests.simulation.early_log import EarlyLog

BATCH = 10
BATCHES = range(0, 100, BATCH)
SEEDS = 25
HARD = GroupOptions(sync_flush=True, slaves=1, least=1, steps=2, sync_s=0.1, loses_master=True)
MENDED = GroupOptions(sync_flush=True, slaves=1, least=1, steps=5, sync_s=0.1, loses_master=False)


@pytest.mark.timeout(600)
@pytest.mark.rotating
@pytest.mark.parametrize("first", this_turn(BATCHES, __name__))
def test_groups_keep_their_promises(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + BATCH):
        counts += run_group(seed)
    assert counts["answered with 0"] > 500, counts
    assert counts["lost masters"] > 2, counts


def reports_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """The slave acknowledges what it has written, not what it has flushed."""
    made = Slave.__init__

    def init(self: Slave, *arguments: Any) -> None:
        made(self, *arguments)
        self._log = cast("Any", EarlyLog(self._log))

    patch.setattr(Slave, "__init__", init)


def answers_without_the_slave(patch: pytest.MonkeyPatch) -> None:
    """The master answers when a slave is near, whatever it has."""
    patch.setattr(near_slaves, "confirmed", lambda _acked, _replicas: 1 << 62)


def sends_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """The master sends what it has written, so that a slave may have what the master loses with its power."""
    made = SentStore.__init__

    def init(self: SentStore, *arguments: Any) -> None:
        made(self, *arguments)
        self._log = cast("Any", EarlyLog(self._log))

    patch.setattr(SentStore, "__init__", init)


PLANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], GroupOptions]] = {
    "the slave acknowledges before its flush": (reports_before_the_flush, HARD),
    "the master answers without its slave": (answers_without_the_slave, HARD),
    "the master sends before its flush": (sends_before_the_flush, MENDED),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, options = PLANTS[name]
    with monkeypatch.context() as patch:
        plant(patch)
        for seed in range(SEEDS):
            try:
                run_group(seed, options)
            except (AssertionError, TimeoutError):
                return
    pytest.fail(f"{SEEDS} groups did not notice: {name}")

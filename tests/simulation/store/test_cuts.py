"""A cut is whole after a crash at any call, and nothing of what was cut comes back."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from firearrow.broker.tables.offsets import OffsetTable
from firearrow.store.recovery import open_log
from firearrow.store.views.views import Views
from tests.simulation.store.cuts import explore_cut

CHUNKS = 3
SEEDS = 16
MUTANT_SEEDS = 60


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_cut_is_whole(chunk: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(chunk * 1000, chunk * 1000 + SEEDS):
        counts += explore_cut(seed)
    assert min(counts[what] for what in ("cuts", "power", "died", "closed", "cut bytes")) > 0


Plant = Callable[[pytest.MonkeyPatch], None]


def stale_bytes_are_left(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> int:
        return 0

    patch.setattr(open_log, "cut_off", nothing)


def the_cut_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> None:
        """Promise it."""

    patch.setattr(open_log, "make_cut_durable", nothing)


def offsets_stay_ahead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetTable, "cut", lambda *_: 0)


def the_snapshot_is_that_of_the_old_log(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> None:
        """Promise it."""

    patch.setattr(Views, "flush_after_cut", nothing)


@pytest.mark.parametrize(
    "plant",
    [stale_bytes_are_left, the_cut_is_not_synced, offsets_stay_ahead, the_snapshot_is_that_of_the_old_log],
)
def test_a_planted_bug_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):  # noqa: PT012 - the seed that catches it is not known
        for seed in range(MUTANT_SEEDS):
            explore_cut(seed)

"""After a crash at any call queues, index and offsets agree with the log.

Many more states: ``python -m tests.simulation.store --whole``.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest

from firearrow.broker.state.state_file import StateFile, StateTable
from firearrow.runtime.disk.door import Disk
from firearrow.store.queue.table import Queues
from firearrow.store.views.views import Views
from tests.simulation.store.wholes import explore_whole

CHUNKS = 6
STATES_PER_CHUNK = 500
SEEDS_PER_CHUNK = 1_000
MUTANT_SEEDS = 60


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_everything_derived_agrees_with_the_log(chunk: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK):
        counts += explore_whole(seed)
        if counts["states"] >= STATES_PER_CHUNK:
            break
    # A run that never met what it is about proves nothing.
    assert counts["states"] >= STATES_PER_CHUNK
    assert min(counts[what] for what in ("power", "process", "dying twice", "offsets", "delays")) > 0
    assert min(counts[f"at {operation}"] for operation in ("write", "sync", "sync_directory", "rename")) > 0


Plant = Callable[[pytest.MonkeyPatch], None]


def offsets_ahead_of_the_log(patch: pytest.MonkeyPatch) -> None:
    honest = StateFile.__init__

    async def at_once() -> None:
        """Promise it."""

    def careless(self: StateFile, disk: Disk, path: str, table: StateTable, **how: Any) -> None:
        honest(self, disk, path, table, **(how | {"settled": at_once}))

    patch.setattr(StateFile, "__init__", careless)


def queues_not_cut_to_the_log(patch: pytest.MonkeyPatch) -> None:
    async def cut(*_: Any) -> list[Any]:
        return []

    patch.setattr(Queues, "cut", cut)


def views_ahead_of_the_log(patch: pytest.MonkeyPatch) -> None:
    honest = Views.flush

    async def flush(self: Views, _: Any, **how: Any) -> None:
        async def at_once(_: int) -> None:
            """Promise it."""

        await honest(self, at_once, **how)

    patch.setattr(Views, "flush", flush)


@pytest.mark.parametrize("plants", [(offsets_ahead_of_the_log,), (queues_not_cut_to_the_log, views_ahead_of_the_log)])
def test_a_planted_bug_is_caught(plants: tuple[Plant, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for plant in plants:
        plant(monkeypatch)
    with pytest.raises(AssertionError):
        deque(explore_whole(seed, share=0.3) for seed in range(MUTANT_SEEDS))

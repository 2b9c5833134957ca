"""The random clusters find what they are for: each planted bug is caught within a few seeds."""

from collections.abc import Callable

import pytest

from firearrow.nameserver.effects import RemovalOutcome
from firearrow.nameserver.queues import TopicIndex
from firearrow.nameserver.routes import Routes
from firearrow.runtime.disk.stored import StoredValue
from tests.simulation.nameserver.chaos import run_chaos

SEEDS = 20


def never_expires(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Routes, "expire", lambda _routes, _now_ms: RemovalOutcome())


def ignores_closed_connections(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Routes, "disconnected", lambda _routes, _connection: RemovalOutcome())


def keeps_stale_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicIndex, "touch", lambda _table, _broker: None)


def acknowledges_before_writing(patch: pytest.MonkeyPatch) -> None:
    async def write_all(stored: StoredValue[object]) -> None:
        waiting, stored._waiting = stored._waiting, []
        for how, on_done in waiting:
            stored.value = how(stored.value)
            on_done(None)
        await stored._write(stored.value)

    patch.setattr(StoredValue, "_write_all", write_all)


@pytest.mark.parametrize(
    "plant", [never_expires, ignores_closed_connections, keeps_stale_answers, acknowledges_before_writing]
)
def test_a_planted_bug_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_some()


def run_some() -> None:
    for seed in range(SEEDS):
        run_chaos(seed)

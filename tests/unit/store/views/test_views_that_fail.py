"""The losses that fence the store: a row of a queue or of the index, and no view that only looks at rows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from firearrow.errors import BrokenInvariant, StoreFenced
from firearrow.store.dispatch import Dispatch, QueueKey, View
from firearrow.store.index.key_index import Index
from firearrow.store.placement import Rows
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import draft, fresh_image

pytestmark = pytest.mark.complaints("failed at new messages")


def _run(scenario: Callable[[Shop], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(await open_shop(fresh_image(), segment=8 << 20, sync=False))

    asyncio.run(main())


def _failing(_rows: Rows) -> None:
    raise ValueError("a statistic could not be counted")


async def _append_beside_a_failing_view(shop: Shop) -> None:
    seen: list[int] = []
    shop.views.dispatch.views += [_failing, lambda rows: seen.append(len(rows))]
    places = []
    for _ in range(3):
        places.append(shop.append(draft()))
    assert shop.running.log.fenced is None
    assert sum(seen) == 3
    (queue,) = shop.views.queues.of_topic("T")
    assert queue.max_offset == 3
    assert shop.views.dispatch.position == places[-1].end


def test_a_failing_view_fences_nothing_and_keeps_no_rows_from_others(caplog: pytest.LogCaptureFixture) -> None:
    _run(_append_beside_a_failing_view)
    (record,) = [one for one in caplog.records if "failed at new messages" in one.getMessage()]
    assert "a statistic could not be counted" in record.getMessage()


def test_a_view_that_fences_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """F9, planted: an exception of any view fences the store."""

    def unguarded(_self: Dispatch, view: View, rows: Rows) -> None:
        view(rows)

    monkeypatch.setattr(Dispatch, "_show", unguarded)
    with pytest.raises((AssertionError, ValueError)):
        _run(_append_beside_a_failing_view)


def test_a_view_of_some_queues_is_called_for_rows_of_these_alone() -> None:
    async def scenario(shop: Shop) -> None:
        seen: list[str] = []
        parked: dict[QueueKey, None] = {}
        dispatch = shop.views.dispatch
        dispatch.watch(frozenset({("T", 0)}), lambda rows: seen.append(f"{rows[0][0].topic} fixed"))
        dispatch.watch(parked.keys(), lambda rows: seen.append(f"{rows[0][0].topic} parked"))
        shop.append(draft())
        assert seen == ["T fixed"]
        parked["U", 0] = None
        shop.append(draft(topic="U"))
        assert seen == ["T fixed", "U parked"]

    _run(scenario)


def test_a_lost_row_of_the_index_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: Index, _rows: Any) -> None:
        raise ValueError("the index takes no row")

    async def scenario(shop: Shop) -> None:
        with pytest.raises(ValueError, match="takes no row"):
            shop.append(draft())
        with pytest.raises(StoreFenced):
            shop.append(draft())

    monkeypatch.setattr(Index, "put", broken)
    _run(scenario)


def test_a_broken_invariant_of_a_view_is_not_hidden() -> None:
    def broken(_rows: Rows) -> None:
        raise BrokenInvariant("two lives of one topic")

    async def scenario(shop: Shop) -> None:
        shop.views.dispatch.views.append(broken)
        with pytest.raises(BrokenInvariant):
            shop.append(draft())

    _run(scenario)

"""Changes at several servers: all are asked, and a failure says where the change was made and where it was not."""

import asyncio

import pytest

from firearrow.admin.brokers import at_each
from firearrow.errors import ConnectionFailed, PartlyDone, RequestTimedOut


async def done() -> int:
    return 1


async def refused() -> int:
    raise ConnectionFailed("nothing listens there")


async def late() -> int:
    raise RequestTimedOut("no answer")


def test_results_come_in_order() -> None:
    assert asyncio.run(at_each({"a": done, "b": done})) == [1, 1]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_failure_keeps_nobody_else_from_the_change(order: tuple[str, ...]) -> None:
    acts = {"a": done, "b": refused}
    with pytest.raises(PartlyDone, match="done at a, but not at b: nothing listens there") as told:
        asyncio.run(at_each({place: acts[place] for place in order}))
    assert not told.value.retryable  # whoever is told that would read that nothing was changed


def test_what_failed_everywhere_may_have_happened_if_it_may_have_anywhere() -> None:
    with pytest.raises(RequestTimedOut) as told:
        asyncio.run(at_each({"a": refused, "b": late}))
    assert told.value.__notes__ == ["It was done neither at a nor at b."]


def test_one_server_that_fails_is_told_as_it_failed() -> None:
    with pytest.raises(ConnectionFailed) as told:
        asyncio.run(at_each({"a": refused}))
    assert not hasattr(told.value, "__notes__")

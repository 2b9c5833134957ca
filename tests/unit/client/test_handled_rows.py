"""Rows are handled once by a consumer that remembers them, although their topic holds them twice."""

import asyncio
from typing import NamedTuple

import pytest

from firearrow.client import HandledRows
from firearrow.model import keys


class Delivery(NamedTuple):
    """A delivery as `HandledRows` sees it."""

    message_id: str
    properties: dict[str, str]
    topic: str = "T"


def row(identity: str, message_id: str = "M", topic: str = "T") -> Delivery:
    return Delivery(message_id, {keys.ROW_ID: identity} if identity else {}, topic)


def test_a_handler_sees_each_row_once() -> None:
    asyncio.run(each_row_once())


async def each_row_once() -> None:
    rows, seen = HandledRows(), []

    async def handle(message: Delivery) -> None:
        seen.append(message)

    once = rows.absorbing(handle)
    first, repeat, other = row("a", "M1"), row("a", "M2"), row("a", "M3", "U")
    for message in (first, repeat, other, row("", "M1"), row("", "M1"), row("", "M2")):
        await once(message)
    assert seen == [first, other, row("", "M1"), row("", "M2")]
    assert rows.repeats == 2


def test_a_handler_that_failed_is_called_again() -> None:
    asyncio.run(called_again())


async def called_again() -> None:
    rows, calls = HandledRows(), 0

    async def handle(_message: Delivery) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("not now")

    once = rows.absorbing(handle)
    with pytest.raises(ValueError, match="not now"):
        await once(row("a"))
    await once(row("a"))
    await once(row("a"))
    assert (calls, rows.repeats) == (2, 1)


@pytest.mark.parametrize("fails", [False, True])
def test_a_copy_waits_for_the_one_that_is_handled(*, fails: bool) -> None:
    asyncio.run(copies_wait(fails=fails))


async def copies_wait(*, fails: bool) -> None:
    rows, begun, may_end = HandledRows(), [], asyncio.Event()

    async def handle(message: Delivery) -> None:
        begun.append(message.message_id)
        if len(begun) == 1:
            await may_end.wait()
            if fails:
                raise ValueError("not now")

    once = rows.absorbing(handle)
    tasks = [asyncio.ensure_future(once(row("a", name))) for name in ("1", "2", "3")]
    await asyncio.sleep(0)
    assert begun == ["1"]
    may_end.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[0], ValueError) == fails
    assert len(begun) == (2 if fails else 1)
    assert rows.repeats == (1 if fails else 2)


def test_at_least_count_rows_are_remembered_and_at_most_twice_as_many() -> None:
    rows = HandledRows(count=3)
    for number in range(20):
        rows.handled(row(str(number)))
        rows.handled(row(str(number)))
        assert len(rows) <= 6
        assert all(rows.is_repeat(row(str(last))) for last in range(max(0, number - 2), number + 1))
    assert not rows.is_repeat(row("0"))


def test_a_count_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        HandledRows(count=0)

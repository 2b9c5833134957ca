"""Checks of the promises of every coordinator while nothing fails."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from firearrow.runtime.coordinator.door import Coordinator

Members = Callable[[int], Coordinator]
"""Returns a door of the same new group for each number; leases last two seconds."""
CoordinatorCheck = Callable[[Members], Awaitable[None]]


async def a_new_group_has_no_value(members: Members) -> None:
    """Nothing is there before the first swap."""
    first = members(1)
    assert await first.read() == (None, {})
    assert not await first.swap(b"something", b"else")
    assert (await first.read()).group is None


async def a_swap_needs_the_newest_value(members: Members) -> None:
    """Of swaps from the same value one succeeds."""
    first, second = members(1), members(2)
    assert await first.swap(None, b"a")
    assert not await second.swap(None, b"b")
    assert await second.swap(b"a", b"b")
    assert not await first.swap(b"a", b"c")
    assert (await first.read()).group == b"b"


async def one_of_many_swaps_wins(members: Members) -> None:
    """Members that swap at once do not overwrite one another."""
    doors = [members(number) for number in range(1, 6)]
    won = await asyncio.gather(*(door.swap(None, b"%d" % number) for number, door in enumerate(doors)))
    assert sum(won) == 1
    assert (await doors[0].read()).group == b"%d" % won.index(True)


async def a_member_lives_while_it_renews(members: Members) -> None:
    """A key lasts as long as its lease, and goes when the lease ends."""
    first, second = members(1), members(2)
    await first.announce(1, b"here")
    await second.announce(2, b"there")
    loop = asyncio.get_running_loop()
    end = loop.time() + 4
    while loop.time() < end:
        assert await first.renew()
        await asyncio.sleep(0.2)
    assert (await first.read()).live == {1: b"here"}
    assert not await second.renew()


async def a_member_that_retires_is_gone_at_once(members: Members) -> None:
    """Retiring does not wait for the end of the lease."""
    first = members(1)
    await first.announce(1, b"here")
    await first.retire()
    assert (await first.read()).live == {}


async def a_change_wakes(members: Members) -> None:
    """A watch returns soon after a swap by another member, and after a member has come."""
    first, second = members(1), members(2)
    for act in (second.swap(None, b"a"), second.announce(2, b"here")):
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(first.changed())
            await asyncio.sleep(0.5)
            await act
            await watch


COORDINATOR_CHECKS: Final[tuple[CoordinatorCheck, ...]] = (
    a_new_group_has_no_value,
    a_swap_needs_the_newest_value,
    one_of_many_swaps_wins,
    a_member_lives_while_it_renews,
    a_member_that_retires_is_gone_at_once,
    a_change_wakes,
)

"""Looks up old half messages side by side, so that many of them do not wait for the device one after the other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

AT_ONCE: Final = 8
"""Lookups that run at a time. Those by key compute, so their number bounds what a turn of the loop spends on them."""

K = TypeVar("K")
T = TypeVar("T")


async def side_by_side(look_up: Callable[[K], Awaitable[T]], wanted: Sequence[K]) -> list[T]:
    """Return what is found for each of some things, in their order."""
    found: list[T] = []
    for first in range(0, len(wanted), AT_ONCE):
        found += await asyncio.gather(*map(look_up, wanted[first : first + AT_ONCE]))
    return found

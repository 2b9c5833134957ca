"""Woken pulls: each is served in a turn of its connection, while the share of pulls has time, or that of filters.

A pull by tags, or for all messages, is served whatever time filters have used up. Pulls with a filter wait in the line
of filters, which is served while filters have time in the turn; a cold read waits in it for the turn of its scan.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Generic, TypeVar

from firearrow.broker.pull.backlog import PULL_BYTES
from firearrow.broker.pull.long_poll import ParkedPull
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.broker.pull.pull_reader import Made
from firearrow.runtime.turn import NS_A_BYTE, ShareBudget

T = TypeVar("T")


class WokenPulls(Generic[T]):
    """The pulls that have been woken and not served yet.

    ``serve`` returns how many bytes a pull was handed, ``host_of`` the address that takes turns with the others.
    """

    def __init__(
        self,
        pulls: ShareBudget,
        filters: ShareBudget,
        serve: Callable[[ParkedPull[T], Made], int],
        host_of: Callable[[ParkedPull[T]], object],
    ) -> None:
        self._pulls = pulls
        self._filters = filters
        self._serve = serve
        self._host_of = host_of
        self._made: Final[Made] = {}
        pulls.on_serve = filters.on_serve = self._made.clear

    def add(self, woken: Iterable[ParkedPull[T]]) -> None:
        """Serve pulls, in the next turn of the loop or a later one."""
        for parked in woken:
            share = self._filters if isinstance(parked.wanted, MessageFilter) else self._pulls
            share.add(parked.owner, partial(self._serve_one, share, parked), self._host_of(parked))

    def _serve_one(self, share: ShareBudget, parked: ParkedPull[T]) -> bool:
        before_ns = share.used_ns
        handed = self._serve(parked, self._made)
        share.spent((PULL_BYTES + handed) * NS_A_BYTE - (share.used_ns - before_ns))
        if not share.waiting:
            self._made.clear()
        return True

    def drop(self, owner: object) -> None:
        """Forget the pulls of a connection that has ended."""
        self._pulls.drop(owner)
        self._filters.drop(owner)

    async def time_for_filter(self) -> None:
        """Return when a scan may begin: at once, or in the next turn after the filters before it in the line."""
        if not self._filters.has_time():
            turn = asyncio.get_running_loop().create_future()
            self._filters.add(turn, partial(self._begin, turn), self)
            await turn

    def _begin(self, turn: asyncio.Future[None]) -> bool:
        if not turn.done():
            turn.set_result(None)
            self._filters.spent(self._filters.left_ns)  # its scan is in the next turn: so is what is behind it
        return True

"""Notices: tell the members of a group that a member came or left (code 40), so that they rebalance.

The first change of a group is told at once, whatever other groups do. Further changes during that round of notices, and
for `GATHER_S` after it, are gathered into one more round: when a thousand members leave, the others get a few notices,
not a thousand. Rounds are sent in slices, group by group, so that a large group does not delay the others. A member
that misses a notice rebalances later. Java: ``DefaultConsumerIdsChangeListener``, which sends every change to all.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Final, cast

from msgspec import Struct

from firearrow.broker.tables.clients import ClientTable
from firearrow.errors import FireArrowError
from firearrow.protocol.requests.group.heartbeat import NotifyConsumerIdsChanged
from firearrow.remoting.handlers import Peer
from firearrow.runtime.turn import breathe

GATHER_S: Final = 0.1
AT_ONCE: Final = 50
"""Most members told in one turn of the loop."""
PAUSE_S: Final = 0.002
LEAST_WAIT_S: Final = 0.001
"""The shortest timer."""

log = logging.getLogger(__name__)


class _Round(Struct):
    """One round of notices to the members of a group."""

    members: Iterator[Hashable] | None = None
    """The members that are still to be told; None before the round has begun."""
    missed: int = 0


class Notices:
    """Sends notices to the members of changed groups."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients
        self._rounds: dict[str, _Round] = {}
        """Rounds under way by group, in the order of their turns."""
        self._resting: dict[str, float] = {}
        """Groups after a round, with the time until which further changes are gathered; the earliest comes first."""
        self._again: dict[str, None] = {}
        """Groups that changed during a round or the gathering after it."""
        self._wanted = asyncio.Event()

    def add(self, group: str) -> None:
        """Note that the members of a group changed."""
        begun = self._rounds.get(group)
        if group in self._resting or (begun is not None and begun.members is not None):
            self._again[group] = None
        elif begun is None:
            self._rounds[group] = _Round()
            self._wanted.set()

    async def run(self) -> None:
        """Send notices until cancelled."""
        while True:
            self._end_rests(asyncio.get_running_loop().time())
            if not self._rounds:
                await self._wait()
                continue
            self._tell_some()
            await (asyncio.sleep(PAUSE_S) if self._rounds else breathe())

    def _end_rests(self, now_s: float) -> None:
        while self._resting and next(iter(self._resting.values())) <= now_s:
            group = next(iter(self._resting))
            del self._resting[group]
            if group in self._again:
                del self._again[group]
                self.add(group)

    async def _wait(self) -> None:
        """Wait until a group changes or the gathering for a group ends."""
        self._wanted.clear()
        now_s = asyncio.get_running_loop().time()
        ends = next((max(until - now_s, LEAST_WAIT_S) for until in self._resting.values()), None)
        try:
            async with asyncio.timeout(ends):
                await self._wanted.wait()
        except TimeoutError:
            pass

    def _tell_some(self) -> None:
        """Send at most `AT_ONCE` notices; a group whose round is not finished goes to the end of the line."""
        left = AT_ONCE
        while left > 0 and self._rounds:
            name = next(iter(self._rounds))
            begun = self._rounds.pop(name)
            told, is_done = self._tell(name, begun, left)
            left -= max(told, 1)
            if is_done:
                self._end(name, begun)
            else:
                self._rounds[name] = begun

    def _tell(self, name: str, begun: _Round, most: int) -> tuple[int, bool]:
        """Send notices to members of a group; return how many members were handled, and whether the round is done."""
        group = self._clients.group(name)
        if group is None:
            return 0, True
        if begun.members is None:
            begun.members = iter(list(group.members))
        push, told = NotifyConsumerIdsChanged(consumer_group=name), 0
        for connection in islice(begun.members, most):
            told += 1
            if connection in group.members:
                try:
                    cast("Peer", connection).push(push)
                except FireArrowError:
                    begun.missed += 1
        return told, told < most

    def _end(self, name: str, ended: _Round) -> None:
        self._resting[name] = asyncio.get_running_loop().time() + GATHER_S
        if ended.missed:
            log.info("%d members of the group %s could not be told that its members changed", ended.missed, name)

"""Tells the members of groups that somebody came or left (code 40), so that they divide their queues anew.

The first change of a group is told at once, whatever other groups do. What changes while its members are being told,
and for a while after, is told together: a thousand who leave at once are a few rounds, not a thousand for everybody who
stays. Rounds go out in slices, each group in its turn, so that nobody else waits for one. A member that cannot be told
notices at its own next rebalance. Java: ``DefaultConsumerIdsChangeListener``, which tells everybody of everybody.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Final, cast

from msgspec import Struct

from firearrow.broker.clients import ClientTable
from firearrow.errors import FireArrowError
from firearrow.protocol.requests.heartbeat import NotifyConsumerIdsChanged
from firearrow.remoting.handlers import Peer

GATHER_S: Final = 0.1
AT_ONCE: Final = 50
"""Members told in one turn of the loop."""
PAUSE_S: Final = 0.002
LEAST_WAIT_S: Final = 0.001
"""No timer is shorter."""

log = logging.getLogger(__name__)


class _Round(Struct):
    """A group that is being told."""

    members: Iterator[Hashable] | None = None
    """Who is left to be told; None before the first is."""
    missed: int = 0


class Notices:
    """Groups whose members have to be told."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients
        self._rounds: dict[str, _Round] = {}
        """Groups that are being told, in the order of their turns."""
        self._resting: dict[str, float] = {}
        """Groups that were told just now, and until when what changes is gathered; the first to end comes first."""
        self._again: dict[str, None] = {}
        """Groups that changed while they were told or rested."""
        self._wanted = asyncio.Event()

    def add(self, group: str) -> None:
        """The members of a group changed."""
        begun = self._rounds.get(group)
        if group in self._resting or (begun is not None and begun.members is not None):
            self._again[group] = None
        elif begun is None:
            self._rounds[group] = _Round()
            self._wanted.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            self._end_rests(asyncio.get_running_loop().time())
            if not self._rounds:
                await self._wait()
                continue
            self._tell_some()
            await asyncio.sleep(PAUSE_S if self._rounds else 0)

    def _end_rests(self, now_s: float) -> None:
        while self._resting and next(iter(self._resting.values())) <= now_s:
            group = next(iter(self._resting))
            del self._resting[group]
            if group in self._again:
                del self._again[group]
                self.add(group)

    async def _wait(self) -> None:
        """Return when a group changes or a rest is over."""
        self._wanted.clear()
        now_s = asyncio.get_running_loop().time()
        ends = next((max(until - now_s, LEAST_WAIT_S) for until in self._resting.values()), None)
        try:
            async with asyncio.timeout(ends):
                await self._wanted.wait()
        except TimeoutError:
            pass

    def _tell_some(self) -> None:
        """Tell members until enough are told for one turn; a group that is not done is the last in the line again."""
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
        """Tell members of a group; how many were looked at, and whether all are done."""
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

"""Tells the members of groups that somebody came or left (code 40), so that they divide their queues anew.

The first change of a group is told at once. What changes while members are being told, and for a while after, is told
together: a thousand who leave at once are a few rounds, not a thousand for everybody who stays. A round goes out in
slices, so that nobody else waits for it. A member that cannot be told notices at its own next rebalance. Java:
``DefaultConsumerIdsChangeListener``, which tells everybody of everybody.
"""

import asyncio
import logging
from typing import Final, cast

from firearrow.broker.clients import ClientTable
from firearrow.errors import FireArrowError
from firearrow.protocol.requests.heartbeat import NotifyConsumerIdsChanged
from firearrow.remoting.handlers import Peer

GATHER_S: Final = 0.1
AT_ONCE: Final = 50
"""Members told in one turn of the loop."""
PAUSE_S: Final = 0.002

log = logging.getLogger(__name__)


class Notices:
    """Groups whose members have to be told."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients
        self._groups: dict[str, None] = {}
        self._wanted = asyncio.Event()

    def add(self, group: str) -> None:
        """The members of a group changed."""
        self._groups[group] = None
        self._wanted.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            groups, self._groups = self._groups, {}
            for name in groups:
                await self._tell(name)
            await asyncio.sleep(GATHER_S)

    async def _tell(self, name: str) -> None:
        group = self._clients.group(name)
        if group is None:
            return
        push, missed = NotifyConsumerIdsChanged(consumer_group=name), 0
        for number, connection in enumerate(list(group.members), 1):
            if connection in group.members:
                try:
                    cast("Peer", connection).push(push)
                except FireArrowError:
                    missed += 1
            if number % AT_ONCE == 0:
                await asyncio.sleep(PAUSE_S)
        if missed:
            log.info("%d members of the group %s could not be told that its members changed", missed, name)

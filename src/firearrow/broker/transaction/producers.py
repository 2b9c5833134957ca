"""Which producer is asked about a transaction: one connected member of its group, another one the next time.

Any member can answer, so one question goes to one connection; when that cannot be sent to, to the next.
Java: ``ProducerManager.getAvailableChannel``.
"""

from itertools import chain, islice
from typing import Any, Final, cast

from firearrow.broker.tables.clients import ClientTable
from firearrow.errors import FireArrowError
from firearrow.protocol.conversation import Request
from firearrow.remoting.handlers import Peer

MOST_TRIED: Final = 16
"""Connections tried for one question; the next round tries again."""


class ConnectedProducers:
    """The producers in the client table."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients
        self._turn = 0

    def is_reachable(self, group: str) -> bool:
        """Whether a producer of a group is connected."""
        return bool(self._clients.producers(group))

    def ask(self, group: str, request: Request[Any], body: bytes) -> bool:
        """Send a request to one producer of a group; return whether one could be sent to."""
        members = self._clients.producers(group)
        if not members:
            return False
        self._turn += 1
        first = self._turn % len(members)
        for connection in islice(chain(islice(members, first, None), islice(members, first)), MOST_TRIED):
            peer = cast("Peer", connection)
            try:
                if peer.is_open:
                    peer.push(request, body)
                    return True
            except FireArrowError:
                continue
        return False

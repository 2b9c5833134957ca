"""The producer that is asked about a transaction: one connected member of its group, another one the next time.

Any member can answer, so one question goes to one connection; when that cannot be sent to, to the next. A question
holds the message: a member whose user may not send to its topic is passed over.
Java: ``ProducerManager.getAvailableChannel``.
"""

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any, Final, cast

from firearrow.broker.tables.clients import ClientTable
from firearrow.errors import FireArrowError
from firearrow.protocol.conversation import Request
from firearrow.record.decode import peek
from firearrow.remoting.handlers import Peer

MaySee = Callable[[Peer, str], bool]

MOST_TRIED: Final = 16
"""Connections tried for one question; the next round tries again."""


class ConnectedProducers:
    """The producers in the client table."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients
        self.may_see: MaySee | None = None
        """Whether a peer may see messages of a topic before consumers do; None: everybody may."""

    def is_reachable(self, group: str) -> bool:
        """Whether a producer of a group is connected."""
        return bool(self._clients.producers(group))

    def has_room(self, group: str) -> bool:
        """Whether a producer of a group keeps up with reading what it is sent."""
        return any(peer.is_open and peer.is_writable for peer in self._members(group, 0))

    def ask(self, group: str, turn: int, request: Request[Any], body: bytes) -> bool:
        """Send a request to one producer of a group, the next one in the next turn; return whether it was sent."""
        for peer in self._members(group, turn, "" if self.may_see is None else peek(body).topic):
            try:
                if peer.is_open and peer.is_writable:
                    peer.push(request, body)
                    return True
            except FireArrowError:
                continue
        return False

    def _members(self, group: str, turn: int, topic: str = "") -> Iterable[Peer]:
        """The members to try, in turn; if a topic is given, only those that may see its messages."""
        members = self._clients.producers(group) or {}
        first = turn % max(len(members), 1)
        in_turn = chain(islice(members, first, None), islice(members, first))
        peers = (cast("Peer", connection) for connection in in_turn)
        may_see = self.may_see
        if topic and may_see is not None:
            peers = (peer for peer in peers if may_see(peer, topic))
        return islice(peers, MOST_TRIED)

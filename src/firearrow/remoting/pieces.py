"""A read in pieces: what one connection brings takes a part of a turn of the loop, whatever it is.

A read that is larger than a piece is taken piece by piece while there is time in this turn, and the rest in the next
ones. Nothing more is read from the connection meanwhile, because a loop may read one connection again and again within
a turn. Requests of one piece that take too long are set aside for the next turn as well (`Room`).

Invariant: what was read is received in its order, or ends with the connection.
"""

from typing import Final

from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import NEXT_TURN
from firearrow.remoting.room import Room
from firearrow.runtime.network import Address

PIECE_BYTES: Final = 64 * 1024
"""Bytes that are split and decoded without a look at the time."""
TURN_S: Final = 0.002
"""How long a connection may take of one turn of the loop, before others have theirs."""


class Pieces(Room):
    """A connection that is read in pieces, at the end that may let others wait."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._is_server = endpoint.is_server
        self._unread = b""
        self._read_to = 0

    def data_received(self, data: bytes) -> None:
        """Take what one read brought."""
        if not self._unread and (len(data) <= PIECE_BYTES or not self._is_server):
            self.receive(data)
            return
        goes_on = bool(self._unread)
        self._unread, self._read_to = self._unread[self._read_to :] + data, 0
        if not goes_on:
            self.hold(NEXT_TURN)
            self._read_some()

    def receive(self, data: bytes) -> None:
        """Take a piece of what the peer says."""
        raise NotImplementedError

    def _read_some(self) -> None:
        loop, unread, at = self._endpoint.loop, self._unread, self._read_to
        until = loop.time() + TURN_S
        while at < len(unread) and self.is_open:
            piece = unread[at : at + PIECE_BYTES]
            at += len(piece)
            self.receive(piece)
            if loop.time() >= until:
                break
        self._unread, self._read_to = (unread, at) if at < len(unread) else (b"", 0)
        loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._unread and self.is_open:
            self._read_some()
        else:
            self.unhold(NEXT_TURN)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._unread, self._read_to = b"", 0

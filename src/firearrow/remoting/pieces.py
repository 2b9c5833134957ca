"""A read in pieces: a large read of one connection takes a limited part of a turn of the loop.

A read that is larger than a piece is handled piece by piece while there is time in this turn, and the rest in later
turns. The connection is not read meanwhile, because a loop may read one connection several times within a turn.
Requests of one piece that take too long are set aside for the next turn as well (`Room`).

Invariant: the bytes of a read are received in order, or dropped when the connection ends.
"""

from typing import Final

from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import NEXT_TURN
from firearrow.remoting.room import Room
from firearrow.runtime.network import Address

PIECE_BYTES: Final = 64 * 1024
"""Bytes that are split and decoded between two readings of the clock."""
TURN_S: Final = 0.002
"""Seconds of one turn of the loop that one connection may take before the others are served."""


class Pieces(Room):
    """A connection that handles large reads in pieces, if it is a server's; a caller handles a read at once."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._is_server = endpoint.is_server
        self._unread = b""
        self._read_to = 0

    def data_received(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        if not self._unread and (len(data) <= PIECE_BYTES or not self._is_server):
            self.receive(data)
            return
        goes_on = bool(self._unread)
        self._unread, self._read_to = self._unread[self._read_to :] + data, 0
        if not goes_on:
            self.hold(NEXT_TURN)
            self._read_some()

    def receive(self, data: bytes) -> None:
        """Handle a piece of the stream."""
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

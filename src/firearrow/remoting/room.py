"""Room for answers: limits on the answers that are being made, for a connection and for all.

A connection has room for another large answer while its peer reads (fewer than ``write_high_water_bytes`` wait to be
sent) and while less than ``max_connection_answer_bytes`` of answers are being made for it, and less than
``max_answer_bytes`` for all. When a request takes the last room, the requests behind it in the same read are set aside
and the connection is not read until there is room. Requests for which a turn had no time are set aside too.

A read that is larger than a piece is handled piece by piece, and every read in the turns that the connection has
(`turns`). What a turn had no time for waits, and the connection is not read meanwhile. Bytes of a stranger that has
used up its time (`strangers`) are kept as they came until it has time again, and count as half a frame (`Partials`).
A connection whose frame comes in many tiny reads is not read for a while after each but the first eight.

uvloop reads a connection once that was held as it opened. Those bytes are kept until the connection is let go, and
count as half a frame; a server that is hushed drops them.

Invariants: requests that are set aside are handled in order, or dropped when the connection ends; so are the bytes of a
read, behind them.
"""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Final

from firearrow.protocol.connection import Event
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import ALL_REQUESTS, HUSHED, NEXT_TURN, NO_ROOM, STRANGER
from firearrow.remoting.turns import AT_ONCE_FIRST, DRIBBLE_NS
from firearrow.remoting.wire import Wire
from firearrow.runtime.network import Address

MOST_IN_A_TURN: Final = 512
"""The most requests of one connection that are handled as a turn reads it, and as often from the line, even if time is
left."""
PIECE_BYTES: Final = 64 * 1024
"""Bytes that are split and decoded between two looks at the clock."""
DRIBBLE_BYTES: Final = 512
"""A read of up to so many bytes that ends no frame is tiny: its price is the reading."""
HALF_FRAME_NS: Final = 4
"""The surcharge of a byte of a frame that is not complete."""
DRIBBLES_FREE: Final = 8
"""Tiny reads of one frame after which a connection is read at once: the Go client writes a frame in four pieces."""
DRIBBLE_REST_S: Final = 0.0025
DRIBBLE_REST_DOUBLED: Final = 6
DRIBBLE_REST_MAX_S: Final = DRIBBLE_REST_S * 2**DRIBBLE_REST_DOUBLED
"""The longest time for which a connection is not read after a tiny read, reached in doublings: the bytes gather in the
system, and many are read at once."""


class Room(Wire):
    """A wire that counts the bytes of the answers that are being made."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._promises = endpoint.promises
        self._most_promised = endpoint.limits.max_connection_answer_bytes
        self._promised = 0
        self._turns = endpoint.turns
        self.mark = self._turns.mark
        self.is_in_line = False
        self.at_once = AT_ONCE_FIRST

    @property
    def has_room(self) -> bool:
        """Whether another large answer may be made."""
        return (
            self.is_writable
            and not self._holds & STRANGER
            and self._gathered < self._most_gathered
            and self._promised < self._most_promised
            and self._promises.has_room
        )

    def promise(self, size: int) -> None:
        """Count an answer of up to ``size`` bytes that is being made; a negative size takes it back."""
        if not self.is_open:
            return
        self._promised += size
        self._promises.take(size)
        if size < 0:
            self.look_for_room()

    def look_for_room(self) -> None:
        """If there is room, handle the requests that were set aside in the next turn of this connection."""
        if self.is_in_line or not self._aside:
            return
        if self.has_room:
            self._turns.wait(self)
        elif not self._promises.has_room:
            self._promises.wait(self)

    def take_turn(self) -> None:
        """Handle what waits, until there is no more or the turn is over."""
        raise NotImplementedError

    def _go_on(self) -> None:
        """Handle the requests that were set aside."""
        if not self.has_room:  # other connections took it since `look_for_room`
            self.look_for_room()
            return
        aside, self._aside = self._aside, deque()
        self._is_gathering = True
        self.handle(aside)
        if not self._aside:
            self.unhold(NO_ROOM)
        self.flush()

    def handle(self, events: Collection[Event]) -> None:
        """Handle events."""
        raise NotImplementedError

    def set_aside(self, events: Iterator[Event]) -> None:
        """Keep events until there is room, and do not read this connection until then."""
        self._aside.extend(events)
        if self._aside:
            self.hold(NO_ROOM)
            self.look_for_room()

    def resume_writing(self) -> None:
        """Note that the peer has caught up with reading."""
        super().resume_writing()
        self.look_for_room()

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._promises.forget(self, self._promised)
        self._promised = 0
        self._aside.clear()


class Pieces(Room):
    """A connection that handles reads in turns and pieces, if it is a server's; a caller handles a read at once."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._is_server = endpoint.is_server
        self._unread = b""
        self._read_to = 0
        self._left = MOST_IN_A_TURN
        self._counted = 0
        self._half_frame_ns = 0
        self._dribbles = 0
        self._dribbled_of = -1

    def data_received(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        if not self._is_server:
            self.receive(data)
            return
        turns = self._turns
        if self._unread or self.is_in_line:
            self._keep(self._unread[self._read_to :] + data)
        elif self._holds & (ALL_REQUESTS | HUSHED):
            self._keep_held(data)
        elif not (((self._talk.learns and not self._holds) or self._has_time()) and turns.lets(self)):
            self._keep(data)
            self._wait()
        elif len(data) <= PIECE_BYTES or turns.is_full:
            frames = self._frames_received
            self.receive(data)
            handled = self._frames_received - frames
            if handled:
                turns.charge(self, handled, 0, len(data))
            else:
                self._charge(0, len(data), len(data))
        else:
            self._keep(data)
            self._read_some(0)

    def _charge(self, handled: int, size: int, read: int) -> bool:
        """Charge a piece of ``size`` bytes out of a read; return whether the turn is over.

        Bytes of a frame that is not complete cost more until it is, when `receive` takes the surcharge off the mark:
        a peer that completes no frame is read after the others.
        """
        surcharge_ns = 0
        if not handled and read <= DRIBBLE_BYTES:
            surcharge_ns = self._rest_after_dribble()
        elif not handled:
            surcharge_ns = size * HALF_FRAME_NS
            self._half_frame_ns += surcharge_ns
        return self._turns.charge(self, handled, surcharge_ns, size)

    def _rest_after_dribble(self) -> int:
        """Do not read a peer for a while that sends a frame in many tiny pieces and few others, longer each time.

        Return the surcharge of the read.
        """
        if self._dribbled_of != self._frames_received:
            self._dribbled_of, self._dribbles = self._frames_received, 0
        self._dribbles += 1
        beyond = self._dribbles - DRIBBLES_FREE
        if beyond > 0 and self._talk.kept < self._dribbles * DRIBBLE_BYTES and self.is_open:
            self._endpoint.rest(self, DRIBBLE_REST_S * 2 ** min(beyond, DRIBBLE_REST_DOUBLED))
        return DRIBBLE_NS

    def _has_time(self) -> bool:
        """Whether the peer may take time of the loop now; if not, the connection is held as a stranger's until then."""
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Handle a piece of the stream."""
        raise NotImplementedError

    def take_turn(self) -> None:
        """Handle requests that were set aside, then bytes that were kept, until the turn is over."""
        if not self.is_open or self._holds & HUSHED:
            return
        handled = 0
        if self._aside:
            before = len(self._aside)
            self._go_on()
            handled = max(before - len(self._aside), 0)
            self._turns.charge(self, handled)
        if not self._aside:
            self._read_some(handled)

    def look_for_room(self) -> None:
        """Handle what waits in the next turn of this connection, if there is room."""
        if self._unread and not self._aside and not self._holds & STRANGER:
            self._count(len(self._unread))
            self._turns.wait(self)
        else:
            super().look_for_room()

    def _keep(self, data: bytes) -> None:
        """Keep bytes that are handled later, and read no more until then."""
        self._unread, self._read_to = data, 0
        self._count(len(data))
        self.hold(NEXT_TURN)

    def _keep_held(self, data: bytes) -> None:
        """Keep what was read although the connection is held; drop it if that is for good."""
        self._keep(data)
        if self._holds & HUSHED:
            self._drop()
        else:
            self._count(0)
            self._endpoint.partials.update(self, len(data), is_new=True)

    def unhold(self, reason: int) -> None:
        """Read again if this was the last reason not to; handle what was kept since the connection opened."""
        super().unhold(reason)
        if reason == ALL_REQUESTS and self._unread and not self._holds & STRANGER:
            if not self._talk.kept:
                self._endpoint.partials.forget(self)
            self.look_for_room()

    def _count(self, size: int) -> None:
        """Count the bytes that wait for a turn."""
        self._turns.waiting_bytes += size - self._counted
        self._counted = size

    def _drop(self) -> None:
        self._unread, self._read_to = b"", 0
        self._count(0)

    def _read_some(self, handled: int) -> None:
        """Receive pieces until the turn is over, or has ``handled`` enough; wait for the next turn with the rest."""
        unread, self._left = self._unread, MOST_IN_A_TURN - handled
        try:
            self._read_pieces(unread)
        finally:
            self._left = MOST_IN_A_TURN
        if self._read_to >= len(unread):
            self._drop()
            self.unhold(NEXT_TURN)
        else:
            self._wait()

    def _read_pieces(self, unread: bytes) -> None:
        frames = self._frames_received
        while self._left > 0 and self._read_to < len(unread) and not self._aside:
            if not (self.is_open and self._has_time()):
                break
            piece = unread[self._read_to : self._read_to + PIECE_BYTES]
            self._read_to += len(piece)
            self.receive(piece)
            handled, frames = self._frames_received - frames, self._frames_received
            self._left -= handled
            if self._charge(handled, len(piece), len(unread)):
                break

    def _wait(self) -> None:
        """Wait with the bytes that were kept: for a turn, or as a stranger for time."""
        if self.is_open and self._holds & STRANGER:
            self._count(0)
            self._endpoint.partials.update(self, self._talk.kept + len(self._unread) - self._read_to, is_new=False)
        else:
            self.look_for_room()

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._drop()

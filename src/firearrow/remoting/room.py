"""Room for answers: asked for before an answer is made, by each connection and by all together.

A connection has room for another large answer while its peer reads (fewer than ``write_high_water_bytes`` wait to be
sent) and while less than ``max_connection_answer_bytes`` of answers are being made for it, and less than
``max_answer_bytes`` for all. Requests that came in one read with those that took the room are set aside, and the
connection is not read. They go on as soon as there is room, and so do those for which a turn of the loop had no time.

Invariant: what is set aside goes on, in its order, when there are room and time, or ends with the connection.
"""

from collections import deque
from collections.abc import Collection, Iterator

from firearrow.protocol.connection import Event
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import NO_ROOM
from firearrow.remoting.wire import Wire
from firearrow.runtime.network import Address


class Room(Wire):
    """A wire that knows how much is under way."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._promises = endpoint.promises
        self._most_promised = endpoint.limits.max_connection_answer_bytes
        self._promised = 0
        self._is_going_on = False

    @property
    def has_room(self) -> bool:
        """Whether another large answer may be made."""
        return (
            self.is_writable
            and self._gathered < self._most_gathered
            and self._promised < self._most_promised
            and self._promises.has_room
        )

    def promise(self, size: int) -> None:
        """Count an answer of up to so many bytes that is being made; a negative number takes it back."""
        if not self.is_open:
            return
        self._promised += size
        self._promises.take(size)
        if size < 0:
            self.look_for_room()

    def look_for_room(self) -> None:
        """Go on with what was set aside, if there is room: in the next turn of the loop."""
        if self._is_going_on or not self._aside:
            return
        if self.has_room:
            self._is_going_on = True
            self._endpoint.loop.call_soon(self._go_on)
        elif not self._promises.has_room:
            self._promises.wait(self)

    def _go_on(self) -> None:
        self._is_going_on = False
        if not self.is_open:
            return
        if not self.has_room:  # others were faster
            self.look_for_room()
            return
        aside, self._aside = self._aside, deque()
        self._is_gathering = True
        self.handle(aside)
        if not self._aside:
            self.unhold(NO_ROOM)
        self.flush()

    def handle(self, events: Collection[Event]) -> None:
        """Handle what arrived."""
        raise NotImplementedError

    def set_aside(self, events: Iterator[Event]) -> None:
        """Handle these when there is room, and read no more until then."""
        self._aside.extend(events)
        if self._aside:
            self.hold(NO_ROOM)
            self.look_for_room()

    def resume_writing(self) -> None:
        """Note that the peer has caught up."""
        super().resume_writing()
        self.look_for_room()

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._promises.forget(self, self._promised)
        self._promised = 0
        self._aside.clear()

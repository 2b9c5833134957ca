"""Room for answers: limits on the answers that are being made, for a connection and for all.

A connection has room for another large answer while its peer reads (fewer than ``write_high_water_bytes`` wait to be
sent) and while less than ``max_connection_answer_bytes`` of answers are being made for it, and less than
``max_answer_bytes`` for all. When a request takes the last room, the requests behind it in the same read are set aside
and the connection is not read until there is room. Requests for which a turn had no time are set aside too.

Invariant: requests that are set aside are handled in order, or dropped when the connection ends.
"""

from collections import deque
from collections.abc import Collection, Iterator

from firearrow.protocol.connection import Event
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import NO_ROOM
from firearrow.remoting.wire import Wire
from firearrow.runtime.network import Address


class Room(Wire):
    """A wire that counts the bytes of the answers that are being made."""

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
        """Count an answer of up to ``size`` bytes that is being made; a negative size takes it back."""
        if not self.is_open:
            return
        self._promised += size
        self._promises.take(size)
        if size < 0:
            self.look_for_room()

    def look_for_room(self) -> None:
        """If there is room, handle the requests that were set aside in the next turn of the loop."""
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

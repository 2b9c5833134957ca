"""Backpressure: how much memory an endpoint holds for its peers, over all connections.

``Budget`` counts the bytes of requests whose answers are still owed. At the limit no connection is read any more, so
that peers queue in their own memory and not in ours; reading starts again once a quarter of the budget is free.

``Partials`` counts the bytes of half-received frames. To stop reading would not help, because only reading completes a
frame; so past the limit the connection whose frame began first is cut. A peer that sends at an ordinary pace completes
its frame long before that frame is the oldest; a peer that sends byte by byte is cut first.

``Promises`` counts the bytes of answers that are being made. Past the limit requests wait until some are done.

``UnsentBytes`` counts the memory of answers that wait to be sent because peers do not read: of an answer that is sent
in part, all of it, since a transport may free it only when all of it is sent. Waiting would let peers that never read
block all others; so past the limit the connection is cut whose peer has read nothing for the longest.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

WRITE_BUFFER: Final = 1
"""Not read because the peer does not read what it is sent."""

OWN_REQUESTS: Final = 2
"""Not read because too many bytes of its own requests are unanswered."""

ALL_REQUESTS: Final = 4
"""Not read because too many bytes of requests are unanswered on all connections together."""

RESTING: Final = 8
"""Not read for a while because there are too many requests: one read of many requests costs less than many reads."""


NO_ROOM: Final = 16
"""Not read because requests of this connection were set aside until there is room for their answers."""

NEXT_TURN: Final = 32
"""Not read because the last read is not handled completely: other connections have their turn first."""

STRANGER: Final = 64
"""Not read because requests whose sender has not proved who it is have taken too much time."""

HUSHED: Final = 128
"""Not read any more: the server is about to end. Nothing takes this reason away."""

UNCOUNTED_BYTES: Final = 64 * 1024
"""A connection with fewer unsent bytes is not counted: most of what is written leaves in the same turn."""

LOOK_EVERY_S: Final = 0.1
"""Seconds between two checks of all connections with unsent bytes, at least."""


class PausableReader(Protocol):
    """A connection that can stop reading, for one or more reasons."""

    def hold(self, reason: int) -> None:
        """Stop reading."""
        ...

    def unhold(self, reason: int) -> None:
        """Read again if this was the last reason not to."""
        ...


class Budget:
    """Bytes of unanswered requests on all connections in ``readers``.

    Connections change ``held`` themselves, which spares a call for every request whose answer is owed; they call
    ``check`` when ``held`` has reached ``limit``, or has fallen while the budget is exhausted.
    """

    __slots__ = ("_low", "_readers", "held", "is_exhausted", "limit")

    def __init__(self, limit: int, readers: Iterable[PausableReader]) -> None:
        self.limit = limit
        self._low = limit - limit // 4
        self._readers = readers
        self.held = 0
        self.is_exhausted = False

    def check(self) -> None:
        """Stop reading from all connections, or read from all again."""
        if self.held >= self.limit and not self.is_exhausted:
            self.is_exhausted = True
            for reader in tuple(self._readers):
                reader.hold(ALL_REQUESTS)
        elif self.is_exhausted and self.held <= self._low:
            self.is_exhausted = False
            for reader in tuple(self._readers):
                reader.unhold(ALL_REQUESTS)


class Dribbler(Protocol):
    """A connection that may be cut because its frame has been incomplete for too long."""

    def cut(self, reason: str) -> None:
        """End the connection at once."""
        ...


class Partials:
    """Half-received frames, the oldest first."""

    __slots__ = ("_limit", "_sizes", "held", "most")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Dribbler, int] = {}
        self.held = 0
        self.most = 0
        """The largest value of ``held`` since ``most`` was last set to 0."""

    def __len__(self) -> int:
        return len(self._sizes)

    def update(self, connection: Dribbler, size: int, *, is_new: bool) -> None:
        """Count ``size`` bytes of an incomplete frame of ``connection``: a new frame, or more of the same one."""
        if is_new:
            self.forget(connection)
        if size:
            self.held += size - self._sizes.get(connection, 0)
            self._sizes[connection] = size
            self.most = max(self.most, self.held)
            while self.held > self._limit:
                oldest = next(iter(self._sizes))
                self.forget(oldest)
                oldest.cut("max_partial_bytes is reached and this connection has held half a frame the longest")

    def forget(self, connection: Dribbler) -> None:
        """Count nothing for ``connection`` any more: its frame is complete, or the connection has ended."""
        self.held -= self._sizes.pop(connection, 0)


class RoomWaiter(Protocol):
    """A connection whose requests wait for room."""

    def look_for_room(self) -> None:
        """Handle waiting requests if there is room."""
        ...


class Promises:
    """Bytes of answers that are being made."""

    __slots__ = ("_limit", "_waiting", "has_room", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[RoomWaiter, None] = {}
        self.held = 0
        self.has_room = True

    def take(self, size: int) -> None:
        """Count ``size`` more bytes, or fewer if ``size`` is negative."""
        self.held += size
        self.has_room = self.held < self._limit
        if self.has_room and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for connection in waiting:
                connection.look_for_room()

    def wait(self, connection: RoomWaiter) -> None:
        """Call ``connection.look_for_room`` when there is room again."""
        self._waiting[connection] = None

    def forget(self, connection: RoomWaiter, size: int) -> None:
        """Remove an ended connection, and ``size`` bytes of answers that were being made for it."""
        self._waiting.pop(connection, None)
        self.take(-size)


class SlowPeer(Protocol):
    """A connection that may be cut because its peer does not read."""

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""
        ...

    @property
    def unfreed(self) -> int:
        """Bytes of the writes that are not sent completely."""
        ...

    def cut(self, reason: str) -> None:
        """End the connection at once."""
        ...


class UnsentBytes:
    """Connections with many unsent bytes: the number of bytes, their memory, and since when none of them was sent."""

    __slots__ = ("_limit", "_looked_at", "_now", "_seen", "held", "most")

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        self._seen: dict[SlowPeer, tuple[int, int, float]] = {}  # memory, unsent bytes, since when none was sent
        self._looked_at = -LOOK_EVERY_S
        self.held = 0
        """The memory at the last check: never less than there is."""
        self.most = 0
        """The largest value of ``held`` since ``most`` was last set to 0."""

    def __len__(self) -> int:
        return len(self._seen)

    def update(self, connection: SlowPeer, size: int, memory: int) -> None:
        """Note that ``connection`` has ``size`` unsent bytes now, which hold so many bytes of ``memory``."""
        if memory <= UNCOUNTED_BYTES:
            self.forget(connection)
            return
        known = self._seen.get(connection)
        if known is None:
            self._seen[connection] = memory, size, self._now()
            self.held += memory
        else:
            self._seen[connection] = memory, size, known[2] if size >= known[1] else self._now()
            self.held += memory - known[0]
        self.most = max(self.most, self.held)
        if self.held > self._limit:
            self._look()

    def forget(self, connection: SlowPeer) -> None:
        """Count nothing for ``connection`` any more: its peer has read, or the connection has ended."""
        known = self._seen.pop(connection, None)
        if known is not None:
            self.held -= known[0]

    def count(self) -> int:
        """Count the memory again, since peers have read meanwhile; return it."""
        now = self._now()
        for connection, (memory, size, since) in tuple(self._seen.items()):
            left, still = connection.unsent, connection.unfreed
            self._seen[connection] = still, left, since if left >= size else now
            self.held += still - memory
            if still <= UNCOUNTED_BYTES:
                self.forget(connection)
        return self.held

    def _look(self) -> None:
        """Count again; if that is still too much, cut the connections whose peers have read nothing for the longest."""
        now = self._now()
        if now - self._looked_at < LOOK_EVERY_S and self.held <= self._limit + self._limit // 4:
            return
        self._looked_at = now
        self.count()
        enough = self._limit - self._limit // 4
        for connection in sorted(self._seen, key=lambda slow: self._seen[slow][2]) if self.held > self._limit else ():
            if self.held <= enough:
                break
            self.forget(connection)
            connection.cut("max_all_unsent_bytes is reached and this peer has read nothing for the longest")

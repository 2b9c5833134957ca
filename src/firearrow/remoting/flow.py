"""How much an endpoint holds for its peers: unanswered requests, half-received frames, answers that are being made and
answers that are not read, over all connections.

``Budget`` counts the bytes of requests whose answers are still owed. When it is used up nobody is read any more, so
that peers queue in their own memory and not in ours; reading starts again once a quarter of it is free.

``Partials`` counts the bytes of frames that have begun and not ended. Not reading would be no cure here, because only
reading ends a frame; so past the limit the connection whose frame began first is cut. A peer that sends at any
ordinary pace finishes its frame long before it is the oldest, and one that dribbles bytes is cut first.

``Promises`` counts the bytes of answers that are being made. Past the limit requests wait until some are done.

``Unsent`` counts the bytes of answers that are made and not sent, because peers do not read. To wait would make
everybody wait for those who never will; so past the limit the connection is cut that has read nothing for the longest.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

WRITE_BUFFER: Final = 1
"""Not read because the peer does not read what it is sent."""

OWN_REQUESTS: Final = 2
"""Not read because too many bytes of its own requests are unanswered."""

ALL_REQUESTS: Final = 4
"""Not read because too many bytes of everybody's requests are unanswered."""

RESTING: Final = 8
"""Not read for a while because there are too many requests: one read that brings many costs less than many reads."""


NO_ROOM: Final = 16
"""Not read because requests of it were set aside until there is room for their answers."""

NEXT_TURN: Final = 32
"""Not read because what was read last is not all taken: others have their turn first."""

UNCOUNTED_BYTES: Final = 64 * 1024
"""A connection with fewer unsent bytes is not counted: most of what is written leaves in the same turn."""

LOOK_EVERY_S: Final = 0.1
"""How often all connections with unsent bytes are looked at, at most."""


class Reading(Protocol):
    """Something that can be told to stop reading, for one or more reasons."""

    def hold(self, reason: int) -> None:
        """Stop reading."""
        ...

    def unhold(self, reason: int) -> None:
        """Read again if this was the last reason not to."""
        ...


class Budget:
    """Bytes of unanswered requests on all connections in ``readers``.

    Connections add to ``held`` and take from it themselves, because that is done for every parked request; they call
    ``check`` when ``held`` has reached ``limit``, or has fallen while the budget is exhausted.
    """

    __slots__ = ("_low", "_readers", "held", "is_exhausted", "limit")

    def __init__(self, limit: int, readers: Iterable[Reading]) -> None:
        self.limit = limit
        self._low = limit - limit // 4
        self._readers = readers
        self.held = 0
        self.is_exhausted = False

    def check(self) -> None:
        """Stop everybody, or let everybody go on."""
        if self.held >= self.limit and not self.is_exhausted:
            self.is_exhausted = True
            for reader in tuple(self._readers):
                reader.hold(ALL_REQUESTS)
        elif self.is_exhausted and self.held <= self._low:
            self.is_exhausted = False
            for reader in tuple(self._readers):
                reader.unhold(ALL_REQUESTS)


class Dribbler(Protocol):
    """Something that may be cut for holding half a frame too long."""

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
        """The most that was held since somebody set this."""

    def __len__(self) -> int:
        return len(self._sizes)

    def update(self, connection: Dribbler, size: int, *, is_new: bool) -> None:
        """Remember that ``connection`` holds ``size`` bytes of a frame, which is a new one or still the same."""
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
        """Remember nothing of ``connection``: its frame is whole, or it is gone."""
        self.held -= self._sizes.pop(connection, 0)


class Waiting(Protocol):
    """Something that waits for room."""

    def look_for_room(self) -> None:
        """Go on if there is some."""
        ...


class Promises:
    """Bytes of answers that are being made."""

    __slots__ = ("_limit", "_waiting", "has_room", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[Waiting, None] = {}
        self.held = 0
        self.has_room = True

    def take(self, size: int) -> None:
        """Count so many more, or fewer."""
        self.held += size
        self.has_room = self.held < self._limit
        if self.has_room and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for one in waiting:
                one.look_for_room()

    def wait(self, connection: Waiting) -> None:
        """Tell ``connection`` when there is room again."""
        self._waiting[connection] = None

    def forget(self, connection: Waiting, size: int) -> None:
        """A connection is gone, and with it answers of so many bytes."""
        self._waiting.pop(connection, None)
        self.take(-size)


class Slow(Protocol):
    """Something that may be cut for not reading what it is sent."""

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""
        ...

    def cut(self, reason: str) -> None:
        """End the connection at once."""
        ...


class Unsent:
    """Connections with many unsent bytes: how many, and since when none of them was sent."""

    __slots__ = ("_limit", "_looked_at", "_now", "_seen", "held")

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        self._seen: dict[Slow, tuple[int, float]] = {}
        self._looked_at = -LOOK_EVERY_S
        self.held = 0
        """As last seen: no less than there are."""

    def __len__(self) -> int:
        return len(self._seen)

    def update(self, connection: Slow, size: int) -> None:
        """A connection has so many unsent bytes now."""
        known = self._seen.get(connection)
        if known is None:
            self._seen[connection] = size, self._now()
            self.held += size
        else:
            self._seen[connection] = size, known[1]
            self.held += size - known[0]
        if self.held > self._limit:
            self._look()

    def forget(self, connection: Slow) -> None:
        """A connection has read, or is gone."""
        known = self._seen.pop(connection, None)
        if known is not None:
            self.held -= known[0]

    def _look(self) -> None:
        """See who has read meanwhile; if that is not enough, cut whoever has not for the longest."""
        now = self._now()
        if now - self._looked_at < LOOK_EVERY_S and self.held <= 2 * self._limit:
            return
        self._looked_at = now
        for connection, (size, since) in tuple(self._seen.items()):
            left = connection.unsent
            self._seen[connection] = left, since if left >= size else now
            self.held += left - size
            if left <= UNCOUNTED_BYTES:
                self.forget(connection)
        enough = self._limit - self._limit // 4
        for connection in sorted(self._seen, key=lambda one: self._seen[one][1]) if self.held > self._limit else ():
            if self.held <= enough:
                break
            self.forget(connection)
            connection.cut("max_all_unsent_bytes is reached and this peer has read nothing for the longest")

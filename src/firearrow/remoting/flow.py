"""How much an endpoint holds for its peers: unanswered requests and half-received frames, over all connections.

``Budget`` counts the bytes of requests whose answers are still owed. When it is used up nobody is read any more, so
that peers queue in their own memory and not in ours; reading starts again once a quarter of it is free.

``Partials`` counts the bytes of frames that have begun and not ended. Not reading would be no cure here, because only
reading ends a frame; so past the limit the connection whose frame began first is cut. A peer that sends at any
ordinary pace finishes its frame long before it is the oldest, and one that dribbles bytes is cut first.
"""

from collections.abc import Iterable
from typing import Final, Protocol

WRITE_BUFFER: Final = 1
"""Not read because the peer does not read what it is sent."""

OWN_REQUESTS: Final = 2
"""Not read because too many bytes of its own requests are unanswered."""

ALL_REQUESTS: Final = 4
"""Not read because too many bytes of everybody's requests are unanswered."""

RESTING: Final = 8
"""Not read for a while because there are too many requests: one read that brings many costs less than many reads."""


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

    __slots__ = ("_limit", "_sizes", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Dribbler, int] = {}
        self.held = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def update(self, connection: Dribbler, size: int, *, is_new: bool) -> None:
        """Remember that ``connection`` holds ``size`` bytes of a frame, which is a new one or still the same."""
        if is_new:
            self.forget(connection)
        if size:
            self.held += size - self._sizes.get(connection, 0)
            self._sizes[connection] = size
            while self.held > self._limit:
                oldest = next(iter(self._sizes))
                self.forget(oldest)
                oldest.cut("max_partial_bytes is reached and this connection has held half a frame the longest")

    def forget(self, connection: Dribbler) -> None:
        """Remember nothing of ``connection``: its frame is whole, or it is gone."""
        self.held -= self._sizes.pop(connection, 0)

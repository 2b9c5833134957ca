"""Load shedding: an overloaded server refuses requests unread, and does not read their connections for a while.

A `SheddingPolicy` says when to refuse and for how long a connection rests (is not read) afterwards. A connection whose
requests were refused rests once; its next requests may be refused too, because they are late, but then it does not
rest again, so that no connection is shut out for ever. A connection that is served while others are refused rests for
a moment, so that its next read brings more requests.
"""

from typing import Final, Protocol

from firearrow.protocol.shedding import Refusals

SMALL_READ_BYTES: Final = 16 * 1024
"""After a read of fewer bytes the connection rests while the server is overloaded: larger reads cost less a request."""


class SheddingPolicy(Protocol):
    """Says when requests are refused unread, and how often connections are read then."""

    @property
    def beginnings(self) -> tuple[bytes, ...]:
        """The bytes after a frame's prefix by which the requests are recognised that may be refused."""
        ...

    @property
    def rest_s(self) -> float:
        """The time that a connection rests after its requests were refused unread."""
        ...

    @property
    def pace_s(self) -> float:
        """The time that a connection rests after a small read that is served; 0 while the server is not overloaded."""
        ...

    def is_shut(self) -> bool:
        """Whether this turn of the loop refuses requests unread. Asked once for each read that begins with one."""
        ...

    def is_behind(self) -> bool:
        """Whether requests that were not read for ``rest_s`` are late."""
        ...

    def refusals(self) -> Refusals:
        """Return the refusal of requests in this turn of the loop."""
        ...

    def refused_some(self, count: int) -> None:
        """Count requests that were refused unread."""
        ...


class ShedConnection(Protocol):
    """A connection as load shedding sees it."""

    has_rested: bool

    @property
    def is_between_frames(self) -> bool:
        """Whether the next byte begins a frame."""
        ...

    def give_encoded(self, answers: list[bytes], requests: int) -> None:
        """Queue encoded answers to this number of requests."""
        ...

    def rest(self, seconds: float) -> None:
        """Read nothing from this connection for ``seconds`` plus jitter."""
        ...


def shed_load(policy: SheddingPolicy, connection: ShedConnection, data: bytes, *, is_shut: bool) -> bytes:
    """Refuse the requests of a read that the policy sheds; return the bytes that remain to be read."""
    has_rested, connection.has_rested = connection.has_rested, False
    if not (is_shut or (has_rested and policy.is_behind())):
        if policy.pace_s and len(data) < SMALL_READ_BYTES and connection.is_between_frames:
            connection.rest(policy.pace_s)
        return data
    if not connection.is_between_frames:
        return data
    answers, count, rest = policy.refusals().shed(data)
    policy.refused_some(count)
    connection.give_encoded(answers, count)
    if count and not has_rested:
        connection.has_rested = True
        connection.rest(policy.rest_s)
    return rest

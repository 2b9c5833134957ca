"""The limit on the cost of strangers: the loop's time for requests whose sender is not authenticated.

A server that asks who its peers are reads what peers without keys send, and that takes time from the others. The time
of every read of a connection whose peer has not proved who it is is charged to the connection and to its address,
whatever the read held: requests, answers that nobody waits for, or bytes that end the connection. Each has a budget
that fills up slowly; a connection that has used up either is not read until the budget has room again. A connection
of an address without room is not read at first if it is new, and its bytes are not parsed if it was open before. Peers
that have proved who they are pay nothing, whatever strangers at their address do.

A new connection is charged to its address when it opens, and the steps of its TLS handshake as they are made; a peer
that proves who it is gets both back. Further connections of an address that is far in debt are refused. Pure.

Invariant: an address is remembered only while its budget is not full, and at most `ADDRESSES_MAX` are.
"""

from typing import Final

from firearrow.telemetry.damped import DampedEvents

CONNECTION_BURST_S: Final = 0.5
CONNECTION_SHARE: Final = 0.05
"""Seconds of the loop for one connection at once, and for each second."""
ADDRESS_BURST_S: Final = 1.0
ADDRESS_SHARE: Final = 0.1
"""Seconds of the loop for all connections of one address at once, and for each second."""
ADDRESSES_MAX: Final = 10_000
"""The most addresses with a budget of their own; further ones share one until a budget is full again."""
FORGET_EVERY_S: Final = 1.0
OPENING_S: Final = 0.0002
"""The time to accept a connection and to end it, besides the time of its reads."""
REFUSED_PAUSE_S: Final = 1.0
"""A new connection is refused when its address would not be read for longer than this."""
DENIALS_MAX: Final = 9
"""A connection that is not read again and again waits twice as long each time, so often."""
PAUSE_MIN_S: Final = 0.01
PAUSE_MAX_S: Final = 30.0
"""The shortest and the longest time for which a connection is not read: a pause must end later than it began."""


class TimeBudget:
    """Seconds that may be spent: up to a burst, and a share of the time after that."""

    __slots__ = ("_at", "_burst", "_left", "_share")

    def __init__(self, burst: float, share: float, now: float) -> None:
        self._burst, self._share = burst, share
        self._left, self._at = burst, now

    def _fill(self, now: float) -> None:
        self._left = min(self._burst, self._left + (now - self._at) * self._share)
        self._at = now

    def spend(self, seconds: float, now: float) -> None:
        """Count time that was spent."""
        self._fill(now)
        self._left -= seconds

    def pause(self, now: float) -> float:
        """Return the seconds until there is room again; 0 while there is."""
        self._fill(now)
        return 0.0 if self._left >= 0 else min(max(-self._left / self._share, PAUSE_MIN_S), PAUSE_MAX_S)

    def is_full(self, now: float) -> bool:
        """Whether nothing was spent for a while."""
        self._fill(now)
        return self._left >= self._burst


class Strangers:
    """The budgets of the addresses that strangers have sent requests from."""

    def __init__(self) -> None:
        self._by_address: dict[str, TimeBudget] = {}
        self._others: TimeBudget | None = None
        self._looked_at = float("-inf")
        self.pauses: Final = DampedEvents()
        """Connections that were not read for a while."""
        self.refused: Final = DampedEvents()
        """Connections that were refused because their address was far in debt."""

    def __len__(self) -> int:
        return len(self._by_address)

    def pause_of(self, host: str, now: float) -> float:
        """Return the seconds for which strangers of an address are not read."""
        budget = self._by_address.get(host)
        return 0.0 if budget is None else budget.pause(now)

    def spend(self, own: TimeBudget, host: str, seconds: float, now: float) -> float:
        """Charge time to a connection's own budget and to its address; return how long it is not read."""
        own.spend(seconds, now)
        return max(own.pause(now), self.charge(host, seconds, now))

    def charge(self, host: str, seconds: float, now: float) -> float:
        """Charge time to an address, or give it back if it is negative; return how long the address is not read."""
        budget = self._by_address.get(host) or self._new(host, now)
        budget.spend(seconds, now)
        return budget.pause(now)

    def _new(self, host: str, now: float) -> TimeBudget:
        if len(self._by_address) >= ADDRESSES_MAX and now - self._looked_at >= FORGET_EVERY_S:
            self._looked_at = now
            self._by_address = {name: budget for name, budget in self._by_address.items() if not budget.is_full(now)}
        if len(self._by_address) >= ADDRESSES_MAX:
            self._others = self._others or TimeBudget(ADDRESS_BURST_S, ADDRESS_SHARE, now)
            return self._others
        budget = self._by_address[host] = TimeBudget(ADDRESS_BURST_S, ADDRESS_SHARE, now)
        return budget

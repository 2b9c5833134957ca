"""A token bucket: how much may pass in a second, on average. Pure: time is an argument, in seconds.

The balance grows by ``rate`` a second, up to what one second brings (the burst). A request may pass while the balance
is above zero, and its whole cost is taken, which may leave a debt: so a request above the burst passes too, and what an
answer costs can be taken when its size is known. Nothing passes until the debt is paid.

Within any time a bucket lets pass at most its burst, what the time brings, and whole the last request and the answers
to requests that passed before: pulls that wait for messages may all be answered at once. A bucket whose
balance is at its burst is as good as a new one.

Those who are refused are told times one behind the other, up to `SPREAD_S` apart, so that they do not all come back at
the same moment.
"""

from typing import Final

BURST_S: Final = 1.0
"""The burst, in seconds of the rate."""
SPREAD_S: Final = 1.0
"""The span over which refused requests are asked to come again."""


class Bucket:
    """The balance of one name."""

    __slots__ = ("_at", "_balance", "_line", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._balance = rate * BURST_S
        self._at = now
        self._line = now

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._balance = min(self._balance + (now - self._at) * self.rate, self.rate * BURST_S)
            self._at = now

    def may_pass(self, now: float) -> bool:
        """Whether a request may pass."""
        self._fill(now)
        return self._balance > 0

    def is_full(self, now: float) -> bool:
        """Whether the bucket can be forgotten without anybody noticing."""
        self._fill(now)
        return self._balance >= self.rate * BURST_S

    def take(self, cost: float) -> None:
        """Take the cost of a request that passes, or of its answer."""
        self._balance -= cost

    def wait_s(self, now: float) -> float:
        """Return how long it takes until the debt is paid."""
        self._fill(now)
        return max(-self._balance, 0.0) / self.rate

    def tell_s(self, cost: float, now: float) -> float:
        """Return how long a request of this cost should wait, behind others that were told to."""
        paid_at = now + self.wait_s(now)
        told_at = min(max(self._line, paid_at), paid_at + SPREAD_S)
        self._line = told_at + cost / self.rate
        return told_at - now

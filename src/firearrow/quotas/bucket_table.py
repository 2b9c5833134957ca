"""The buckets of the names of one kind in one measure: a bounded number. Pure.

A bucket is made when its name first asks. When there are `BUCKETS_MAX`, those are forgotten that are full again, which
nobody notices. If none is, further names share one bucket until there is room: then names are more than a broker can
tell apart, and strangers limit each other rather than nobody being limited. Names with a limit of their own in the
settings always have their own bucket.
"""

from typing import Final

from firearrow.quotas.bucket import Bucket
from firearrow.quotas.settings import Limit

BUCKETS_MAX: Final = 10_000
FORGET_EVERY_S: Final = 1.0
"""Buckets are not looked through more often: it takes milliseconds."""


class Buckets:
    """The buckets for one limit."""

    def __init__(self, limit: Limit, most: int = BUCKETS_MAX) -> None:
        self.limit = limit
        self._most = most
        self._by_name: dict[tuple[str, str], Bucket] = {}
        """By owner and name."""
        self.others: Bucket | None = None
        """The bucket that names share for which there was no room."""
        self._looked_at = float("-inf")

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, name: str, now: float, owner: str = "") -> Bucket | None:
        """Return the bucket of a name; None when the name has no limit. The same name of two owners has two buckets."""
        found = self._by_name.get((owner, name))
        return found if found is not None else self._new(owner, name, now)

    def _new(self, owner: str, name: str, now: float) -> Bucket | None:
        rate = self.limit.of(name)
        if not rate:
            return None
        if len(self._by_name) >= self._most and name not in self.limit.named and not self._forget(now):
            if self.others is None:
                self.others = Bucket(rate, now)
            return self.others
        bucket = self._by_name[owner, name] = Bucket(rate, now)
        return bucket

    def _forget(self, now: float) -> bool:
        """Forget buckets that are full again; return whether there is room."""
        if now - self._looked_at < FORGET_EVERY_S:
            return False
        self._looked_at = now
        self._by_name = {key: bucket for key, bucket in self._by_name.items() if not bucket.is_full(now)}
        return len(self._by_name) < self._most

"""A cache of encoded route answers; an answer is dropped when its route changes.

A route has two forms: standard JSON, and fastjson's with bare numbers as keys. Both are cached by topic.

Invariant: the cached bytes stay within the limit; above it the oldest answers are dropped first, so that a few topics
on very many brokers cannot fill the memory. A dropped answer is encoded again when it is asked for.
"""

from typing import Final

DEFAULT_LIMIT_BYTES: Final = 64 * 1024 * 1024


class EncodedRoutes:
    """Encoded routes by topic. ``standard`` and ``bare`` are read directly on the hot path and never written there."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.standard: dict[str, bytes] = {}
        self.bare: dict[str, bytes] = {}
        self._limit = limit_bytes
        self._held = 0

    def keep(self, topic: str, encoded: bytes, *, bare: bool) -> None:
        """Cache an answer, unless it is larger than the whole limit."""
        if len(encoded) > self._limit:
            return
        (self.bare if bare else self.standard)[topic] = encoded
        self._held += len(encoded)
        while self._held > self._limit:
            self.drop(next(iter(self.standard or self.bare)))

    def drop(self, topic: str) -> None:
        """Drop the answers of a topic."""
        for form in (self.standard, self.bare):
            gone = form.pop(topic, None)
            if gone is not None:
                self._held -= len(gone)

    def clear(self) -> None:
        """Drop all answers."""
        self.standard.clear()
        self.bare.clear()
        self._held = 0

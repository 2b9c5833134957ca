"""Encoded route answers, kept until something they say changes.

Two forms of the same route exist: standard JSON, and fastjson's with bare numbers as keys. Each is kept by topic.

Invariant: the bytes held stay within the limit; past it the answers that were encoded first go first, so that a few
topics on very many brokers cannot fill the memory. An answer that is gone is only encoded again.
"""

from typing import Final

DEFAULT_LIMIT_BYTES: Final = 64 * 1024 * 1024


class Answers:
    """Encoded routes by topic. ``standard`` and ``bare`` are read directly on the hot path and never written there."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.standard: dict[str, bytes] = {}
        self.bare: dict[str, bytes] = {}
        self._limit = limit_bytes
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of all the answers held."""
        return self._held

    def keep(self, topic: str, encoded: bytes, *, bare: bool) -> None:
        """Hold an answer that is not held yet; one that is larger than the whole limit is not kept."""
        if len(encoded) > self._limit:
            return
        (self.bare if bare else self.standard)[topic] = encoded
        self._held += len(encoded)
        while self._held > self._limit:
            self.drop(next(iter(self.standard or self.bare)))

    def drop(self, topic: str) -> None:
        """Forget what is held about a topic."""
        for form in (self.standard, self.bare):
            gone = form.pop(topic, None)
            if gone is not None:
                self._held -= len(gone)

    def clear(self) -> None:
        """Forget everything."""
        self.standard.clear()
        self.bare.clear()
        self._held = 0

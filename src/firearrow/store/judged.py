"""Which entries of a queue this process has judged, with their records, since it started. Pure.

A record that lay on disk when the process started may have rotted there, and so may its queue entry. The first read
judges both: the record's checksum, and that the entry leads to it and has its tag code. What was judged and is in
memory since then is as good as what this process wrote, and is read the same short way. What the kernel dropped from
memory meanwhile is judged again when it is read from the device.

Invariant: spans are apart, and at most `SPANS_KEPT`; the one that grew last stands last.
"""

from typing import Final

SPANS_KEPT: Final = 4
"""Spans remembered for a queue: as many groups as read it at different places, with their memory bounded."""


class Judged:
    """Spans of entries, each from its first to the one after its last."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def until(self, offset: int) -> int:
        """The end of the span that an entry lies in; the entry itself when it lies in none."""
        for first, end in self._spans:
            if first <= offset < end:
                return end
        return offset

    def add(self, first: int, end: int) -> None:
        """Entries from ``first`` to before ``end`` are judged; the span that grew longest ago goes when there are too
        many."""
        apart = []
        for span in self._spans:
            if span[1] < first or end < span[0]:
                apart.append(span)
            else:
                first, end = min(first, span[0]), max(end, span[1])
        self._spans = [*apart[-(SPANS_KEPT - 1) :], (first, end)]

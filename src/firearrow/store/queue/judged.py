"""The older entries of a queue that this process has checked, with their records. Pure.

A record that was on disk when the process started may have rotted, and so may its queue entry. The first read checks
both: the record's checksum, and that the entry leads to the record and has its tag code. Afterwards entry and record
are read as fast as those of this process while they stay in the page cache; from the device, with a check again.

Invariant: spans do not overlap, and there are at most `SPANS_KEPT`; the span that grew last is the last.
"""

from typing import Final

SPANS_KEPT: Final = 4
"""The most spans for a queue: one for each group that reads another part of it, with bounded memory."""


class JudgedSpans:
    """Half-open spans of entries."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def until(self, offset: int) -> int:
        """The end of the span that holds an entry; the entry itself when no span holds it."""
        for first, end in self._spans:
            if first <= offset < end:
                return end
        return offset

    def add(self, first: int, end: int) -> None:
        """Add the entries from ``first`` to before ``end``; if there are too many spans, drop the one that grew longest
        ago."""
        apart = []
        for span in self._spans:
            if span[1] < first or end < span[0]:
                apart.append(span)
            else:
                first, end = min(first, span[0]), max(end, span[1])
        self._spans = [*apart[-(SPANS_KEPT - 1) :], (first, end)]

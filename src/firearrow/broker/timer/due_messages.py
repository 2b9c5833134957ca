"""Makes what is stored for the messages of a slot: for their topics, or for the timers again.

The messages are divided into pieces. A piece is stored as a whole or not at all, and is counted when it is stored: a
piece that the disk refuses is made again at every attempt.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.due_columns import due_columns
from firearrow.broker.timer.records import (
    ReadSpan,
    TimedRecord,
    delivered,
    drafts_of,
    in_columns,
    is_early,
    is_recalled,
    rolled,
)
from firearrow.model import keys
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import Draft
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.timer.chain import Chain
from firearrow.store.timer.layout import PRECISIONS_MS, ROLLS

log = logging.getLogger(__name__)

Columns: TypeAlias = tuple[Envelope, MessageColumns]

Recalled: TypeAlias = set[tuple[str, str]]
"""Topics and keys of messages that were taken back."""


class Fate(NamedTuple):
    """The change of the counts by a message once its piece is stored."""

    topic: str | None = None
    """The topic for which the message is no longer pending; None for a recall, or a message that cannot be read."""
    is_delivered: bool = False
    is_missing: bool = False


class SlotPiece(NamedTuple):
    """Messages of a slot that are stored as a whole or not at all."""

    columns: Columns | None
    """The messages that are stored; None when there are none."""
    fates: Sequence[Fate]
    """The fates of all messages of the slot that the piece stands for, in order."""
    ends: Sequence[int]
    """For each message that is stored, the number of fates that are decided with it."""

    def drafts(self) -> Iterator[tuple[Draft, Sequence[Fate]]]:
        """Return the messages that are stored one by one, each with the fates that are decided with it."""
        first = 0
        if self.columns is not None:
            for draft, end in zip(drafts_of(*self.columns), self.ends, strict=True):
                yield draft, self.fates[first:end]
                first = end


class DueMessages:
    """The messages of slots that are delivered."""

    def __init__(self, log: CommitLog, counts: TimerCounts, precision_ms: int) -> None:
        self._log = log
        self._counts = counts
        self._precision_ms = precision_ms
        self.missing = 0
        """Messages that are not in the log any more; set to 0 by whoever reads it."""

    def stored(self, fates: Sequence[Fate], now_ms: int) -> None:
        """Count messages that are stored."""
        for fate, count in Counter(fates).items():
            if fate.topic is not None:
                self._counts.change(fate.topic, -count, now_ms)
            self._counts.delivered += count * fate.is_delivered
            self.missing += count * fate.is_missing

    def pieces(
        self, span: ReadSpan, numbers: list[int], chain: Chain, deleted: Recalled, now_ms: int
    ) -> Sequence[SlotPiece]:
        """Return what is stored for the messages with these numbers in a chain, whose records are in a span."""
        found = None if deleted else self._together(span, numbers, chain, now_ms)
        return self._one_by_one(span, numbers, chain, deleted, now_ms) if found is None else found

    def _together(self, span: ReadSpan, numbers: list[int], chain: Chain, now_ms: int) -> list[SlotPiece] | None:
        """Return what is stored for messages that are much alike; None for others."""
        if self._precision_ms != PRECISIONS_MS[-1] or any(chain.magics[number] & ROLLS for number in numbers):
            return None
        added = [chain.written[number] for number in numbers]
        found = due_columns(span, added, now_ms)
        return None if found is None else [_whole(*columns) for columns in found]

    def _one_by_one(
        self, span: ReadSpan, numbers: list[int], chain: Chain, deleted: Recalled, now_ms: int
    ) -> list[SlotPiece]:
        drafts: list[Draft] = []
        ends: list[int] = []
        fates: list[Fate] = []
        for number, record in zip(numbers, span.records(), strict=True):
            draft, fate = self._draft(record, number, chain, deleted, now_ms)
            fates.append(fate)
            if draft is not None:
                drafts.append(draft)
                ends.append(len(fates))
        return list(_divided(drafts, ends, fates))

    def _draft(
        self, record: TimedRecord | None, number: int, chain: Chain, deleted: Recalled, now_ms: int
    ) -> tuple[Draft | None, Fate]:
        """Return what is stored for a message, None for nothing, and its fate."""
        if record is None:
            # Those of deleted files were stored again before the deletion (`Renewal`).
            return None, Fate(is_missing=chain.physicals[number] >= self._log.min_offset)
        added_ms = chain.written[number]
        try:
            topic = record.value(keys.REAL_TOPIC) or ""
            if chain.magics[number] & ROLLS or is_early(record, self._precision_ms, now_ms):
                return rolled(record, added_ms, now_ms), Fate(None if record.is_deletion else topic)
            draft = None if deleted and is_recalled(record, deleted) else delivered(record, added_ms, now_ms)
            # Without a draft it was taken back, or names no topic.
            return draft, Fate(topic) if draft is None else Fate(draft.topic, is_delivered=True)
        except Exception as error:  # a record that any client may have sent must not stop the timers
            log.exception("a timed message cannot be delivered", extra={"reason": str(error)})
            return None, Fate()


def _whole(envelope: Envelope, columns: MessageColumns) -> SlotPiece:
    """Return messages that are all delivered to one topic."""
    count = len(columns.bodies)
    return SlotPiece((envelope, columns), [Fate(envelope.topic, is_delivered=True)] * count, range(1, count + 1))


def _divided(drafts: list[Draft], ends: list[int], fates: list[Fate]) -> Iterator[SlotPiece]:
    """Return messages in pieces that share an envelope; those that nothing is stored for are with the ones before."""
    first = fates_first = 0
    for columns in in_columns(drafts):
        last = first + len(columns[1].bodies)
        fates_last = ends[last - 1] if last < len(drafts) else len(fates)
        inner = [end - fates_first for end in ends[first : last - 1]]
        yield SlotPiece(columns, fates[fates_first:fates_last], [*inner, fates_last - fates_first])
        first, fates_first = last, fates_last
    if fates and not drafts:
        yield SlotPiece(None, fates, ())

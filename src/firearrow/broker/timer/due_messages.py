"""Makes what is stored for the messages of a slot: for their topics, or for the timers again.

What a portion changes in the counts is collected, and counted when all of it is stored: a portion that the disk refuses
is made again at every attempt.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from firearrow.broker.tables.tables import Tables
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.due_columns import due_columns
from firearrow.broker.timer.records import (
    ReadSpan,
    TimedRecord,
    delivered,
    in_columns,
    is_early,
    is_recalled,
    rolled,
)
from firearrow.model import keys
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import Draft
from firearrow.store.timer.chain import Chain
from firearrow.store.timer.layout import PRECISIONS_MS, ROLLS

log = logging.getLogger(__name__)

Columns: TypeAlias = tuple[Envelope, MessageColumns]

Recalled: TypeAlias = set[tuple[str, str]]
"""Topics and keys of messages that were taken back."""


class DueMessages:
    """The messages of slots that are delivered."""

    def __init__(self, tables: Tables, counts: TimerCounts, precision_ms: int) -> None:
        self._log = tables.store.log
        self._counts = counts
        self._precision_ms = precision_ms
        self.missing = 0
        """Messages that are not in the log any more; set to 0 by whoever reads it."""
        self._changes: Counter[str] = Counter()
        self._came = self._gone = 0

    def begin(self) -> None:
        """Begin a portion: forget what was collected for one that could not be stored."""
        self._changes.clear()
        self._came = self._gone = 0

    def stored(self, now_ms: int) -> None:
        """Count the messages of a portion that is stored."""
        for topic, change in self._changes.items():
            self._counts.change(topic, change, now_ms)
        self._counts.delivered += self._came
        self.missing += self._gone
        self.begin()

    def columns(
        self, span: ReadSpan, numbers: list[int], chain: Chain, deleted: Recalled, now_ms: int
    ) -> Iterable[Columns]:
        """Return what is stored for the messages with these numbers in a chain, whose records are in a span."""
        found = None if deleted else self._together(span, numbers, chain, now_ms)
        return in_columns(self._one_by_one(span, numbers, chain, deleted, now_ms)) if found is None else found

    def _together(self, span: ReadSpan, numbers: list[int], chain: Chain, now_ms: int) -> list[Columns] | None:
        """Return what is stored for messages that are much alike; None for others."""
        if self._precision_ms != PRECISIONS_MS[-1] or any(chain.magics[number] & ROLLS for number in numbers):
            return None
        added = [chain.written[number] for number in numbers]
        found = due_columns(span, added, now_ms)
        for envelope, columns in found or ():
            self._collect(envelope.topic, len(columns.bodies))
        return found

    def _collect(self, topic: str, delivered: int) -> None:
        self._changes[topic] -= delivered
        self._came += delivered

    def _one_by_one(
        self, span: ReadSpan, numbers: list[int], chain: Chain, deleted: Recalled, now_ms: int
    ) -> list[Draft]:
        drafts: list[Draft] = []
        came: list[str] = []
        for number, record in zip(numbers, span.records(), strict=True):
            if record is None:
                # Those of deleted files were stored again before the deletion (`Renewal`).
                self._gone += chain.physicals[number] >= self._log.min_offset
                continue
            try:
                if chain.magics[number] & ROLLS or is_early(record, self._precision_ms, now_ms):
                    drafts.append(self._rolled(record, chain.written[number], now_ms))
                elif (draft := self._delivered(record, chain.written[number], deleted, now_ms)) is not None:
                    drafts.append(draft)
                    came.append(draft.topic)
            except Exception as error:  # a record that any client may have sent must not stop the timers
                log.exception("a timed message cannot be delivered", extra={"reason": str(error)})
        for topic, count in Counter(came).items():
            self._collect(topic, count)
        return drafts

    def _rolled(self, record: TimedRecord, added_ms: int, now_ms: int) -> Draft:
        if not record.is_deletion:
            self._changes[record.value(keys.REAL_TOPIC) or ""] -= 1
        return rolled(record, added_ms, now_ms)

    def _delivered(self, record: TimedRecord, added_ms: int, deleted: Recalled, now_ms: int) -> Draft | None:
        """Return what is stored for a message; None for one that was taken back, or names no topic."""
        draft = None if deleted and is_recalled(record, deleted) else delivered(record, added_ms, now_ms)
        if draft is None:
            self._changes[record.value(keys.REAL_TOPIC) or ""] -= 1
        return draft

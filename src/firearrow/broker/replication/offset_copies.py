"""A slave's copy of its master's offsets: rows are taken, and rows that the master has no more are deleted.

A group may have committed here while the master was away, and that counts until the master's own row changes: a row
that is the same as at the last look is not taken again, and an offset that was committed here since stays although the
master, which may have lost its row in a crash, has none; not if the master has no such topic or group. At the first
look a row that only the slave has is deleted: its topic or group was deleted while nobody looked, and an old offset
would skip messages of the topic's next life.

A master of ours is asked for the rows that changed since a mark; a row without offsets is deleted. The master tells
many rows in parts, which are taken together (`joined`).

Offsets to which an operator moved a group are taken with their row in an elected group, so that the next master
refuses the commits of consumers that have not taken the move yet. A row and its moved offsets are taken in one step: a
replica that becomes the master between two rows has the moves of both.

A topic that is created again begins at offset 0 again. The log shows where: when a queue begins anew, its offsets are
deleted at once, and rows that the master told before that are not taken. A later row is taken also if it is the same as
the last one of the earlier life: an offset that is missing here is always taken.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.broker.tables.offsets import SEPARATOR, OffsetTable
from firearrow.runtime.turn import breathe

ROWS_AT_ONCE: Final = 1000
"""Rows that are compared in one turn of the loop."""

Row = dict[int, int]
"""The offsets of a group in a topic, by queue."""


class ToldOffsets(Struct, frozen=True):
    """Rows of a master's table."""

    rows: dict[str, Row]
    mark: str | None = None
    """Names the state of the table before they were read; None for a master that has no marks."""
    since: str | None = None
    """The mark after which these rows have changed; None when they are all rows."""
    moved: dict[str, Row] | None = None
    """Moved offsets of these rows; None when they are not taken."""


def joined(told: ToldOffsets | None, part: ToldOffsets) -> ToldOffsets:
    """Return what was told so far with the next part; a first part of all rows takes the place of what was told."""
    if told is None or part.since is None:
        return part
    moved = part.moved or {}
    for name, queues in part.rows.items():
        if queues or told.since is not None:
            told.rows[name] = queues
        else:
            told.rows.pop(name, None)
        if told.moved is not None:
            told.moved.pop(name, None)
    if told.moved is not None:
        told.moved.update(moved)
    return replace(told, mark=part.mark)


class OffsetCopies:
    """Keeps the offsets of a slave equal to those of its master."""

    def __init__(self, offsets: OffsetTable, knows: Callable[[str, str], bool]) -> None:
        """``knows`` tells whether the master has a topic and a group."""
        self._offsets = offsets
        self._knows = knows
        self._seen: dict[str, Row] | None = None
        """The rows of the last look; None before the first."""
        self._ended_at: dict[str, int] = {}
        """Topics that were deleted: an end that the log had only after that."""
        self._deletes = True
        self._moved: Mapping[str, Row] | None = None
        """Moved offsets of the rows that are being taken; None when they are not taken."""
        self.mark: str | None = None
        """The state of the master's table up to which its rows are taken; None when all rows must be told."""

    def ended(self, topic: str, log_end: int) -> None:
        """Note that a topic was deleted before the log had this end: what was told of it earlier may be old."""
        self._ended_at[topic] = max(log_end, self._ended_at.get(topic, 0))

    async def take(self, told: ToldOffsets, told_at: int, *, deletes: bool = True) -> bool:
        """Take rows of the master, which were read when its log had the end ``told_at`` or a later one.

        Return False when rows were left out that were told before their topic ended: the next look tells all rows.
        ``deletes`` says whether what the master has no more is deleted here.
        """
        self._deletes = deletes
        self._moved = told.moved
        take = self._take_all if told.since is None else self._take_changed
        is_old = await take(told.rows, told_at)
        self.mark = None if is_old else told.mark
        self._ended_at = {topic: end for topic, end in self._ended_at.items() if end > told_at}
        return not is_old

    async def _take_changed(self, changed: Mapping[str, Row], told_at: int) -> bool:
        """Take rows that have changed; return whether one of them was told before its topic ended."""
        is_old, seen = False, {} if self._seen is None else self._seen
        for done, (name, queues) in enumerate(changed.items(), 1):
            topic, found, group = name.partition(SEPARATOR)
            if self._ended_at.get(topic, -1) > told_at:
                is_old = True
            elif found:
                before = seen.pop(name, {})
                if queues:
                    seen[name] = queues
                if self._deletes and before and not queues and not self._knows(topic, group):
                    self._offsets.forget_row(topic, group)
                elif before != queues or self._lacks(topic, group, queues):
                    self._take_row(topic, group, before, queues)
                self._take_moved(name, topic, group)
            if done % ROWS_AT_ONCE == 0:
                await breathe()
        return is_old

    async def _take_all(self, table: Mapping[str, Row], told_at: int) -> bool:
        seen = self._seen
        rows: dict[str, Row] = {}
        for done, (name, queues) in enumerate(table.items(), 1):
            topic, found, group = name.partition(SEPARATOR)
            if found and self._ended_at.get(topic, -1) <= told_at:
                rows[name] = queues
                before = self._offsets.of(group, topic) if seen is None else seen.get(name, {})
                if seen is None or before != queues or self._lacks(topic, group, queues):
                    self._take_row(topic, group, before, queues)
                self._take_moved(name, topic, group)
            if done % ROWS_AT_ONCE == 0:
                await breathe()
        if self._deletes:
            await self._forget_missing(table, told_at)
        self._seen = rows
        return any(end > told_at for end in self._ended_at.values())

    def _lacks(self, topic: str, group: str, queues: Row) -> bool:
        """Whether an offset of a row is missing here."""
        return not queues.keys() <= self._offsets.of(group, topic).keys()

    def _take_row(self, topic: str, group: str, before: Row, queues: Row) -> None:
        own = self._offsets.of(group, topic)
        gone = [one for one, offset in before.items() if one not in queues and own.get(one) == offset]
        for queue_id in gone if self._deletes else []:
            self._offsets.forget_offset(topic, group, queue_id)
        put = self._offsets.commit if self._moved is None else self._offsets.adopt
        for queue_id, offset in queues.items():
            put(group, topic, queue_id, offset)

    def _take_moved(self, name: str, topic: str, group: str) -> None:
        if self._moved is not None:
            self._offsets.adopt_moved(topic, group, self._moved.get(name, {}))

    async def _forget_missing(self, table: Mapping[str, Row], told_at: int) -> None:
        """Delete the rows that the master has no more: at the first look every row that only this broker has."""
        known = self._seen
        names = [f"{topic}{SEPARATOR}{group}" for topic, group in self._offsets.pairs()] if known is None else known
        for done, name in enumerate(names, 1):
            topic, _, group = name.partition(SEPARATOR)
            if name not in table and self._ended_at.get(topic, -1) <= told_at:
                if known is None or not self._knows(topic, group):
                    self._offsets.forget_row(topic, group)
                else:
                    self._take_row(topic, group, known[name], {})
            if done % ROWS_AT_ONCE == 0:
                await breathe()

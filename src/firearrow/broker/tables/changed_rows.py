"""The rows of the offset table in the order of their last change, so that a slave is told the changed ones alone. Pure.

Every change gets the next number. A mark names the table of one run and a number: the rows that changed after it are
those with higher numbers. Rows that are loaded at the start have numbers too: all rows are those after 0, and a slave
can be told them in parts. Deleted rows are remembered as well, up to a bound. Once deleted rows are forgotten, marks
from before are not known, and the slave is told all rows.

The rows stand in blocks by number, so that the rows after a number are found by bisection. A row that changes leaves
its block for the newest. Blocks that become sparse are merged, so that there are few of them.
"""

from bisect import bisect_right
from collections.abc import Collection
from itertools import islice
from typing import Final

FORGOTTEN_AT: Final = 10_000
"""Rows that are remembered beside twice the number of rows of the table."""
BLOCK_ROWS: Final = 1024
"""The most rows of a block."""
MERGED_ROWS: Final = BLOCK_ROWS // 2
"""Two neighbours with at most so many rows together become one block."""
LOOK_EVERY: Final = 64
"""A block is compared with its neighbours whenever its number of rows falls to a multiple of this."""

Key = tuple[str, str]
"""Topic and group."""


class ChangedRows:
    """Numbers changes of rows."""

    def __init__(self, name: str) -> None:
        """``name`` tells this table from others, and from the same table in an earlier run."""
        self._name = name
        self._times_forgotten = 0
        self.number = 0
        """The number of the last change."""
        self._rows: dict[Key, int] = {}
        """The number of the last change by row."""
        self._blocks: list[dict[int, Key]] = [{}]
        """Rows by the number of their last change, in the order of the numbers."""
        self._starts = [0]
        """For every block a number: all numbers of the block are at least that, all of earlier blocks are lower."""
        self._forgetting: tuple[int, int] | None = None
        """While deleted rows are being forgotten: the number up to which that is done, and the last number to do."""

    @property
    def name(self) -> str:
        """Names the table in this run, since deleted rows were last forgotten."""
        return f"{self._name}.{self._times_forgotten}"

    @property
    def mark(self) -> str:
        """Names the present state of the table."""
        return f"{self.name}:{self.number}"

    def note(self, key: Key, rows: Collection[Key]) -> None:
        """Note the change of a row of a table that has these rows."""
        self.number = number = self.number + 1
        newest = self._blocks[-1]
        known = self._rows.get(key)
        if known is None:
            self._check_room(rows)
        elif known in newest:  # most changes are those of rows that have changed lately
            del newest[known]
        else:
            self._remove(known)
            newest = self._blocks[-1]
        self._rows[key] = number
        if len(newest) >= BLOCK_ROWS:
            newest = {}
            self._blocks.append(newest)
            self._starts.append(number)
        newest[number] = key
        if self._forgetting is not None:
            self._forget_some(*self._forgetting, rows)

    def _check_room(self, rows: Collection[Key]) -> None:
        """Begin to forget deleted rows if they are too many for one more."""
        if self._forgetting is None and len(self._rows) >= 2 * len(rows) + FORGOTTEN_AT:
            self._times_forgotten += 1
            self._forgetting = (0, self.number)

    def _remove(self, number: int) -> None:
        place = bisect_right(self._starts, number) - 1
        block = self._blocks[place]
        del block[number]
        if len(block) % LOOK_EVERY == 0:
            self._merge(place)

    def _merge(self, place: int) -> None:
        """Make one block of a block and a neighbour, if both are sparse."""
        for first in (place - 1, place):
            pair = self._blocks[max(first, 0) : first + 2]
            if len(pair) == 2 and len(pair[0]) + len(pair[1]) <= MERGED_ROWS:
                pair[0].update(pair[1])
                del self._blocks[first + 1], self._starts[first + 1]
                return

    def _forget_some(self, done: int, last: int, rows: Collection[Key]) -> None:
        """Forget deleted rows of the next block: every change does a part of the work, so that no turn does all."""
        looked_at = self.after(done, BLOCK_ROWS)
        for key, number in looked_at:
            if number <= last and key not in rows:  # later deletions are still to be told, to marks of the new name
                del self._rows[key]
                self._remove(number)
        done = looked_at[-1][1] if looked_at else last
        self._forgetting = (done, last) if done < last else None

    def number_of(self, mark: str | None) -> int | None:
        """Return the number of a mark; None when the mark is not known."""
        name, _, number = (mark or "").rpartition(":")
        if name != self.name or not number.isdecimal() or int(number) > self.number:
            return None
        return int(number)

    def since(self, mark: str | None) -> list[Key] | None:
        """Return the rows that changed after a mark; None when that is not known."""
        after = self.number_of(mark)
        return None if after is None else [key for key, _ in self.after(after, len(self._rows))]

    def after(self, number: int, most: int) -> list[tuple[Key, int]]:
        """Return the rows that changed after a number, with their own: the first ``most`` in the order of numbers."""
        found: list[tuple[Key, int]] = []
        place = bisect_right(self._starts, number) - 1
        while len(found) < most and place < len(self._blocks):
            rows = ((key, own) for own, key in self._blocks[place].items() if own > number)
            found += islice(rows, most - len(found))
            place += 1
        return found

"""The times at which a writer's loop turned and synced: a window of loss is held against them.

Under ASYNC_FLUSH a message may be lost with the power until a sync that began after it was written has ended. How long
that can take is the thorough interval, until it is noticed the flush interval, and for as long as syncs take or the
process gets no processor. The last two are the machine's, so they are measured and not guessed: the writer says when
syncs begin and end, and a task of its loop says every 20 ms that it is still there, and how far the log is durable::

    # syncing NOW             nanoseconds of the monotonic clock
    # synced NOW
    # beat NOW FLUSHED

Whatever lies between two beats beyond the 20 ms was missed. `Timeline` is pure; the rest is what a writer runs.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Self

from campaigns.faults.session import FixedChoice
from firearrow.runtime.disk.sync_choice import SyncPlace
from firearrow.store.log.commit_log import CommitLog

BEAT_MS: Final = 20
RESOLUTION_MS: Final = 5 * BEAT_MS
"""A timer can be late by a beat without being seen; a few follow each other before a sync."""
_MS: Final = 1_000_000
Say = Callable[[str], None]


class Span(NamedTuple):
    """A stretch of the monotonic clock, in nanoseconds."""

    began: int
    ended: int


class Timeline(NamedTuple):
    """The times that a writer printed before it died."""

    syncs: Sequence[Span] = ()
    """The times in which at least one sync was running."""
    beats: Sequence[int] = ()
    flushed: int = 0
    """The durable end of the log, as the writer printed it."""

    @classmethod
    def parse(cls, text: bytes, cut_at: int) -> Self:
        """Read the times in a writer's output; a last line without an end was not out yet."""
        lines = [line.split(" ") for line in text.decode().split("\n")[:-1] if line.startswith("# ")]
        changes = [(int(line[2]), 1 if line[1] == "syncing" else -1) for line in lines if line[1].startswith("sync")]
        beats = [line for line in lines if line[1] == "beat"]
        flushed = max((int(beat[3]) for beat in beats), default=0)
        return cls(list(_under_way(changes, cut_at)), [int(beat[2]) for beat in beats], flushed)

    def missed_ms(self, began: int, ended: int) -> int:
        """The part of a stretch of time in which the loop did not turn, or a sync was running."""
        beats = [began, *(beat for beat in self.beats if began < beat < ended), ended]
        gaps = [Span(before + BEAT_MS * _MS, after) for before, after in pairwise(beats)]
        syncs = [Span(max(sync.began, began), min(sync.ended, ended)) for sync in self.syncs]
        return _covered([span for span in (*gaps, *syncs) if span.began < span.ended]) // _MS


def _under_way(changes: Iterable[tuple[int, int]], cut_at: int) -> Iterable[Span]:
    count, began = 0, 0
    for at, change in changes:
        if count == 0:
            began = at
        count += change
        if count == 0:
            yield Span(began, at)
    if count:
        yield Span(began, max(began, cut_at))


def _covered(spans: list[Span]) -> int:
    """The time that the spans cover together."""
    total, reached = 0, 0
    for began, ended in sorted(spans):
        total += max(0, ended - max(began, reached))
        reached = max(reached, ended)
    return total


class WatchedChoice(FixedChoice):
    """Says when syncs begin and end."""

    def __init__(self, route: SyncPlace, say: Say) -> None:
        super().__init__(route)
        self._say = say

    def route(self, unsynced_bytes: int) -> SyncPlace:
        """A sync is on its way."""
        self._say(f"# syncing {time.monotonic_ns()}\n")
        return super().route(unsynced_bytes)

    def took(self, nanoseconds: int, unsynced_bytes: int) -> None:
        """It has ended."""
        del nanoseconds, unsynced_bytes
        self._say(f"# synced {time.monotonic_ns()}\n")


async def beat(log: CommitLog, say: Say) -> None:
    """Say that the loop turns, until cancelled."""
    while True:
        say(f"# beat {time.monotonic_ns()} {log.flushed}\n")
        await asyncio.sleep(BEAT_MS / 1000)

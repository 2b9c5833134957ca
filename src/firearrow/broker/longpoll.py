"""Pulls that wait for a message. Pure; time is an argument, in elapsed milliseconds.

A pull waits in two places: at its queue, where an arrival finds it, and in the slot of its deadline. Both are ordered
dicts, so waking, timing out and going away each cost the same however many wait, and nothing is ever swept. Slots are
20 ms wide; a pull is answered at the end of its slot, so at most that much late and never early. A slot stays until its
time has come, used or not: there are as many as fit between now and the latest deadline.

Which arrivals wake whom: those at or above the offset asked for whose tag code is among the wanted ones. A pull whose
filter passes over an arrival goes on waiting. Java: ``PullRequestHoldService``, ``ManyPullRequest``.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from msgspec import Struct

SLOT_MS: Final = 20

T = TypeVar("T")

QueueKey = tuple[str, int]
"""Topic and queue number."""


class Parked(Struct, Generic[T], eq=False):
    """One pull that waits. ``ticket`` is whatever its owner needs to answer it."""

    queue: QueueKey
    offset: int
    tags: frozenset[int] | None
    ticket: T
    slot: int


class ParkedPulls(Generic[T]):
    """All pulls that wait at one broker."""

    def __init__(self) -> None:
        self.queues: Final[dict[QueueKey, dict[Parked[T], None]]] = {}
        """The pulls of each queue that has any; read it to skip the work for queues where nobody waits."""
        self._slots: dict[int, dict[Parked[T], None]] = {}
        self._order: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    @property
    def next_deadline_ms(self) -> int | None:
        """When `expired` must be asked next; None while no slot is in use."""
        return self._order[0] * SLOT_MS if self._order else None

    def park(self, queue: QueueKey, offset: int, tags: frozenset[int] | None, until_ms: int, ticket: T) -> Parked[T]:
        """Let a pull wait. The caller has made sure that nothing it waits for is there already."""
        slot = -(-until_ms // SLOT_MS)
        parked = Parked(queue, offset, tags, ticket, slot)
        self.queues.setdefault(queue, {})[parked] = None
        in_slot = self._slots.get(slot)
        if in_slot is None:
            in_slot = self._slots[slot] = {}
            heappush(self._order, slot)
        in_slot[parked] = None
        return parked

    def arrived(self, queue: QueueKey, offset: int, tag_code: int) -> list[Parked[T]]:
        """A message is in a queue at an offset: whom it wakes."""
        waiting = self.queues.get(queue)
        if waiting is None:
            return []
        woken = [
            parked for parked in waiting if offset >= parked.offset and (parked.tags is None or tag_code in parked.tags)
        ]
        self._remove(woken)
        return woken

    def expired(self, now_ms: int) -> list[Parked[T]]:
        """Whoever has waited for long enough."""
        expired: list[Parked[T]] = []
        while self._order and self._order[0] * SLOT_MS <= now_ms:
            expired += self._slots[self._order[0]]
            self._remove(list(self._slots[self._order[0]]))
            del self._slots[heappop(self._order)]
        return expired

    def recall(self, queue: QueueKey, concerns: Callable[[T], bool]) -> list[Parked[T]]:
        """Take the pulls at a queue that something else than a message concerns."""
        recalled = [parked for parked in self.queues.get(queue, ()) if concerns(parked.ticket)]
        self._remove(recalled)
        return recalled

    def _remove(self, gone: Iterable[Parked[T]]) -> None:
        for parked in gone:
            waiting = self.queues[parked.queue]
            del waiting[parked]
            if not waiting:
                del self.queues[parked.queue]
            del self._slots[parked.slot][parked]

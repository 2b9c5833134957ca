"""Parked pulls: long polls that wait for a message. Pure; time is an argument, in elapsed milliseconds.

A parked pull is in three indexes: at its queue, where an arrival finds it; in the slot of its deadline; and with its
owner, the connection that asked. A pull that is served by the subscription of its group is found by that, too. All are
ordered dicts, so waking, expiring and dropping a pull take constant time, and no sweep is needed. At a queue, pulls
with the same tags form a group, and a tag leads to the groups that want it: an arrival costs nothing for pulls that do
not want it. When many pulls wake, expire or are dropped together, they can be taken in portions. Slots are 20 ms wide;
a pull is answered at the end of its slot, so at most 20 ms late and never early. A slot, empty or not, stays until its
time has come, so there are at most as many slots as fit between now and the latest deadline.

Parked pulls have two budgets in bytes, one for every owner and one for all owners. A new pull is never refused for lack
of room: the pulls parked longest are displaced, those of the same owner for the first budget, and those of the owner
with the most bytes for the second. So one client cannot take the room of the others.

An arrival wakes the pulls whose offset is at or below its queue offset and whose tags include its tag code, or whose
filter the caller says it passes. Other pulls stay parked. Java: ``PullRequestHoldService``, ``ManyPullRequest``.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count, islice, takewhile
from operator import attrgetter
from sys import maxsize
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from firearrow.broker.pull.message_filter import MessageFilter

SLOT_MS: Final = 20
MIB: Final = 1 << 20
PULL_BYTES: Final = 1024
"""The memory that a parked pull counts, without its tags."""
TAG_BYTES: Final = 96
"""The memory that a tag of a parked pull counts."""
OWNER_BYTES: Final = 64 * MIB
ALL_BYTES: Final = 96 * MIB
GIVEN_UP: Final = 8
"""The owner with the most bytes gives up one part in this many, so that not every pull must search for that owner."""

_NUMBER: Final = attrgetter("number")

T = TypeVar("T")

QueueKey = tuple[str, int]
"""Topic and queue number."""
Subscribed = tuple[str, str]
"""Consumer group and topic of a subscription."""
Wanted = frozenset[int] | MessageFilter | None
"""The codes of the wanted tags, or a filter on properties; None means all messages."""


class ParkedPull(Struct, Generic[T], eq=False):
    """One parked pull. ``ticket`` is what the caller needs to answer the pull."""

    queue: QueueKey
    offset: int
    wanted: Wanted
    ticket: T
    slot: int
    owner: object
    size: int
    number: int
    subscribed: Subscribed | None = None
    """The group and topic whose subscription serves the pull; None: the pull carries its own."""


class QueuePulls(Generic[T]):
    """The pulls parked at one queue, by what they want."""

    __slots__ = ("_by_tag", "_groups", "filters")

    def __init__(self) -> None:
        self._groups: dict[Wanted, dict[ParkedPull[T], None]] = {}
        self._by_tag: dict[int, dict[frozenset[int], None]] = {}
        self.filters: dict[MessageFilter, dict[ParkedPull[T], None]] = {}
        """The pulls by their filters on properties. For reading only."""

    def __iter__(self) -> Iterator[ParkedPull[T]]:
        for group in self._groups.values():
            yield from group

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, parked: ParkedPull[T]) -> None:
        """Add a pull."""
        wanted = parked.wanted
        group = self._groups.get(wanted)
        if group is None:
            group = self._groups[wanted] = {}
            if isinstance(wanted, MessageFilter):
                self.filters[wanted] = group
            elif wanted is not None:
                for tag in wanted:
                    self._by_tag.setdefault(tag, {})[wanted] = None
        group[parked] = None

    def remove(self, parked: ParkedPull[T]) -> None:
        """Remove a pull."""
        wanted = parked.wanted
        group = self._groups[wanted]
        del group[parked]
        if group:
            return
        del self._groups[wanted]
        if isinstance(wanted, MessageFilter):
            del self.filters[wanted]
        elif wanted is not None:
            for tag in wanted:
                wanted_by = self._by_tag[tag]
                del wanted_by[wanted]
                if not wanted_by:
                    del self._by_tag[tag]

    def wanting(self, arrival: int | MessageFilter) -> Iterator[ParkedPull[T]]:
        """Yield the pulls that want messages of a tag code, or those with a filter."""
        groups = self._groups
        if isinstance(arrival, MessageFilter):
            yield from groups.get(arrival, ())
            return
        yield from groups.get(None, ())
        for tags in self._by_tag.get(arrival, ()):
            yield from groups[tags]


class _Owner(Struct, Generic[T]):
    """The parked pulls of one connection, in order of arrival."""

    waiting: dict[ParkedPull[T], None] = field(default_factory=dict)
    held: int = 0


class ParkedPulls(Generic[T]):
    """All parked pulls of one broker."""

    def __init__(self, owner_bytes: int = OWNER_BYTES, all_bytes: int = ALL_BYTES) -> None:
        self.queues: Final[dict[QueueKey, QueuePulls[T]]] = {}
        """The parked pulls by queue; a queue without parked pulls is not in the table. For reading only."""
        self.held = 0
        """Bytes that all parked pulls count."""
        self._owner_bytes = owner_bytes
        self._all_bytes = all_bytes
        self._owners: dict[object, _Owner[T]] = {}
        self._subscribed: dict[Subscribed, dict[ParkedPull[T], None]] = {}
        self._slots: dict[int, dict[ParkedPull[T], None]] = {}
        self._order: list[int] = []
        self._numbers = count()

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next call of `expired`; None when there is no slot."""
        return self._order[0] * SLOT_MS if self._order else None

    def park(
        self,
        queue: QueueKey,
        offset: int,
        wanted: Wanted,
        until_ms: int,
        ticket: T,
        *,
        owner: object,
        own_tags: int = 0,
        subscribed: Subscribed | None = None,
    ) -> list[ParkedPull[T]]:
        """Park a pull; return the pulls that it displaces.

        The caller has made sure that no message for the pull is there already. ``own_tags`` is the number of tags, or
        the weight of a filter, kept for this pull alone.
        """
        slot = -(-until_ms // SLOT_MS)
        size = PULL_BYTES + own_tags * TAG_BYTES
        parked = ParkedPull(queue, offset, wanted, ticket, slot, owner, size, next(self._numbers), subscribed)
        at_queue = self.queues.get(queue)
        if at_queue is None:
            at_queue = self.queues[queue] = QueuePulls()
        at_queue.add(parked)
        in_slot = self._slots.get(slot)
        if in_slot is None:
            in_slot = self._slots[slot] = {}
            heappush(self._order, slot)
        in_slot[parked] = None
        if subscribed is not None:
            self._subscribed.setdefault(subscribed, {})[parked] = None
        holder = self._owners.get(owner)
        if holder is None:
            holder = self._owners[owner] = _Owner()
        holder.waiting[parked] = None
        holder.held += parked.size
        self.held += parked.size
        if holder.held > self._owner_bytes or self.held > self._all_bytes:
            return self._make_room(holder)
        return []

    def arrived(
        self, queue: QueueKey, offset: int, arrival: int | MessageFilter, most: int = maxsize
    ) -> list[ParkedPull[T]]:
        """Take the pulls that a new message wakes, at most ``most``; if there are so many, call again for the rest.

        ``arrival`` is the message's tag code, or a filter that the message passes.
        """
        waiting = self.queues.get(queue)
        if waiting is None:
            return []
        woken = list(islice((one for one in waiting.wanting(arrival) if offset >= one.offset), most))
        woken.sort(key=_NUMBER)
        self._remove(woken)
        return woken

    def expired(self, now_ms: int, most: int = maxsize) -> list[ParkedPull[T]]:
        """Take the pulls whose deadline is over, at most ``most``; call again for the rest."""
        expired: list[ParkedPull[T]] = []
        while self._order and self._order[0] * SLOT_MS <= now_ms and len(expired) < most:
            in_slot = self._slots[self._order[0]]
            some = list(islice(in_slot, most - len(expired)))
            expired += some
            self._remove(some)
            if not in_slot:
                del self._slots[heappop(self._order)]
        return expired

    def recall(self, queue: QueueKey, concerns: Callable[[T], bool]) -> list[ParkedPull[T]]:
        """Take the pulls at a queue for whose ticket ``concerns`` is true."""
        recalled = [parked for parked in self.queues.get(queue, ()) if concerns(parked.ticket)]
        self._remove(recalled)
        return recalled

    def recall_subscribed(self, subscribed: Subscribed, before: int, most: int) -> list[ParkedPull[T]]:
        """Take at most ``most`` pulls that a subscription serves and that are numbered below ``before``."""
        recalled = list(islice(takewhile(lambda one: one.number < before, self._subscribed.get(subscribed, ())), most))
        self._remove(recalled)
        return recalled

    def recall_before(self, before: int, most: int) -> list[ParkedPull[T]]:
        """Take at most ``most`` pulls that are numbered below ``before``."""
        recalled: list[ParkedPull[T]] = []
        for in_slot in self._slots.values():
            recalled += islice(takewhile(lambda one: one.number < before, in_slot), most - len(recalled))
            if len(recalled) >= most:
                break
        self._remove(recalled)
        return recalled

    @property
    def next_number(self) -> int:
        """A number above that of every parked pull."""
        return next(self._numbers)

    def leave(self, owner: object, most: int = maxsize) -> bool:
        """Drop at most ``most`` pulls of a closed connection; return whether none is left."""
        holder = self._owners.get(owner)
        if holder is None:
            return True
        self._remove(list(islice(holder.waiting, most)))
        return not holder.waiting

    def _make_room(self, newcomer: _Owner[T]) -> list[ParkedPull[T]]:
        gone: list[ParkedPull[T]] = []
        while newcomer.held > self._owner_bytes:
            gone += self._give_up(newcomer, 1)
        while self.held > self._all_bytes:
            greatest = max(self._owners.values(), key=lambda holder: holder.held)
            gone += self._give_up(greatest, greatest.held // GIVEN_UP)
        return gone

    def _give_up(self, holder: _Owner[T], size: int) -> list[ParkedPull[T]]:
        """Take the pulls of an owner that were parked first, until they amount to ``size`` bytes."""
        gone: list[ParkedPull[T]] = []
        for parked in holder.waiting:
            if size <= 0:
                break
            gone.append(parked)
            size -= parked.size
        self._remove(gone)
        return gone

    def _remove(self, gone: Iterable[ParkedPull[T]]) -> None:
        for parked in gone:
            waiting = self.queues[parked.queue]
            waiting.remove(parked)
            if not waiting:
                del self.queues[parked.queue]
            del self._slots[parked.slot][parked]
            if parked.subscribed is not None:
                alike = self._subscribed[parked.subscribed]
                del alike[parked]
                if not alike:
                    del self._subscribed[parked.subscribed]
            self.held -= parked.size
            holder = self._owners[parked.owner]
            holder.held -= parked.size
            del holder.waiting[parked]
            if not holder.waiting:
                del self._owners[parked.owner]

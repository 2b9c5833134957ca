"""A line in which owners take turns, then the keys of an owner, then the things of a key in the order of their coming.

An owner is a user or an address, and a key is a connection: who opens many connections, or asks much over one, waits
behind its own things alone. Pure.

Invariant: a key stays with its owner while things of it are in the line.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")


def _everyone(_who: object) -> bool:
    return True


class FairLine(Generic[K, T]):
    """Things that wait for their turn."""

    __slots__ = ("_count", "_counts", "_keys", "_owners")

    def __init__(self) -> None:
        self._owners: OrderedDict[object, OrderedDict[K, deque[T]]] = OrderedDict()
        self._keys: dict[K, object] = {}
        self._counts: dict[object, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: K) -> bool:
        return key in self._keys

    def owner_of(self, key: K, owner: object) -> object:
        """Return whose turns a key takes: those of ``owner``, or of the one whom it has waited for already."""
        return self._keys.get(key, owner)

    def waiting_of(self, owner: object) -> int:
        """Return the number of things of an owner."""
        return self._counts.get(owner, 0)

    def waiting_at(self, key: K) -> int:
        """Return the number of things of a key."""
        return len(self._owners[self._keys[key]][key]) if key in self._keys else 0

    def add(self, owner: object, key: K, thing: T, *, is_first: bool = False) -> None:
        """Add a thing behind the others of its key, or before them."""
        owner = self._keys.setdefault(key, owner)
        keys = self._owners.get(owner)
        if keys is None:
            keys = self._owners[owner] = OrderedDict()
            self._counts[owner] = 0
        things = keys.get(key)
        if things is None:
            things = keys[key] = deque()
        if is_first:
            things.appendleft(thing)
        else:
            things.append(thing)
        self._counts[owner] += 1
        self._count += 1

    def next(
        self, lets_owner: Callable[[object], bool] = _everyone, lets_key: Callable[[K], bool] = _everyone
    ) -> tuple[object, K] | None:
        """Return the owner and the key whose turn it is, of those that may have one; None when nobody may."""
        for owner, keys in self._owners.items():
            if lets_owner(owner):
                for key in keys:
                    if lets_key(key):
                        return owner, key
        return None

    def take(self, owner: object, key: K) -> T:
        """Take the first thing of a key, whose next turn comes after those of the others."""
        keys = self._owners[owner]
        things = keys[key]
        thing = things.popleft()
        self._owners.move_to_end(owner)
        if things:
            keys.move_to_end(key)
            self._counts[owner] -= 1
            self._count -= 1
        else:
            self._remove(key, 1)
        return thing

    def drop(self, key: K) -> deque[T]:
        """Remove and return the things of a key."""
        if key not in self._keys:
            return deque()
        dropped = self._owners[self._keys[key]][key]
        self._remove(key, len(dropped))
        return dropped

    def _remove(self, key: K, count: int) -> None:
        owner = self._keys.pop(key)
        keys = self._owners[owner]
        del keys[key]
        self._count -= count
        if keys:
            self._counts[owner] -= count
        else:
            del self._owners[owner], self._counts[owner]

    def clear(self) -> list[T]:
        """Remove and return all things."""
        things = [thing for keys in self._owners.values() for own in keys.values() for thing in own]
        self._owners.clear()
        self._keys.clear()
        self._counts.clear()
        self._count = 0
        return things

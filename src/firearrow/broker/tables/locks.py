"""Queue locks: which client may consume which queue in order. Pure; time is an argument, in elapsed milliseconds.

A lock belongs to a client id, not to a connection. It is a lease of 60 seconds from the owner's last request; after
that any client may take the lock. Java: ``RebalanceLockManager``.
"""

from collections.abc import Callable, Iterable, Iterator
from sys import maxsize
from typing import Final

from msgspec import Struct

from firearrow.model.message import MessageQueue

LOCK_LIFE_MS: Final = 60_000


class _Lock(Struct):
    client_id: str
    renewed_ms: int


class QueueLocks:
    """The queue locks of one broker."""

    def __init__(self, life_ms: int = LOCK_LIFE_MS, most: Callable[[], int] = lambda: maxsize) -> None:
        self._life_ms = life_ms
        self._most = most
        self._count = 0
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def __len__(self) -> int:
        """Return the number of locks, those that have lapsed included."""
        return self._count

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str, now_ms: int) -> list[MessageQueue]:
        """Lock queues for a client; return the queues that the client holds now. A full table takes no others."""
        locks = self._groups.setdefault(group, {})
        gained, most = [], self._most()
        for queue in queues:
            held = locks.get(queue)
            if held is None and self._count < most:
                locks[queue] = _Lock(client_id, now_ms)
                self._count += 1
            elif held is None:
                continue
            elif held.client_id == client_id or self._has_lapsed(held, now_ms):
                held.client_id, held.renewed_ms = client_id, now_ms
            else:
                continue
            gained.append(queue)
        if not locks:
            del self._groups[group]
        return gained

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Unlock queues; the locks of other clients stay."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            held = locks.get(queue)
            if held is not None and held.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            del self._groups[group]

    def is_any_held(self, group: str, now_ms: int) -> bool:
        """Whether a client holds a lock on a queue of this group."""
        return any(not self._has_lapsed(lock, now_ms) for lock in self._groups.get(group, {}).values())

    def expire(self, now_ms: int) -> Iterator[None]:
        """Remove locks that expired long ago, so that groups that are gone leave none behind: a lock in each step."""
        for group, locks in list(self._groups.items()):
            for queue in list(locks):
                lock = locks.get(queue)
                if lock is not None and self._has_lapsed(lock, now_ms):
                    del locks[queue]
                    self._count -= 1
                yield
            if not locks and self._groups.get(group) is locks:
                del self._groups[group]

    def _has_lapsed(self, lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self._life_ms

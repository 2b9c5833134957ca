"""The modelled coordinator: swaps are exact, everything else fails as etcd 3.4 does, on purpose.

Faults, by chance from the seed: a read returns an older state; a renewal of a lease that has ended is confirmed; a
watch wakes late, without a change, or not at all; a call fails before or after it was carried out. `restore` puts an
earlier state back, as an operator does from a backup. Members cut off by `cut` get no answer.
"""

import asyncio
import random
from typing import Final

from msgspec import Struct

from firearrow.errors import CoordinatorFailed
from firearrow.runtime.coordinator.door import GroupSnapshot

REMEMBERED: Final = 8
"""The number of older states that a read may return."""


class CoordinatorFaults(Struct, frozen=True):
    """The probabilities of the modelled coordinator's faults, and its latency."""

    old_read: float = 0.0
    lying_renewal: float = 0.0
    lost_wake: float = 0.0
    needless_wake: float = 0.0
    failure: float = 0.0
    latency_s: float = 0.003


class SimCoordinator:
    """The coordinator of all groups of a simulated cluster; it survives every node."""

    def __init__(self, chance: random.Random, faults: CoordinatorFaults | None = None) -> None:
        self.chance = chance
        self.faults = faults or CoordinatorFaults()
        self.value: bytes | None = None
        self.backups: list[bytes | None] = [None]
        """Every state so far, for `restore`."""
        self._live: dict[int, tuple[bytes, int]] = {}
        self._leases: dict[int, float] = {}
        self._older: list[GroupSnapshot] = []
        self._changes = 0
        self._cut: set[int] = set()
        self._watching: list[asyncio.Event] = []

    def member(self, node: int, lease_s: float) -> "SimMember":
        """Return the door of one member."""
        return SimMember(self, node, lease_s)

    def cut(self, *nodes: int) -> None:
        """Let members get no answer until `heal`."""
        self._cut.update(nodes)

    def heal(self) -> None:
        """Answer everybody again."""
        self._cut.clear()

    def restore(self, steps: int) -> None:
        """Put the state of some changes ago back."""
        self.value = self.backups[max(len(self.backups) - 1 - steps, 0)]
        self._changed()

    # ---- what members do

    def snapshot(self) -> GroupSnapshot:
        """The state of now."""
        self._expire()
        return GroupSnapshot(self.value, {member: about for member, (about, _) in sorted(self._live.items())})

    def read(self) -> GroupSnapshot:
        """The state of now, or an older one."""
        if self._older and self.chance.random() < self.faults.old_read:
            return self.chance.choice(self._older)
        return self.snapshot()

    def swap(self, expected: bytes | None, new: bytes) -> bool:
        """Compare and swap."""
        if self.value != expected:
            return False
        self._remember()
        self.value = new
        self.backups.append(new)
        self._changed()
        return True

    def grant(self, lease_s: float) -> int:
        """Return a new lease."""
        self._changes += 1
        self._leases[self._changes] = asyncio.get_running_loop().time() + lease_s
        return self._changes

    def put(self, member: int, about: bytes, lease: int) -> None:
        """Write a member's key."""
        self._remember()
        self._live[member] = (about, lease)
        self._changed()

    def renew(self, lease: int, lease_s: float) -> bool:
        """Renew a lease; lie now and then about one that has ended."""
        self._expire()
        if lease not in self._leases:
            return self.chance.random() < self.faults.lying_renewal
        self._leases[lease] = asyncio.get_running_loop().time() + lease_s
        return True

    def revoke(self, lease: int) -> None:
        """End a lease."""
        self._leases.pop(lease, None)
        self._expire()

    async def answer(self, node: int) -> None:
        """Take the time of a call; raise when the member is cut off or the call fails."""
        if node in self._cut:
            await asyncio.sleep(1.0)
            raise CoordinatorFailed("the modelled coordinator is cut off")
        await asyncio.sleep(self.faults.latency_s * self.chance.random())
        if self.chance.random() < self.faults.failure:
            raise CoordinatorFailed("the modelled coordinator failed")

    async def wake(self) -> None:
        """Wait for a change."""
        if self.chance.random() < self.faults.needless_wake:
            return
        event = asyncio.Event()
        self._watching.append(event)
        await event.wait()

    def _changed(self) -> None:
        watching, self._watching = self._watching, []
        for event in watching:
            if self.chance.random() < self.faults.lost_wake:
                self._watching.append(event)
            else:
                event.set()

    def _remember(self) -> None:
        self._older = [*self._older, self.snapshot()][-REMEMBERED:]

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._leases = {lease: end for lease, end in self._leases.items() if end > now}
        gone = [member for member, (_, lease) in self._live.items() if lease not in self._leases]
        for member in gone:
            del self._live[member]
        if gone:
            self._changed()


class SimMember:
    """The modelled coordinator as one member sees it."""

    def __init__(self, coordinator: SimCoordinator, node: int, lease_s: float) -> None:
        self._coordinator = coordinator
        self._node = node
        self._lease_s = lease_s
        self._lease = 0

    async def read(self) -> GroupSnapshot:
        """Return the group's value and its live members; possibly an older state."""
        await self._coordinator.answer(self._node)
        return self._coordinator.read()

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        """Replace the value if it is the expected one."""
        await self._coordinator.answer(self._node)
        done = self._coordinator.swap(expected, new)
        await self._coordinator.answer(self._node)
        return done

    async def announce(self, member: int, about: bytes) -> None:
        """Tell that a member lives."""
        await self._coordinator.answer(self._node)
        self._lease = self._coordinator.grant(self._lease_s)
        self._coordinator.put(member, about, self._lease)

    async def renew(self) -> bool:
        """Renew the lease."""
        await self._coordinator.answer(self._node)
        return bool(self._lease) and self._coordinator.renew(self._lease, self._lease_s)

    async def retire(self) -> None:
        """End the lease."""
        await self._coordinator.answer(self._node)
        self._coordinator.revoke(self._lease)
        self._lease = 0

    async def changed(self) -> None:
        """Return when something may have changed."""
        await self._coordinator.answer(self._node)
        await self._coordinator.wake()

    async def close(self) -> None:
        """Do nothing."""

"""The door to a group's coordinator, a store of small values that survives the loss of a minority of its machines.

A coordinator holds one value for the group and one key for every live member. Only one promise is one of safety:

* ``swap`` changes the value only if it is still the expected one, for all members, whatever fails.

Everything else is a hint, because the coordinator that we ship on breaks it now and then: ``read`` may return an older
state, ``renew`` may confirm a lease that has ended, and ``changed`` may return late, twice or without a change, or miss
one. Callers look again every second or two. A call that fails, or is cancelled, may have happened nevertheless.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class GroupSnapshot(NamedTuple):
    """The value and the live members of a group at a coordinator."""

    group: bytes | None
    """The value; None before the first swap."""
    live: Mapping[int, bytes]
    """The facts that live members publish about themselves, by member."""


class Coordinator(Protocol):
    """One group at its coordinator, as one member sees it. Every call may raise ``CoordinatorFailed``."""

    async def read(self) -> GroupSnapshot:
        """Return the group's value and its live members; possibly an older state."""
        ...

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        """Replace the value if it is the expected one, None for no value yet; return whether that was so."""
        ...

    async def announce(self, member: int, about: bytes) -> None:
        """Tell that a member lives, for the length of a new lease."""
        ...

    async def renew(self) -> bool:
        """Renew the lease of the last `announce`; return False when it has ended."""
        ...

    async def retire(self) -> None:
        """End the lease: the member does not live any more."""
        ...

    async def changed(self) -> None:
        """Return when something may have changed."""
        ...

    async def close(self) -> None:
        """Release what the door holds; the lease goes on."""
        ...

"""The in-sync set as its master counts it: what is acknowledged, and who joins and leaves. Pure.

A proposed set counts beside the known one until a state with its number or a higher one is known: a swap whose answer
was lost may have happened, or may still happen. So what is acknowledged is on every replica that the coordinator may
name at that moment. The confirmed offset of an epoch never goes back.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.model.group_state import GroupState

NOTHING: Final = -1


class ReplicaCopy(Struct, frozen=True):
    """A replica that copies the master in this epoch, or did so."""

    acked: int = NOTHING
    """The end of its log, as it acknowledged in this epoch; `NOTHING` before that."""
    caught_up_s: float = 0.0
    """The last time at which the replica had everything that the master had."""
    is_connected: bool = False


class InSyncSet(Struct, frozen=True):
    """The newest state that a master knows, and the states that it proposed since."""

    group: GroupState
    proposed: tuple[GroupState, ...] = ()

    @property
    def largest(self) -> frozenset[int]:
        """Every replica that is in sync, or is so in a proposed state."""
        return frozenset(self.group.iss).union(*(state.iss for state in self.proposed))

    def propose(self, new: GroupState) -> "InSyncSet":
        """Count a proposed state, before its swap is sent."""
        return replace(self, proposed=(*self.proposed, new))

    def outsiders(self, group: GroupState, copies: Iterable[int]) -> set[int]:
        """Return the copies whose connections end when a state becomes known: all that are not in its set.

        The change may be that of a replica that lost records which it had acknowledged here; it must acknowledge anew.
        """
        return (
            {replica for replica in copies if replica not in group.iss} if group.iss_seq > self.group.iss_seq else set()
        )

    def learn(self, group: GroupState) -> "InSyncSet":
        """Take a state that was read or swapped in; an older one than the known is ignored."""
        if group.iss_seq < self.group.iss_seq:
            return self
        return InSyncSet(group, tuple(state for state in self.proposed if state.iss_seq > group.iss_seq))


def confirmed(in_sync: InSyncSet, kept: int, copies: Mapping[int, ReplicaCopy]) -> int:
    """Return the offset below which everything may be acknowledged: every replica that counts has it.

    ``kept`` is the end of what the master keeps, at the level that is promised.
    """
    master, nobody = in_sync.group.master, ReplicaCopy()
    return min([kept, *(copies.get(replica, nobody).acked for replica in in_sync.largest if replica != master)])


def is_admitting(in_sync: InSyncSet, copies: Mapping[int, ReplicaCopy]) -> bool:
    """Whether messages are taken: at least ``min_iss`` replicas are in sync, and so many are connected."""
    group, nobody = in_sync.group, ReplicaCopy()
    near = sum(replica == group.master or copies.get(replica, nobody).is_connected for replica in group.iss)
    return near >= group.min_iss


def next_set(
    in_sync: InSyncSet,
    copies: Mapping[int, ReplicaCopy],
    *,
    confirm: int,
    epoch_start: int,
    now_s: float,
    limit_s: float,
) -> GroupState | None:
    """Return the state that the master proposes next; None for no change. One change at a time.

    A replica joins when it has everything that is confirmed and everything from before this epoch. A member leaves when
    it was not caught up for ``limit_s``, but never the last ``min_iss``: with fewer nothing is acknowledged, so the
    member still has everything and may be elected.
    """
    group = in_sync.group
    if in_sync.proposed:
        return None
    needed = max(confirm, epoch_start)
    for replica, copy in sorted(copies.items()):
        if replica not in group.iss and copy.is_connected and copy.acked >= needed:
            return _with_set(group, (*group.iss, replica))
    if len(group.iss) <= group.min_iss:
        return None
    for replica in group.iss:
        if replica != group.master and now_s - copies.get(replica, ReplicaCopy()).caught_up_s > limit_s:
            return _with_set(group, tuple(other for other in group.iss if other != replica))
    return None


def _with_set(group: GroupState, iss: tuple[int, ...]) -> GroupState:
    return replace(group, iss=tuple(sorted(iss)), iss_seq=group.iss_seq + 1)

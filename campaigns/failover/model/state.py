"""One state of the modelled group: replicas with their disks, the coordinator, and what is on its way.

Logs are tuples of records; a record is its number in the order of sends. The longest prefix of a log that any master
has confirmed is ``acked``: every later master must have it.
"""

from typing import NamedTuple

from firearrow.broker.failover.in_sync_set import InSyncSet
from firearrow.model.epochs import Epochs
from firearrow.model.group_state import GroupState, ReplicaPromise

Log = tuple[int, ...]


class Following(NamedTuple):
    """A replica that copies a master; ``joined`` once its log is cut to what they have in common."""

    epoch: int
    master: int
    joined: bool


class Leading(NamedTuple):
    """A replica that serves as master."""

    epoch: int
    start: int
    in_sync: InSyncSet
    acks: tuple[tuple[int, int], ...]
    """The ends that copies acknowledged in this epoch, by replica."""


class Replica(NamedTuple):
    """One broker: its disk, and its part while it runs."""

    promised: ReplicaPromise = ReplicaPromise()
    stored: ReplicaPromise = ReplicaPromise()
    """The promise that a crash leaves."""
    log: Log = ()
    history: Epochs = Epochs()
    may_lack: bool = False
    part: Following | Leading | None = None
    swapped: int = -1
    """The number of the state that this run swapped in."""
    directory: int = 0
    """The number of its directory."""


class Swap(NamedTuple):
    """A swap that the coordinator may still carry out."""

    sender: int
    expected: GroupState
    new: GroupState


class Ack(NamedTuple):
    """An acknowledgement on its way to a master."""

    epoch: int
    master: int
    replica: int
    end: int


class State(NamedTuple):
    """The whole group."""

    replicas: tuple[Replica, ...]
    group: GroupState
    past: tuple[GroupState, ...]
    """Older states, which a read may still return."""
    swaps: frozenset[Swap] = frozenset()
    acks: frozenset[Ack] = frozenset()
    acked: Log = ()
    led: tuple[tuple[int, int], ...] = ()
    """The leaders of the epochs, by epoch."""
    sent: int = 0
    deaths: int = 0
    """Crashes, losses of power and of directories so far."""
    losses: int = 0
    aside: tuple[tuple[int, Replica], ...] = ()
    """Replicas as they were when another machine took their place; they may come back."""


def first_state(replicas: int, in_sync: int, min_iss: int) -> State:
    """Return a group whose first replica leads epoch 1 and all others follow, the first ``in_sync`` in sync."""
    everybody = tuple(range(1, replicas + 1))
    directories = tuple((number, number) for number in everybody)
    group = GroupState(epoch=1, master=1, iss=everybody[:in_sync], iss_seq=1, min_iss=min_iss, directories=directories)
    promised, history = ReplicaPromise(1, 1), Epochs().begun(1, 0)
    leading = Leading(1, 0, InSyncSet(group), ())
    others = [
        Replica(promised, promised, (), history, part=Following(1, 1, joined=number in group.iss), directory=number)
        for number in everybody[1:]
    ]
    first = Replica(promised, promised, (), history, part=leading, directory=1)
    return State((first, *others), group, (), led=((1, 1),))

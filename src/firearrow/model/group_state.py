"""The state of a replicated group, as its coordinator holds it, and the promise of one replica. Plain data.

A replica is a broker of the group; its id is its ``brokerId``, 1 or more, whatever its part at the moment.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.model.epochs import LARGEST_EPOCH

LARGEST_REPLICA: Final = (1 << 31) - 1
LARGEST_NUMBER: Final = (1 << 63) - 1
"""Numbers of states and directories have eight bytes, with a sign."""


class GroupState(Struct, frozen=True):
    """The master of a group, and the replicas that have everything that was acknowledged.

    Every change has the next ``iss_seq``, so two states of a group with the same ``iss_seq`` are the same state.
    """

    epoch: int
    """The number of the leadership: every election has a higher one. 0 before the first."""
    master: int
    """The replica that leads; 0 before the first election."""
    iss: tuple[int, ...]
    """The in-sync set, in ascending order: the replicas that may be elected."""
    iss_seq: int
    """The number of this state."""
    min_iss: int
    """The number of replicas that must be in sync for a message to be taken."""
    by_name: bool = False
    """Whether an operator chose the master against the rules."""
    named: int = 0
    """The last epoch whose master an operator chose against the rules; 0 for none."""
    directories: tuple[tuple[int, int], ...] = ()
    """The replicas with the numbers of their directories, in ascending order."""

    @property
    def is_sound(self) -> bool:
        """Whether every number is one that files and wire can hold, and the in-sync set is in order."""
        epochs, replicas = (self.epoch, self.named), (*self.iss, *(replica for replica, _ in self.directories))
        return (
            all(0 <= epoch <= LARGEST_EPOCH for epoch in epochs)
            and all(0 < replica <= LARGEST_REPLICA for replica in replicas)
            and 0 <= self.master <= LARGEST_REPLICA
            and self.iss == tuple(sorted(set(self.iss)))
            and 0 <= self.iss_seq <= LARGEST_NUMBER
            and 0 <= self.min_iss <= LARGEST_REPLICA
            and all(0 <= directory <= LARGEST_NUMBER for _, directory in self.directories)
        )

    def directory_of(self, replica: int) -> int:
        """Return the number of the directory that a replica has in this group; 0 where it is not known."""
        return dict(self.directories).get(replica, 0)

    def with_directory(self, replica: int, directory: int) -> "GroupState":
        """Return the state in which a replica has a directory."""
        return replace(self, directories=tuple(sorted((dict(self.directories) | {replica: directory}).items())))


class ReplicaPromise(Struct, frozen=True):
    """The promise that a replica writes to disk before it answers in an epoch: it obeys no lower epoch any more.

    ``master`` belongs to it: were a coordinator restored from a backup, an epoch could have a second master.
    """

    epoch: int = 0
    master: int = 0

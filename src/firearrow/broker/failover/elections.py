"""The next step of a replica, given the state of its group and its own state. Pure.

The state that was read may be old: a coordinator's read is a hint. So nothing is decided by a read alone. Two things
decide: a swap of the whole state, which succeeds only from the newest one, and the promise on the replica's own disk.

The rules: a replica promises durably before it leads or follows, and obeys no state below its promise. Only members of
the in-sync set are elected, whatever the reason for an election: an early one is safe, because the old master cannot
acknowledge anything without the member that was elected. A replica leads only in a state that it swapped in itself: an
election that it read of may be over, and it may have left the in-sync set since. A master that starts anew begins a
new epoch, because its log may have lost its end. A replica that may lack acknowledged records, or whose directory is
not the one that the group knows, leaves the in-sync set before anything else. A master that cannot take messages,
because of its disk or because its slaves do not get them, elects another member of the in-sync set, if enough replicas
live and are able: the ones that it leaves behind must be able to acknowledge without it, once those that are not in
sync have joined.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.model.group_state import GroupState, ReplicaPromise

STATES_OF_AN_EPOCH: Final = 1 << 24
"""More states than any epoch has."""
LARGEST_CHOSEN: Final = 1 << 30
"""The largest epoch that an operator may begin: as many are left for elections."""


class OwnState(Struct, frozen=True):
    """The state of the replica itself."""

    replica: int
    promised: ReplicaPromise
    leads: int = 0
    """The epoch in which this run of the process serves as master; 0 for none."""
    swapped: int = -1
    """The ``iss_seq`` of the last state that this run of the process swapped in, and heard so; -1 for none."""
    directory: int = 0
    """The number of this replica's directory, drawn by lot when it was made."""
    has_log: bool = False
    """Whether the log has any record."""
    may_lack: bool = False
    """Whether records that this replica acknowledged may be missing from its log."""
    ailment: str = ""
    """The reason why this replica cannot take messages; empty while it can."""


class GroupNews(Struct, frozen=True):
    """The news that a replica has of the others; all of it may be old or wrong."""

    group: GroupState | None
    alive: frozenset[int]
    """The replicas that renew their lease."""
    master_is_gone: bool = False
    """Whether the master's machine has ended our connection and refuses new ones."""
    ailing: frozenset[int] = frozenset()
    """The replicas that told that they cannot take messages."""
    is_taken: bool = False
    """Whether another directory answers under this replica's id."""


class ProposeStep(Struct, frozen=True):
    """Swap the state that was seen for another one."""

    new: GroupState
    why: str


class LeadStep(Struct, frozen=True):
    """Serve as the master of an epoch, once the promise of it is durable, or go on with it."""

    group: GroupState


class FollowStep(Struct, frozen=True):
    """Copy the master of an epoch, once the promise of it is durable, or go on with it."""

    group: GroupState


class WaitStep(Struct, frozen=True):
    """Do nothing: neither lead nor follow until the state is another one."""

    why: str
    is_trouble: bool = False
    """Whether an operator has to do something."""


Step = ProposeStep | LeadStep | FollowStep | WaitStep


def next_step(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
    """Return what a replica does next; ``min_iss`` is for a group that does not exist yet."""
    step = _next(own, heard, min_iss)
    if isinstance(step, ProposeStep) and not step.new.is_sound:
        return WaitStep(
            f"epoch {step.new.epoch} or state {step.new.iss_seq} is more than files can hold: no replica can be "
            "elected any more. Copy the messages to another group",
            is_trouble=True,
        )
    return step


def _next(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
    group = heard.group
    if heard.is_taken:
        return _taken(own.replica)
    if group is None:
        return _found_group(own, min_iss)
    refusal = _is_refused(own, group)
    if refusal is not None:
        return refusal
    if not _is_named(own, group) and (own.may_lack or _is_new(own, group)):
        return _leave(own, group)
    if group.master == own.replica and own.replica in group.iss:
        return _master(own, group, heard)
    if group.master in heard.alive and group.master in group.iss and not heard.master_is_gone:
        return FollowStep(group)
    return _replace_master(own, group, heard)


def _replace_master(own: OwnState, group: GroupState, heard: GroupNews) -> Step:
    """Propose this replica for a master that is gone, if it is in sync and no abler one is alive."""
    if own.replica not in group.iss:
        return WaitStep(f"master {group.master} of epoch {group.epoch} is gone, and this replica is not in sync")
    alive = _without_gone(group, heard)
    if own.ailment and (abler := _able(own, group, heard) & alive):
        return WaitStep(f"the master is gone, and one of {sorted(abler)} replaces it: here, {own.ailment}")
    new = elected(group, own.replica, alive).with_directory(own.replica, own.directory)
    return ProposeStep(new, "the master is gone")


def elected(group: GroupState, chosen: int, alive: frozenset[int]) -> GroupState:
    """Return the state in which ``chosen``, a member of the in-sync set, leads the next epoch.

    Members that are not alive leave the set, as long as ``min_iss`` members stay: while there are fewer, nothing is
    acknowledged, so a member that is only away may still be elected later.
    """
    staying = [chosen, *(replica for replica in group.iss if replica != chosen and replica in alive)]
    away = [replica for replica in group.iss if replica not in staying]
    staying += away[: max(group.min_iss - len(staying), 0)]
    return replace(
        group,
        epoch=group.epoch + 1,
        master=chosen,
        iss=tuple(sorted(staying)),
        iss_seq=group.iss_seq + 1,
        by_name=False,
    )


def handed_over(own: OwnState, group: GroupState, chosen: int) -> GroupState | None:
    """Return the state in which a master that ends has another member of the set elected; None for no change.

    The new master leads once it has confirmed the election, so an old state that was read here does no harm.
    """
    if group.master != own.replica or group.epoch != own.leads or chosen not in group.iss:
        return None
    return elected(group, chosen, frozenset(group.iss) - {own.replica})


def left(own: OwnState, group: GroupState) -> GroupState | None:
    """Return the state without a slave that ends; None where it is not in sync, or too few would stay."""
    rest = tuple(one for one in group.iss if one != own.replica)
    if own.replica not in group.iss or group.master == own.replica or len(rest) < group.min_iss:
        return None
    return replace(group, iss=rest, iss_seq=group.iss_seq + 1)


def elected_by_name(group: GroupState, chosen: int, epoch: int = 0) -> GroupState:
    """Return the state in which an operator makes ``chosen`` the master, in sync or not, and all others join anew.

    Acknowledged records that only others have are lost. ``epoch`` is the least epoch, for a coordinator that was
    restored from a backup and has forgotten epochs, and numbers of states with them: the new one is above those that
    replicas may know. Directories are forgotten: the chosen replica tells its own. Raise ``SettingsError`` for an epoch
    above `LARGEST_CHOSEN`.
    """
    forgotten = epoch * STATES_OF_AN_EPOCH if epoch > group.epoch + 1 else 0
    epoch = max(group.epoch + 1, epoch)
    if epoch > LARGEST_CHOSEN:
        raise SettingsError(
            f"epoch {epoch} leaves too few epochs for later elections; give one above those that replicas know, and "
            f"{LARGEST_CHOSEN} at most"
        )
    return replace(
        group,
        epoch=epoch,
        master=chosen,
        iss=(chosen,),
        iss_seq=max(group.iss_seq + 1, forgotten),
        by_name=True,
        named=epoch,
        directories=(),
    )


def _found_group(own: OwnState, min_iss: int) -> Step:
    if own.promised.epoch:
        return WaitStep(
            f"this replica was in epoch {own.promised.epoch} of its group, and the coordinator has no such group: it "
            "lost its data or is another one. Check coordinatorAddress, or elect a replica by name",
            is_trouble=True,
        )
    state = GroupState(epoch=0, master=0, iss=(own.replica,), iss_seq=0, min_iss=min_iss)
    return ProposeStep(state.with_directory(own.replica, own.directory), "the group is new")


def _taken(replica: int) -> WaitStep:
    return WaitStep(
        f"another broker runs with brokerId={replica} and a directory of its own: end one of them, or give this one "
        "another brokerId",
        is_trouble=True,
    )


def _is_refused(own: OwnState, group: GroupState) -> WaitStep | None:
    promise = own.promised
    if group.epoch < promise.epoch:
        return WaitStep(
            f"the coordinator tells of epoch {group.epoch}, and this replica has promised {promise.epoch}: the answer "
            "is old, or the coordinator was restored from a backup",
            is_trouble=True,
        )
    if group.epoch == promise.epoch and group.epoch and group.master != promise.master:
        return WaitStep(
            f"epoch {group.epoch} belongs to master {promise.master}, and the coordinator tells of {group.master}: it "
            "was restored from a backup. Elect a replica by name, in a higher epoch",
            is_trouble=True,
        )
    if group.epoch and not promise.epoch and own.has_log and own.replica not in group.iss:
        return WaitStep(
            "the log here was never part of this group, and following its master would cut it. Start with an empty "
            "directory, or create the group with this broker first",
            is_trouble=True,
        )
    return None


def _leave(own: OwnState, group: GroupState) -> Step:
    """Leave the in-sync set by a swap, also when it seems to be so already: a read may be old, and the master must
    not go by what this replica acknowledged before it lost something. From then on the directory is known."""
    rest = tuple(member for member in group.iss if member != own.replica)
    if not rest:
        return WaitStep(
            "this replica is the last in sync and may lack acknowledged messages: it lost its directory, or its "
            "machine lost power. If there is no better copy, elect it by name",
            is_trouble=True,
        )
    new = replace(group, iss=rest, iss_seq=group.iss_seq + 1).with_directory(own.replica, own.directory)
    return ProposeStep(new, "this replica may lack messages")


def _is_new(own: OwnState, group: GroupState) -> bool:
    """Whether a replica comes with another directory than the group knows: a new one, or one that was replaced."""
    return bool(group.epoch) and group.directory_of(own.replica) != own.directory


def _is_named(own: OwnState, group: GroupState) -> bool:
    """Whether an operator chose this replica against the rules, and it has not led yet."""
    is_chosen = group.by_name and group.master == own.replica and own.promised.epoch < group.epoch
    return is_chosen and group.directory_of(own.replica) in (0, own.directory)


def _master(own: OwnState, group: GroupState, heard: GroupNews) -> Step:
    able = _able(own, group, heard)
    if own.ailment and able and len(heard.alive - heard.ailing - {own.replica}) >= group.min_iss:
        return ProposeStep(elected(group, min(able), able), f"the master hands over: {own.ailment}")
    if own.leads == group.epoch or own.swapped == group.iss_seq:
        return LeadStep(group)
    if own.promised.epoch == group.epoch:
        return ProposeStep(elected(group, own.replica, heard.alive), "the master starts anew")
    why = "an operator elected this replica by name" if group.by_name else "the election is confirmed"
    return ProposeStep(replace(group, iss_seq=group.iss_seq + 1).with_directory(own.replica, own.directory), why)


def _able(own: OwnState, group: GroupState, heard: GroupNews) -> frozenset[int]:
    """The other members of the in-sync set that live and can take messages."""
    return (heard.alive & frozenset(group.iss)) - heard.ailing - {own.replica}


def _without_gone(group: GroupState, heard: GroupNews) -> frozenset[int]:
    return heard.alive - {group.master} if heard.master_is_gone else heard.alive


def promised_by(group: GroupState) -> ReplicaPromise:
    """Return the promise that leading or following in a state needs."""
    return ReplicaPromise(group.epoch, group.master)

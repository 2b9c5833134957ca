"""The rules that the search runs: the functions of brokers, and mutants of them, each of which must be caught."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from firearrow.broker.failover import elections, in_sync_set
from firearrow.broker.failover.elections import GroupNews, OwnState, ProposeStep, Step, WaitStep
from firearrow.broker.failover.in_sync_set import InSyncSet, ReplicaCopy
from firearrow.model.epochs import Epochs, common_end
from firearrow.model.group_state import GroupState


class Rules(NamedTuple):
    """The rules by which replicas of the search decide."""

    next_step: Callable[[OwnState, GroupNews, int], Step] = elections.next_step
    confirmed: Callable[[InSyncSet, int, Mapping[int, ReplicaCopy]], int] = in_sync_set.confirmed
    learn: Callable[[InSyncSet, GroupState], InSyncSet] = InSyncSet.learn
    common_end: Callable[[Epochs, int, Epochs, int], int | None] = common_end
    expands_from_epoch_start: bool = True
    fence_is_durable: bool = True
    swaps_before_it_counts: bool = True
    forgets_who_left: bool = True
    asks_for_directories: bool = True
    """Whether a master refuses a directory that the group does not know."""


def _known_set_only(in_sync: InSyncSet, kept: int, copies: Mapping[int, ReplicaCopy]) -> int:
    return in_sync_set.confirmed(replace(in_sync, proposed=()), kept, copies)


def _majority(in_sync: InSyncSet, kept: int, copies: Mapping[int, ReplicaCopy]) -> int:
    master = in_sync.group.master
    ends = sorted([kept, *(copies.get(member, ReplicaCopy()).acked for member in in_sync.largest if member != master)])
    return ends[len(ends) // 2]


def _unclean(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
    step, group = elections.next_step(own, heard, min_iss), heard.group
    if isinstance(step, WaitStep) and not step.is_trouble and group is not None and group.epoch >= own.promised.epoch:
        return ProposeStep(elections.elected(group, own.replica, heard.alive), "planted")
    return step


def _to_anybody(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
    group = heard.group
    others = heard.alive - frozenset(group.iss if group is not None else ())
    if own.ailment and group is not None and group.master == own.replica and others:
        return ProposeStep(elections.elected(group, min(others), heard.alive), "planted")
    return elections.next_step(own, heard, min_iss)


def _same_epoch_again(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
    group = heard.group
    if group is not None and group.master == own.replica and own.promised.epoch == group.epoch:
        return elections.LeadStep(group)
    return elections.next_step(own, heard, min_iss)


def _trusting(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
    return elections.next_step(replace(own, may_lack=False), heard, min_iss)


def _any_directory(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
    known = heard.group.directory_of(own.replica) if heard.group is not None else own.directory
    return elections.next_step(replace(own, directory=known), heard, min_iss)


def _no_cut(_mine: Epochs, my_end: int, _other: Epochs, _other_end: int) -> int | None:
    return my_end


MUTANTS: Mapping[str, Rules] = {
    "acknowledges without the proposed set": Rules(confirmed=_known_set_only),
    "acknowledges by a majority": Rules(confirmed=_majority),
    "fence is not durable": Rules(fence_is_durable=False),
    "elects outside the in-sync set": Rules(next_step=_unclean),
    "hands over outside the in-sync set": Rules(next_step=_to_anybody),
    "shrinks without a swap": Rules(swaps_before_it_counts=False),
    "expands before the start of the epoch": Rules(expands_from_epoch_start=False),
    "a master goes on in its epoch after a restart": Rules(next_step=_same_epoch_again),
    "a replica that may lack records stays in sync": Rules(next_step=_trusting),
    "a lost directory is not noticed": Rules(next_step=_any_directory, asks_for_directories=False),
    "a replaced directory is not noticed": Rules(next_step=_any_directory, asks_for_directories=False),
    "acknowledgements outlive a member's leave": Rules(forgets_who_left=False),
    "a replica joins without a cut": Rules(common_end=_no_cut),
}

"""The next step of a replica, and the counts of a master, over any states, promises and rumours."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.failover.elections import (
    FollowStep,
    GroupNews,
    LeadStep,
    OwnState,
    ProposeStep,
    WaitStep,
    elected_by_name,
    next_step,
)
from firearrow.broker.failover.in_sync_set import InSyncSet, ReplicaCopy, confirmed, next_set
from firearrow.model.group_state import GroupState, ReplicaPromise

REPLICAS = st.integers(1, 4)
SETS = st.sets(REPLICAS, min_size=1).map(lambda found: tuple(sorted(found)))
GROUPS = st.builds(
    GroupState,
    epoch=st.integers(1, 5),
    master=REPLICAS,
    iss=SETS,
    iss_seq=st.integers(1, 9),
    min_iss=st.integers(1, 3),
    by_name=st.booleans(),
)
PROMISES = st.builds(ReplicaPromise, st.integers(0, 6), REPLICAS)
OWNS = st.builds(
    OwnState,
    REPLICAS,
    PROMISES,
    st.just(0),
    st.integers(-1, 9),
    st.just(0),
    has_log=st.booleans(),
    may_lack=st.booleans(),
)
HEARD = st.builds(GroupNews, GROUPS, st.frozensets(REPLICAS), st.booleans())
COPIES = st.dictionaries(
    REPLICAS, st.builds(ReplicaCopy, st.integers(-1, 20), st.floats(0, 10), is_connected=st.booleans())
)


@given(own=OWNS, heard=HEARD)
def test_only_members_of_the_set_are_elected_and_lead(own: OwnState, heard: GroupNews) -> None:
    group, step = heard.group, next_step(own, heard, 2)
    assert group is not None
    if isinstance(step, ProposeStep):
        assert step.new.iss_seq == group.iss_seq + 1
        assert set(step.new.iss) <= set(group.iss)
        assert step.new.epoch in (group.epoch, group.epoch + 1)
        if step.new.epoch > group.epoch:
            assert step.new.master == own.replica
            assert own.replica in group.iss
            assert not own.may_lack
            assert len(step.new.iss) >= min(group.min_iss, len(group.iss))
    if isinstance(step, LeadStep):
        assert group.master == own.replica
        assert own.replica in group.iss
        assert own.swapped == group.iss_seq


@given(own=OWNS, heard=HEARD)
def test_no_state_below_the_promise_is_obeyed(own: OwnState, heard: GroupNews) -> None:
    step, group = next_step(own, heard, 2), heard.group
    assert group is not None
    if (group.epoch, group.master) < (own.promised.epoch, own.promised.master) and group.epoch <= own.promised.epoch:
        assert isinstance(step, WaitStep)
    if isinstance(step, FollowStep):
        assert group.epoch > own.promised.epoch or group.master == own.promised.master
        assert group.master in group.iss


@given(own=OWNS, heard=HEARD)
def test_a_replica_that_may_lack_records_leaves_first(own: OwnState, heard: GroupNews) -> None:
    step, group = next_step(own, heard, 2), heard.group
    assert group is not None
    if own.may_lack and not group.by_name:
        assert isinstance(step, WaitStep) or (isinstance(step, ProposeStep) and own.replica not in step.new.iss)


@given(group=GROUPS, chosen=REPLICAS, epoch=st.integers(0, 9))
def test_an_election_by_name_begins_a_later_epoch_with_one_replica(group: GroupState, chosen: int, epoch: int) -> None:
    new = elected_by_name(group, chosen, epoch)
    assert (new.master, new.iss, new.by_name) == (chosen, (chosen,), True)
    assert new.epoch > group.epoch
    assert new.epoch >= epoch


@given(group=GROUPS, proposed=st.lists(GROUPS, max_size=2), kept=st.integers(0, 20), copies=COPIES)
def test_what_is_confirmed_is_on_every_replica_that_may_be_in_sync(
    group: GroupState, proposed: list[GroupState], kept: int, copies: dict[int, ReplicaCopy]
) -> None:
    found = confirmed(InSyncSet(group, tuple(proposed)), kept, copies)
    assert found <= kept
    for state in (group, *proposed):
        assert all(found <= copies.get(one, ReplicaCopy()).acked for one in state.iss if one != group.master)


@given(group=GROUPS, copies=COPIES, confirm=st.integers(-1, 20), start=st.integers(0, 20), now=st.floats(0, 30))
def test_the_set_changes_by_one_replica_that_is_caught_up_or_late(
    group: GroupState, copies: dict[int, ReplicaCopy], confirm: int, start: int, now: float
) -> None:
    new = next_set(InSyncSet(group), copies, confirm=confirm, epoch_start=start, now_s=now, limit_s=5.0)
    if new is None:
        return
    assert new.iss_seq == group.iss_seq + 1
    assert (new.epoch, new.master) == (group.epoch, group.master)
    for one in set(new.iss) - set(group.iss):
        assert copies[one].is_connected
        assert copies[one].acked >= max(confirm, start)
    left = set(group.iss) - set(new.iss)
    assert len(left) <= 1
    assert group.master not in left
    if left:
        assert len(new.iss) >= group.min_iss


@given(group=GROUPS, later=GROUPS)
def test_an_older_state_is_not_learned(group: GroupState, later: GroupState) -> None:
    known = InSyncSet(group).learn(later)
    assert known.group.iss_seq >= group.iss_seq

"""Every step that a modelled group can take from a state, and the promise that each new state must keep.

Lease and watch do not occur: a replica may believe at any moment that the master is gone, and that anybody is alive.
Reads return the newest state or an older one. A swap may be carried out at any later moment or never, and its answer
may be lost; one that expects an older state can only fail, and is left out. Acknowledgements arrive late or never, in
the order of one connection; a later one covers those before. A crash may come between any two steps; a loss of power
takes any part of the end of the log that is not synced, the loss of a directory everything. A machine may be replaced
by another one, and come back later with its old directory.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

from msgspec.structs import replace

from campaigns.failover.model.rules import Rules
from campaigns.failover.model.state import Ack, Following, Leading, Replica, State, Swap
from firearrow.broker.failover.elections import FollowStep, GroupNews, LeadStep, OwnState, ProposeStep, promised_by
from firearrow.broker.failover.in_sync_set import InSyncSet, ReplicaCopy, next_set
from firearrow.model.epochs import Epochs
from firearrow.model.group_state import GroupState

Name = tuple[object, ...]
"""An event: words and numbers, joined when a story is told."""

NOBODY: Final = 0
DIRECTORIES: Final = 100
"""Numbers of directories behind this are drawn during the search."""
OLDEST: Final = 1
"""The largest number of states by which a read may lag."""


class Bounds(NamedTuple):
    """The bounds of a search."""

    replicas: int = 3
    in_sync: int = 3
    """The number of replicas that are in sync at first."""
    min_iss: int = 2
    epochs: int = 3
    changes: int = 4
    """Changes of the group's state beyond the first."""
    records: int = 2
    deaths: int = 2
    losses: int = 1
    """Losses of power (without sync) or of a directory among the deaths."""
    syncs: bool = True
    """Whether acknowledged records survive a loss of power."""
    replacements: bool = False
    """Whether a directory that another machine replaces may come back; it counts as a loss."""
    handovers: bool = False
    """Whether replicas may find themselves unable to take messages, at any moment."""


class Broken(Exception):
    """A promise that a state breaks."""


def steps(state: State, bounds: Bounds, rules: Rules) -> Iterator[tuple[Name, State]]:
    """Yield every next state with what happened; raise `Broken` when one breaks a promise."""
    for number in range(1, bounds.replicas + 1):
        yield from _observe(state, number, bounds, rules)
        part = state.replicas[number - 1].part
        if isinstance(part, Leading):
            yield from _lead(state, number, part, bounds, rules)
        elif isinstance(part, Following):
            yield from _follow(state, number, part, rules)
        yield from _die(state, number, bounds)
    for swap in state.swaps:
        yield from _swap(state, swap)
    for ack in state.acks:
        yield from _arrive(state, ack, rules)


# ---- what a replica does


def _observe(state: State, number: int, bounds: Bounds, rules: Rules) -> Iterator[tuple[Name, State]]:
    replica = state.replicas[number - 1]
    leads = replica.part.epoch if isinstance(replica.part, Leading) else 0
    own = OwnState(
        number,
        replica.promised,
        leads,
        replica.swapped,
        directory=replica.directory,
        has_log=bool(replica.log),
        may_lack=replica.may_lack,
    )
    everybody = frozenset(range(1, bounds.replicas + 1))
    reads = (state.group, *state.past)
    ailments = ("", "ails;") if bounds.handovers else ("",)
    for group in reads:
        for gone, ailment in product((False, True), ailments):
            able = replace(own, ailment=ailment)
            step = rules.next_step(able, GroupNews(group, everybody, gone), bounds.min_iss)
            name = (number, "reads", group.iss_seq, "and misses the master;" if gone else ";", ailment)
            if isinstance(step, ProposeStep):
                swap = Swap(number, group, step.new)
                if group is state.group and _is_within(step.new, bounds) and swap not in state.swaps:
                    yield (*name, "proposes", step.new), state._replace(swaps=state.swaps | {swap})
            elif isinstance(step, LeadStep | FollowStep):
                yield from _take_part(state, number, step, name, rules)


def _is_within(new: GroupState, bounds: Bounds) -> bool:
    return new.epoch <= bounds.epochs and new.iss_seq <= 1 + bounds.changes


def _take_part(
    state: State, number: int, step: LeadStep | FollowStep, name: Name, rules: Rules
) -> Iterator[tuple[Name, State]]:
    replica, group = state.replicas[number - 1], step.group
    if replica.part is not None and replica.part.epoch == group.epoch:
        if isinstance(replica.part, Leading):
            known = replica.part._replace(in_sync=rules.learn(replica.part.in_sync, group))
            if known != replica.part:
                yield (*name, "learns", group), _know(state, number, replica.part, known, rules)
        return
    promised = promised_by(group)
    stored = promised if rules.fence_is_durable else replica.stored
    if isinstance(step, FollowStep):
        part = Following(group.epoch, group.master, joined=False)
        yield (*name, "follows"), _with(state, number, promised=promised, stored=stored, part=part)
        return
    if replica.log[: len(state.acked)] != state.acked:
        raise Broken(
            f"replica {number} leads epoch {group.epoch} with {replica.log}, and {state.acked} was acknowledged"
        )
    if any(epoch == group.epoch and other != number for epoch, other in state.led):
        raise Broken(f"epoch {group.epoch} has two masters")
    start = len(replica.log)
    leading = Leading(group.epoch, start, InSyncSet(group), ())
    history = replica.history.begun(group.epoch, start) if group.epoch > _last(replica.history) else replica.history
    after = _with(state, number, promised=promised, stored=stored, history=history, part=leading, may_lack=False)
    led = tuple(sorted({*state.led, (group.epoch, number)}))
    yield (*name, "leads epoch", group.epoch), _acknowledged(after._replace(led=led), number, rules)


def _last(history: Epochs) -> int:
    return history.last.epoch if history.last is not None else 0


def _lead(state: State, number: int, part: Leading, bounds: Bounds, rules: Rules) -> Iterator[tuple[Name, State]]:
    replica = state.replicas[number - 1]
    if state.sent < bounds.records and len(part.in_sync.group.iss) >= part.in_sync.group.min_iss:
        log = (*replica.log, state.sent)
        after = _with(state._replace(sent=state.sent + 1), number, log=log)
        yield (number, "appends", state.sent), _acknowledged(after, number, rules)
    copies = {peer: ReplicaCopy(end, 0.0, is_connected=True) for peer, end in part.acks}
    confirm = rules.confirmed(part.in_sync, len(replica.log), copies)
    start = part.start if rules.expands_from_epoch_start else 0
    for late in (None, *(member for member in part.in_sync.group.iss if member != number)):
        aged = {
            peer: ReplicaCopy(copy.acked, 0.0 if peer == late else 9.0, is_connected=True)
            for peer, copy in copies.items()
        }
        for member in part.in_sync.group.iss:
            aged.setdefault(member, ReplicaCopy(caught_up_s=0.0 if member == late else 9.0))
        new = next_set(part.in_sync, aged, confirm=confirm, epoch_start=start, now_s=9.0, limit_s=1.0)
        if new is not None and new.iss_seq <= 1 + bounds.changes:
            swaps = state.swaps
            if part.in_sync.group == state.group:  # else it fails
                swaps |= {Swap(number, state.group, new)}
            known = part.in_sync.propose(new) if rules.swaps_before_it_counts else InSyncSet(new)
            after = _with(state._replace(swaps=swaps), number, part=part._replace(in_sync=known))
            yield (number, "proposes", new), _acknowledged(after, number, rules)


def _follow(state: State, number: int, part: Following, rules: Rules) -> Iterator[tuple[Name, State]]:
    replica, master = state.replicas[number - 1], state.replicas[part.master - 1]
    if not isinstance(master.part, Leading) or master.part.epoch != part.epoch:
        return
    if not part.joined:
        if rules.asks_for_directories and master.part.in_sync.group.directory_of(number) != replica.directory:
            return
        end = rules.common_end(replica.history, len(replica.log), master.history, len(master.log)) or 0
        log, history = replica.log[:end], replica.history.cut(end)
        after = _with(state, number, log=log, history=history, part=part._replace(joined=True))
        if rules.forgets_who_left:
            after = _disconnected(after, part.master, {number})
        yield (number, "joins at", end), _ack(after, number, part)
    elif len(replica.log) < len(master.log):
        at = len(replica.log)
        log, history = (*replica.log, master.log[at]), master.history.ended(at)
        yield (number, "copies", at), _ack(_with(state, number, log=log, history=history), number, part)


def _ack(state: State, number: int, part: Following) -> State:
    """Send an acknowledgement; one that is still on its way is covered by it."""
    ack = Ack(part.epoch, part.master, number, len(state.replicas[number - 1].log))
    others = (sent for sent in state.acks if (sent.epoch, sent.replica) != (part.epoch, number))
    return state._replace(acks=frozenset((ack, *others)))


# ---- what happens to replicas and messages


def _die(state: State, number: int, bounds: Bounds) -> Iterator[tuple[Name, State]]:
    replica = state.replicas[number - 1]
    for left in state.aside:
        if left[0] == number:
            yield (number, "comes back with what it had"), _set(_orphaned(state, number)._replace(aside=()), *left)
    if state.deaths >= bounds.deaths:
        return
    dying = _orphaned(state, number)._replace(deaths=state.deaths + 1)
    if replica.part is not None:
        yield (number, "crashes"), _with(dying, number, part=None, swapped=-1, promised=replica.stored)
    if state.losses >= bounds.losses:
        return
    losing = dying._replace(losses=state.losses + 1)
    another = Replica(directory=DIRECTORIES + losing.losses)
    yield (number, "loses its directory"), _set(losing, number, another)
    if bounds.replacements:
        aside = replica._replace(part=None, swapped=-1, promised=replica.stored)
        yield (number, "is replaced"), _set(losing._replace(aside=(*state.aside, (number, aside))), number, another)
    if not bounds.syncs:
        for end in range(len(replica.log)):
            kept = replica._replace(log=replica.log[:end], history=replica.history.ended(end), promised=replica.stored)
            lacking = kept._replace(part=None, swapped=-1, may_lack=True)
            yield (number, "loses power and keeps", end), _set(losing, number, lacking)


def _orphaned(state: State, number: int) -> State:
    """A swap of a replica that is on its way may still be carried out, but nobody hears its answer."""
    swaps = frozenset(swap._replace(sender=NOBODY) if swap.sender == number else swap for swap in state.swaps)
    return state._replace(swaps=swaps)


def _swap(state: State, swap: Swap) -> Iterator[tuple[Name, State]]:
    # All others that are on their way expect the same state, and fail from now on.
    done = state._replace(group=swap.new, past=(*state.past, state.group)[-OLDEST:], swaps=frozenset())
    # The answer is lost, and tells a master no more than its next read. It matters to an election and a leave.
    yield ("the swap of", swap.sender, "to", swap.new, "succeeds"), done
    if swap.sender != NOBODY and not isinstance(state.replicas[swap.sender - 1].part, Leading):
        lacking = state.replicas[swap.sender - 1].may_lack and swap.sender in swap.new.iss
        heard = _with(done, swap.sender, swapped=swap.new.iss_seq, may_lack=lacking)
        yield ("the swap of", swap.sender, "to", swap.new, "succeeds and is answered"), heard


def _arrive(state: State, ack: Ack, rules: Rules) -> Iterator[tuple[Name, State]]:
    part = state.replicas[ack.master - 1].part
    rest = state._replace(acks=state.acks - {ack})
    if isinstance(part, Leading) and part.epoch == ack.epoch:
        acks = tuple(sorted({**dict(part.acks), ack.replica: ack.end}.items()))
        after = _with(rest, ack.master, part=part._replace(acks=acks))
        yield (ack, "arrives"), _acknowledged(after, ack.master, rules)


def _know(state: State, number: int, before: Leading, after: Leading, rules: Rules) -> State:
    """Let a master know a state: it ends the connections of replicas that may have lost something."""
    state = _with(state, number, part=after)
    left = before.in_sync.outsiders(after.in_sync.group, range(1, len(state.replicas) + 1))
    if left and rules.forgets_who_left:
        state = _disconnected(state, number, left)
    return _acknowledged(state, number, rules)


def _disconnected(state: State, master: int, left: set[int]) -> State:
    """Forget what replicas acknowledged over a connection that has ended, also what is still on its way."""
    part = state.replicas[master - 1].part
    if not isinstance(part, Leading):
        return state
    known = tuple(ack for ack in part.acks if ack[0] not in left)
    acks = frozenset(
        ack for ack in state.acks if ack.replica not in left or (ack.master, ack.epoch) != (master, part.epoch)
    )
    return _with(state, master, part=part._replace(acks=known))._replace(acks=acks)


def _acknowledged(state: State, number: int, rules: Rules) -> State:
    """Acknowledge everything that the rules allow, at once: later would be no worse."""
    replica = state.replicas[number - 1]
    part = replica.part
    if not isinstance(part, Leading):
        return state
    copies = {peer: ReplicaCopy(end, is_connected=True) for peer, end in part.acks}
    end = rules.confirmed(part.in_sync, len(replica.log), copies)
    shared = min(max(end, 0), len(state.acked))
    if replica.log[:shared] != state.acked[:shared]:
        raise Broken(f"replica {number} confirms {replica.log[:end]}, and {state.acked} was acknowledged")
    return state._replace(acked=replica.log[:end]) if end > len(state.acked) else state


# ---- changes of a state


def _with(state: State, number: int, **changes: object) -> State:
    return _set(state, number, state.replicas[number - 1]._replace(**changes))  # type: ignore[arg-type]


def _set(state: State, number: int, replica: Replica) -> State:
    replicas = state.replicas
    return state._replace(replicas=(*replicas[: number - 1], replica, *replicas[number:]))

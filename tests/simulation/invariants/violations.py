"""Judges the history of a run against what brokers promise (numbers as in the guarantees page).

I1 every acknowledged message is in the log, at the place it was acknowledged at. I2 it was delivered to every group. I3
nothing appears that was never sent, or whose send was definitely refused. I4 a queue offset holds one message for ever.
I5 the offsets of a queue are contiguous. I6 no two messages share a position in the log. I7 a producer's acknowledged
messages lie in a queue in the order of sending; an ordered group never sees a message before its predecessor. I8 a
message that was read never gets another offset. I9 a group never continues beyond its committed offset. I10
``transaction_checks``. I11 ``timer_checks``. I12 a message
is delivered no more often than its limit and ends in the dead letters with its keys. I13 no message is delivered twice
unless something failed. I14 a deleted topic stays deleted (``workload.lives``). I17 a pull is answered while its
connection lives.

I1, I4 and I8 hold for every crash under SYNC_FLUSH and for crashes of the process under ASYNC_FLUSH. After the loss of
power under ASYNC_FLUSH only what was acknowledged within the flush window before it may be missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from firearrow.model.names import is_dlq_topic, is_retry_topic
from tests.simulation.invariants.history import History, Outcome, Place, Read, Sent
from tests.simulation.invariants.promise import Promise
from tests.simulation.invariants.timer_checks import timers_kept
from tests.simulation.invariants.transaction_checks import transactions_kept


def violations(history: History, promise: Promise) -> list[str]:
    """Return every violation, as text."""
    wrong = list(history.broken)
    for check in (
        _in_the_log, _delivered, _no_phantom, _one_message_a_place, _contiguous, _in_order, _never_before, _retries,
        _no_duplicates, _answered, transactions_kept, timers_kept,
    ):  # fmt: skip
        wrong += check(history, promise)
    return wrong


def _in_the_log(history: History, promise: Promise) -> Iterator[str]:
    at = {read.place: read.key for read in history.final}
    somewhere = {(read.key, read.place.topic) for read in history.final}
    for sent in promise.acknowledged(history):
        if sent.delay_level:
            # Delay levels wait in the log like every message: where old files are deleted, they may be among them.
            if (sent.key, sent.topic) not in somewhere and not history.deleted:
                yield f"I1: {sent.key}, delayed and acknowledged at {sent.ended_s:.3f}, never reached {sent.topic}"
        elif sent.waits:
            continue  # I10, I11
        elif sent.place is None or at.get(sent.place) != sent.key:
            found = at.get(sent.place) if sent.place else None
            yield f"I1: {sent.key}, acknowledged at {sent.ended_s:.3f}, is not at {sent.place}: {found} is"


def _delivered(history: History, promise: Promise) -> Iterator[str]:
    owed = list(_deliverable(history, promise))
    for group in promise.groups:
        reads, wanted = history.reads.get(group, []), promise.tags.get(group)
        got = {read.key for read in reads}
        for sent in owed:
            if (wanted is None or sent.tag in wanted) and sent.key not in got:
                yield f"I2: {sent.key} ({sent.topic}, {sent.place}) never came to {group}"
        for read in reads:
            if wanted is not None and read.tag not in wanted:
                yield f"I2: {read.key} with tag {read.tag!r} came to {group}, which wants {sorted(wanted)}"


def _deliverable(history: History, promise: Promise) -> Iterator[Sent]:
    """Yield the acknowledged messages that every group of the run must get, whose tags it wants.

    A consumer that was beyond a place before the power went does not come back to it; a message that never came to a
    place at all is a matter of I1, I10 or I11.
    """
    passed = history.deleted | (_used_again(history) if promise.window_s else frozenset())
    lies = {(read.key, read.place.topic): read.place for read in history.final}
    for sent in promise.acknowledged(history):
        place = lies.get((sent.key, sent.topic)) if sent.waits else sent.place
        if sent.topic in promise.topics and place not in passed and not (sent.waits and place is None):
            yield sent


def _every_read(history: History) -> Iterator[Read]:
    yield from history.final
    for reads in history.reads.values():
        yield from reads


def _no_phantom(history: History, promise: Promise) -> Iterator[str]:
    del promise
    attempted = {sent.key: sent for sent in history.attempts()}
    for read in _every_read(history):
        sent = attempted.get(read.key)
        if sent is None:
            yield f"I3: {read.key} at {read.place} was never sent"
        elif sent.outcome is Outcome.FAIL:
            yield f"I3: {read.key} at {read.place} was refused, and yet it is there"
        elif read.origin != sent.topic:
            yield f"I3: {read.key} was sent to {sent.topic} and came as one of {read.origin}"


def _places(history: History) -> Iterator[tuple[Place, str, float, str]]:
    for sent in history.sends:
        if sent.place is not None and not sent.waits:
            yield sent.place, sent.key, sent.ended_s, "acknowledged"
    for read in _every_read(history):
        yield read.place, read.key, read.at_s, "read"


def _used_again(history: History) -> frozenset[Place]:
    """Return queue offsets that held two different messages."""
    keys: dict[Place, str] = {}
    return frozenset(place for place, key, _, _ in _places(history) if keys.setdefault(place, key) != key)


def _one_message_a_place(history: History, promise: Promise) -> Iterator[str]:
    known: dict[Place, tuple[str, float, str]] = {}
    for place, key, at_s, how in _places(history):
        old = known.setdefault(place, (key, at_s, how))
        if old[0] == key:
            continue
        if promise.window_s and any(broker == place.broker for _, broker in history.power_losses):
            history.counts["places used again"] += 1
        else:
            yield f"I4, I8: {place} was {old[0]} ({old[2]} at {old[1]:.3f}) and is {key} ({how} at {at_s:.3f})"


def _contiguous(history: History, promise: Promise) -> Iterator[str]:
    del promise
    queues: dict[tuple[str, str, int], list[int]] = {}
    in_log: Counter[tuple[str, int]] = Counter()
    for read in history.final:
        queues.setdefault(read.place[:3], []).append(read.place.offset)
        in_log[read.place.broker, read.physical] += 1
    for queue, offsets in queues.items():
        expected = list(range(offsets[0], offsets[0] + len(offsets)))
        if offsets != expected:
            missing = sorted(set(expected) - set(offsets))[:5]
            yield f"I5: {queue} holds {len(offsets)} messages from {offsets[0]} on, but not {missing}"
    for (broker, physical), count in in_log.items():
        if count > 1:
            yield f"I6: {count} messages of {broker} lie at {physical}"


def _in_order(history: History, promise: Promise) -> Iterator[str]:
    last: dict[tuple[str, str, str, int], tuple[int, str]] = {}
    for sent in promise.acknowledged(history):
        if sent.place is None or sent.waits:
            continue
        producer = sent.key.partition(":")[0]
        before = last.get((producer, *sent.place[:3]))
        if before is not None and before[0] >= sent.place.offset:
            yield f"I7: {sent.key} lies at {sent.place}, and {before[1]}, sent before it, at {before[0]}"
        last[producer, *sent.place[:3]] = (sent.place.offset, sent.key)


def _never_before(history: History, promise: Promise) -> Iterator[str]:
    for group in promise.ordered:
        highest: dict[tuple[str, str, int], int] = {}
        for read in history.reads.get(group, ()):
            queue = read.place[:3]
            seen = highest.get(queue, -1)
            if read.place.offset > seen + 1 and not promise.window_s and not history.deleted:
                yield f"I7: {group} saw {read.place} after {seen}"
            highest[queue] = max(seen, read.place.offset)


def _retries(history: History, promise: Promise) -> Iterator[str]:
    for group, reads in history.reads.items():
        for read in reads:
            if is_retry_topic(read.place.topic) and read.times > promise.most_attempts:
                yield f"I12: {read.key} came to {group} for the {read.times}th time again"
    if not promise.retrying:
        return
    for read in history.final:
        if is_dlq_topic(read.place.topic) and (read.keys != read.key or read.key not in promise.poison):
            yield f"I12: {read.key} with keys {read.keys!r} is among the dead letters"
    if not promise.window_s and not history.deleted:
        # Within the window a retry may be lost like any other message, or be deleted unread.
        yield from _come_again(history)
        yield from _buried(history, promise)


def _buried(history: History, promise: Promise) -> Iterator[str]:
    """Check that a message that no consumer can handle is in the dead-letter topic."""
    dead = Counter(read.key for read in history.final if is_dlq_topic(read.place.topic))
    arrived = {(read.key, read.place.topic) for read in history.final}
    for sent in promise.acknowledged(history):
        if sent.key not in promise.poison or (sent.waits and (sent.key, sent.topic) not in arrived):
            continue
        if dead[sent.key] == 0 or (promise.faultless and dead[sent.key] > 1):
            yield f"I12: {sent.key}, which nobody can handle, is {dead[sent.key]} times among the dead letters"


def _come_again(history: History) -> Iterator[str]:
    """Check that a message that was sent back is delivered again, or is in the dead-letter topic."""
    again = {(group, read.key, read.times) for group, reads in history.reads.items() for read in reads}
    dead = {read.key for read in history.final if is_dlq_topic(read.place.topic)}
    for group, key in history.unreturnable:
        yield f"I8: {key} came to {group}, and its broker has it no more"
    for group, key, times in history.returned:
        if (group, key, times + 1) not in again and key not in dead:
            yield f"I12: {key}, sent back by {group} after {times} redeliveries, never came again"


def _no_duplicates(history: History, promise: Promise) -> Iterator[str]:
    for group, reads in history.reads.items():
        times = Counter((read.key, read.times) for read in reads)
        twice = [key for key, count in times.items() if count > 1]
        history.counts["duplicates"] += len(twice)
        if promise.faultless and twice:
            yield f"I13: {group} got {len(twice)} messages twice, {twice[0]} among them, though nothing failed"


def _answered(history: History, promise: Promise) -> Iterator[str]:
    if promise.answers:
        for asked_s, address in history.unanswered:
            yield f"I17: a pull that {address} was asked for at {asked_s:.3f} was never answered"


def summary(history: History) -> str:
    """Return a summary of a run, in one line."""
    outcomes = Counter(sent.outcome.value for sent in history.sends)
    reads = sum(map(len, history.reads.values()))
    return f"{dict(outcomes)} sends, {reads} reads, {len(history.final)} stored, {_shown(history.counts.items())}"


def _shown(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts))

"""I11: a delayed message is never delivered early and never lost, and without failures not late either.

A wall clock that steps leaves two senses of early: by the clock of the broker, and by the time that really passed since
the send. A broker knows only the first across restarts, and may go by the second while it runs, so a delivery is early
if it is early in both senses. A delay counts from the arrival, by the broker's clock as it was then; a time of delivery
is the producer's, whose clock is right.
"""

from collections.abc import Iterator

from tests.simulation.invariants.history import History, Read, Sent
from tests.simulation.invariants.promise import Promise


def timers_kept(history: History, promise: Promise) -> Iterator[str]:
    """Yield every violation of I11."""
    delayed = {sent.key: sent for sent in history.sends if sent.delay_level or sent.due_ms}
    first_read = _first_reads(history)
    for read in history.final:
        sent = delayed.get(read.key)
        if sent is not None and read.place.topic == sent.topic:
            yield from _in_time(sent, read, first_read.get(read.key), history, promise)
    arrived = {(read.key, read.place.topic) for read in history.final}
    for sent in promise.acknowledged(history):
        if sent.due_ms and (sent.key, sent.topic) not in arrived:
            yield f"I11: {sent.key}, timed and acknowledged at {sent.ended_s:.3f} for {sent.due_ms}, never came"


def _first_reads(history: History) -> dict[str, float]:
    """Return when a message was first read, by key."""
    first: dict[str, float] = {}
    for reads in history.reads.values():
        for read in reads:
            first[read.key] = min(read.at_s, first.get(read.key, read.at_s))
    return first


def _in_time(sent: Sent, read: Read, read_s: float | None, history: History, promise: Promise) -> Iterator[str]:
    wait_ms = sent.due_ms - sent.born_ms if sent.due_ms else promise.delays_ms[sent.delay_level - 1]
    due_ms, due_s = sent.born_ms + wait_ms, sent.began_s + wait_ms / 1000
    if sent.is_relative or sent.delay_level:
        due_ms += min(history.clock_error_ms(sent.broker, at_s) for at_s in (sent.began_s, sent.ended_s))
    if any(name == sent.broker for _, name, _ in history.clock_steps):
        # The store time of a record does not go back with the clock, so it says little here.
        is_early = (
            read_s is not None and read_s < due_s and history.latest_ms(sent.broker, sent.began_s, read_s) < due_ms
        )
    else:
        is_early = read.stored_ms < due_ms
    if is_early:
        yield f"I11: {read.key}, due at {due_ms}, was delivered early: stored at {read.stored_ms}, read at {read_s}"
    if promise.faultless and sent.due_ms and read.stored_ms > due_ms + promise.late_ms:
        yield f"I11: {read.key} was delivered {read.stored_ms - due_ms} ms late, though nothing failed"

"""I10: what a committed half message becomes is in the log; what was rolled back, or never decided, is not.

An acknowledged half message ends in one of three ways. Committed: it is in its topic, once; twice only where a broker
died between the message and the note that it is written, and asked again. Rolled back: it is nowhere. Undecided: its
group was asked a limited number of times, then it lies among those that were given up. A half message that is decided
may be given up too, where no member of its group could be reached.
"""

from collections import Counter
from collections.abc import Iterator

from firearrow.model.names import HALF_TOPIC, OP_HALF_TOPIC
from tests.simulation.invariants.history import Decision, Half, History, Outcome
from tests.simulation.invariants.promise import Promise

HIDDEN = frozenset({HALF_TOPIC, OP_HALF_TOPIC})
COMMITTED = (Decision.COMMIT, Outcome.OK)


def transactions_kept(history: History, promise: Promise) -> Iterator[str]:
    """Yield every violation of I10."""
    stored = Counter((read.key, read.place.topic) for read in history.final)
    given_up = Counter(read.key for read in history.given_up)
    for key, half in history.halves.items():
        if len(half.checks) > promise.most_checks and not promise.window_s:
            yield f"I10: {key} was asked about {len(half.checks)} times"
        if half.sent.outcome is Outcome.OK and not promise.excuses(half.sent, history):
            yield from _ended(half, stored[key, half.sent.topic], given_up[key], promise)
    yield from _hidden(history)


def _ended(half: Half, stored: int, given_up: int, promise: Promise) -> Iterator[str]:
    key, decision = half.sent.key, half.decision
    if decision is Decision.UNKNOWN and not given_up:
        yield f"I10: {key}, about which nobody knows, was asked about {len(half.checks)} times and never given up"
    if decision is Decision.COMMIT and not stored:
        told_s = next((end.ended_s for end in half.ends if (end.decision, end.outcome) == COMMITTED), None)
        if told_s is not None and not promise.window_s:
            yield f"I10: {key}, whose commit was acknowledged at {told_s:.3f}, never reached {half.sent.topic}"
        elif not given_up:
            yield f"I10: {key}, committed, was asked about {len(half.checks)} times and is nowhere"
    if promise.faultless and max(stored, given_up) > 1:
        yield f"I10: {key} is {stored} times in the log and {given_up} times given up, though nothing failed"
    if promise.faultless and given_up and decision is not Decision.UNKNOWN:
        yield f"I10: {key}, {decision.value}, was given up, though nothing failed"


def _hidden(history: History) -> Iterator[str]:
    """Check that nobody sees half messages, nor what was not committed."""
    reads = [read for group in history.reads.values() for read in group]
    for read in [*history.final, *reads]:
        half = history.halves.get(read.key)
        if read.place.topic in HIDDEN:
            yield f"I10: {read.key} was read from {read.place}"
        elif half is not None and half.decision is not Decision.COMMIT:
            yield f"I10: {read.key} is at {read.place}, though its group said {half.decision.value}"

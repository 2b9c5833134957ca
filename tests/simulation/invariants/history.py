"""The history of a run as its clients saw it; ``invariants`` judges it.

Every message has a key, ``producer:number``, from which its body is made, so that a body proves its key. A send ends in
one of three ways: acknowledged at a queue offset, definitely refused, or unknown (a timeout, a lost connection). A half
message is written down before it is sent, with what its group will decide. Times are the loop's.
"""

import zlib
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from firearrow.testing.sim.clock import EPOCH_MS


class Outcome(Enum):
    """The end of a send."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Decision(Enum):
    """The decision of a producer's group about a half message."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"
    """The group never knows."""


class Place(NamedTuple):
    """One slot of one queue."""

    broker: str
    topic: str
    queue_id: int
    offset: int


@dataclass(frozen=True)
class Sent:
    """One attempt to send."""

    key: str
    topic: str
    broker: str
    queue_id: int
    outcome: Outcome
    place: Place | None
    began_s: float
    ended_s: float
    tag: str = ""
    delay_level: int = 0
    born_ms: int = 0
    due_ms: int = 0
    """The due time of a timed message, by the clock of its producer; 0 for a message that is not timed."""
    is_relative: bool = False
    """Whether a timed message waits for some time from its arrival on, by the clock of the broker."""
    decision: Decision | None = None
    """The decision about a half message; None for every other message."""
    physical: int = -1
    """The physical offset of an acknowledged half message."""

    @property
    def waits(self) -> bool:
        """Whether the message is acknowledged where it waits, and lies elsewhere when it is delivered."""
        return bool(self.delay_level or self.due_ms or self.decision)


@dataclass(frozen=True)
class Read:
    """One message that a consumer, or the final inspection, received."""

    key: str
    place: Place
    physical: int
    stored_ms: int
    times: int
    """Redeliveries so far, as the record says."""
    origin: str
    """The topic that it was sent to."""
    at_s: float
    keys: str = ""
    tag: str = ""


@dataclass(frozen=True)
class End:
    """One request that ends a transaction, or answers a check of it."""

    decision: Decision
    outcome: Outcome
    began_s: float
    ended_s: float


@dataclass
class Half:
    """A half message and what its producer's group did about it; every member of the group knows the decision."""

    sent: Sent
    decision: Decision
    unknowns: int = 0
    """Checks that are answered with unknown before the decision is told."""
    checks: list[float] = field(default_factory=list)
    """The times at which a broker asked about it."""
    ends: list[End] = field(default_factory=list)


@dataclass
class History:
    """Everything that was seen."""

    sends: list[Sent] = field(default_factory=list)
    reads: dict[str, list[Read]] = field(default_factory=dict)
    """By consumer group, in the order of reading."""
    commits: dict[tuple[str, str, str, int], int] = field(default_factory=dict)
    """The highest offset that a group tried to commit, by group, broker, topic and queue."""
    returned: list[tuple[str, str, int]] = field(default_factory=list)
    """Messages that were sent back and whose sending back was answered: group, key, redeliveries so far."""
    unreturnable: list[tuple[str, str]] = field(default_factory=list)
    """Messages that a broker would not take back, because it has them no more: group, key."""
    unanswered: list[tuple[float, str]] = field(default_factory=list)
    """Pulls whose answer did not come in time: when they were asked, and where."""
    final: list[Read] = field(default_factory=list)
    halves: dict[str, Half] = field(default_factory=dict)
    """Half messages by key."""
    given_up: list[Read] = field(default_factory=list)
    """Half messages that brokers gave up asking about, as the final inspection found them."""
    deleted: set[Place] = field(default_factory=set)
    """Places of the messages that retention deleted; ``final`` still has them."""
    clock_steps: list[tuple[float, str, int]] = field(default_factory=list)
    """Steps of wall clocks: when, of which broker, by how many milliseconds."""
    power_losses: list[tuple[float, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Counts of events: faults that fired, answers of each kind."""
    broken: list[str] = field(default_factory=list)
    """Errors that clients found during the run."""

    @property
    def come(self) -> int:
        """The number of messages that consumers have received."""
        return sum(map(len, self.reads.values()))

    def attempts(self) -> list[Sent]:
        """Return every attempt to send, half messages among them."""
        return [*self.sends, *(half.sent for half in self.halves.values())]

    def clock_error_ms(self, broker: str, at_s: float) -> int:
        """Return by how much the wall clock of a broker was wrong at a time."""
        return sum(by_ms for step_s, name, by_ms in self.clock_steps if name == broker and step_s <= at_s)

    def latest_ms(self, broker: str, since_s: float, until_s: float) -> int:
        """Return the latest time that the wall clock of a broker showed between two times."""
        errors = [(until_s, self.clock_error_ms(broker, until_s))]
        for step_s, name, by_ms in self.clock_steps:
            if name == broker and since_s < step_s <= until_s:
                errors.append((step_s, self.clock_error_ms(broker, step_s) - by_ms))
        return max(EPOCH_MS + int(at_s * 1000) + error_ms for at_s, error_ms in errors)

    def read_by(self, group: str, read: Read) -> None:
        """Note that a consumer of a group received a message."""
        self.reads.setdefault(group, []).append(read)

    def commits_to(self, group: str, broker: str, topic: str, queue_id: int, offset: int) -> None:
        """Note that a consumer is about to commit."""
        key = (group, broker, topic, queue_id)
        self.commits[key] = max(offset, self.commits.get(key, 0))

    def goes_on_at(self, group: str, broker: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the offset at which a broker lets a group continue; it must not be beyond a committed one."""
        highest = self.commits.get((group, broker, topic, queue_id), 0)
        if offset > highest:
            self.broken.append(
                f"I9: {group} was sent to {offset} of {topic}/{queue_id} at {broker}, beyond its commits ({highest})"
            )


def body_of(key: str, size: int) -> bytes:
    """Return the body of a message: its key, padded to ``size`` bytes with bytes that follow from the key."""
    head = f"{key}|{size}|".encode()
    filler = zlib.crc32(head).to_bytes(4, "big") * (size // 4 + 1)
    return head + filler[: max(size - len(head), 0)]


def key_of(body: bytes) -> str:
    """Return the key of a body; raise ``ValueError`` if the body is not one that `body_of` made."""
    key, size, _ = body.split(b"|", 2)
    if body != body_of(key.decode(), int(size)):
        raise ValueError(f"the body of {key!r} is not what was sent")
    return key.decode()

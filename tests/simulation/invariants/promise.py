"""The promises of a run's settings, and the messages that a loss of power or a deletion excuses."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.invariants.history import Decision, History, Outcome, Sent


@dataclass(frozen=True)
class Promise:
    """The promises of a run's settings."""

    groups: tuple[str, ...]
    topics: frozenset[str] = frozenset()
    """The topics that the groups consume."""
    tags: dict[str, frozenset[str]] = field(default_factory=dict)
    """The tags that a group wants, where it does not want all."""
    ordered: tuple[str, ...] = ()
    most_attempts: int = 16
    poison: frozenset[str] = frozenset()
    """Keys that no consumer of `retrying` can handle."""
    retrying: str = ""
    window_s: float = 0.0
    """Seconds before a loss of power in which an acknowledged message may be lost; 0: none may be lost."""
    delays_ms: tuple[int, ...] = ()
    most_checks: int = 15
    """The most times that brokers ask about a half message."""
    faultless: bool = False
    late_ms: int = 3_000
    """Milliseconds by which a timed message may be late where nothing fails."""
    answers: bool = False
    """Whether every pull must be answered: no cable was cut, no machine froze or lost its power."""

    def excuses(self, sent: Sent, history: History) -> bool:
        """Whether a message may be lost: acknowledged shortly before its broker lost its power, and not synced."""
        if not self.window_s:
            return False
        return any(
            broker == sent.broker and sent.began_s <= at_s and sent.ended_s >= at_s - self.window_s
            for at_s, broker in history.power_losses
        )

    def acknowledged(self, history: History) -> Iterator[Sent]:
        """Yield what must be delivered: acknowledged, not excused, and committed if it is a half message."""
        for sent in history.attempts():
            delivered = sent.decision in (None, Decision.COMMIT)
            if sent.outcome is Outcome.OK and delivered and not self.excuses(sent, history):
                yield sent

"""The progress of a mirror: counts and lag of every queue, for people and for metrics. Pure."""

from collections.abc import Iterator

from msgspec import Struct

from firearrow.model import MessageQueue
from firearrow.telemetry.metrics import Family, Kind


class SourceProgress(Struct):
    """The progress of a mirror in one source queue."""

    queue: MessageQueue
    next: int = 0
    end: int = 0
    stored_ms: int = 0
    """The source's store time of the first waiting message, or of the last copied one; 0 before the first."""
    progress_ms: int = 0
    """The time at which a message was last copied, or the queue was found without new ones."""
    is_waiting: bool = False
    """Whether a request has failed and is repeated."""
    read: int = 0
    copied: int = 0
    looped: int = 0
    """Messages that were not copied because they have been to the target."""
    missed: int = 0
    """Messages that the source had deleted before they were copied."""
    damaged: int = 0
    retries: int = 0

    @property
    def lag(self) -> int:
        """Messages that are stored at the source and not acknowledged by the target."""
        return max(0, self.end - self.next)

    def seconds(self, now_ms: int) -> float:
        """Return how old the messages are that wait, counted from `stored_ms`; 0 if none waits."""
        return max(0.0, (now_ms - self.stored_ms) / 1000) if self.lag and self.stored_ms else 0.0


class MirrorProgress:
    """The progress of all queues of one mirror."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[MessageQueue, SourceProgress] = {}
        self.is_active = True
        self.begin_ms = 0
        """The time at which the mirror began."""
        self.groups = 0
        """Groups whose offsets were translated at the last synchronisation."""

    def of(self, queue: MessageQueue) -> SourceProgress:
        """Return the progress of a queue, new if it is not known."""
        return self.queues.setdefault(queue, SourceProgress(queue))

    @property
    def progress_ms(self) -> int:
        """The time of the last progress of the queue that is behind all others."""
        return min((queue.progress_ms for queue in list(self.queues.values())), default=self.begin_ms)

    def total(self, field: str) -> int:
        """Return the sum of a count over all queues."""
        return sum(getattr(queue, field) for queue in list(self.queues.values()))

    @property
    def lag(self) -> int:
        """Messages that are stored at the source and not acknowledged by the target."""
        return self.total("lag")

    def line(self, now_ms: int, per_second: float) -> str:
        """One line for people."""
        oldest = max((queue.seconds(now_ms) for queue in self.queues.values()), default=0.0)
        parts = [f"{self.total('copied'):,} copied", f"{per_second:,.0f}/s", f"lag {self.lag:,} ({oldest:.1f} s)"]
        for count, what in (
            (self.total("looped"), "already been to the target"),
            (self.total("missed"), "missed: deleted at the source before they were copied"),
            (self.total("damaged"), "damaged and left out"),
        ):
            if count:
                parts.append(f"{count:,} {what}")
        return f"{self.name:20} {', '.join(parts)}; {len(self.queues)} queues, {self.groups} groups"

    def families(self, now_ms: int) -> Iterator[Family]:
        """The metrics, under the names that all jobs use."""
        mine, states = (("query", self.name),), list(self.queues.values())

        def one(name: str, kind: Kind, says: str, value: float) -> Family:
            return Family(name, kind, says, ((mine, value),))

        yield one("active", "gauge", "1 while the job runs, 0 when it has ended or failed", float(self.is_active))
        yield one("heartbeat_timestamp_seconds", "gauge", "When the job was last seen alive", now_ms / 1000)
        yield one(
            "progress_timestamp_seconds",
            "gauge",
            "When its slowest queue last copied, or had nothing",
            self.progress_ms / 1000,
        )
        yield one("rows_total", "counter", "Messages read since the start", self.total("read"))
        yield one("written_rows_total", "counter", "Messages copied since the start", self.total("copied"))
        yield one("looped_total", "counter", "Messages left out: they have been to the target", self.total("looped"))
        yield one("missed_total", "counter", "Messages deleted before they were copied", self.total("missed"))
        yield one("retries_total", "counter", "Requests that were repeated", self.total("retries"))
        yield one("translated_groups", "gauge", "Groups whose offsets were translated", self.groups)
        labels = [(*mine, ("queue", str_of(state.queue))) for state in states]
        lags = tuple((label, float(state.lag)) for label, state in zip(labels, states, strict=True))
        yield Family("lag_messages", "gauge", "Messages of a queue stored and not copied", lags)
        ages = tuple((label, state.seconds(now_ms)) for label, state in zip(labels, states, strict=True))
        yield Family("lag_seconds", "gauge", "Age of the messages of a queue that wait", ages)


def str_of(queue: MessageQueue) -> str:
    """Return a queue as the other jobs name it."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"

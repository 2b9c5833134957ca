"""The counts of clients, kept by additions to plain attributes. Pure.

One `Counts` serves any number of producers and consumers of a process, also in several threads. No function here waits
or takes a lock: under the interpreter's lock an addition to an attribute, and the copy of a dictionary, are not
interrupted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from firearrow.telemetry.metrics import Histogram

OTHER: Final = "_other_"
"""The topic under which all topics beyond the limit are summed up, and their groups."""

SEND_MS: Final = (1.0, 5.0, 10.0, 20.0, 50.0, 200.0, 500.0)
AWAIT_MS: Final = (1.0, 5.0, 20.0, 100.0, 1000.0, 5000.0, 10_000.0)
PROCESS_MS: Final = (1.0, 5.0, 10.0, 100.0, 1000.0, 10_000.0, 60_000.0)
"""Bounds of RocketMQ 5's clients."""
AGE_S: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0, 3600.0)


class Sends:
    """Counts of the sends to one topic."""

    __slots__ = ("batches", "failed", "messages", "retries", "size_bytes", "succeeded")

    def __init__(self) -> None:
        self.succeeded: Final = Histogram(SEND_MS)
        self.failed: Final = Histogram(SEND_MS)
        self.messages: Final[defaultdict[str, int]] = defaultdict(int)
        """Messages by their result: the status of a stored one, else the name of the error."""
        self.size_bytes = 0
        self.batches = 0
        self.retries = 0


class Deliveries:
    """Counts of the deliveries of one topic to a group."""

    __slots__ = (
        "age", "awaited", "failed", "messages", "pauses", "pull_errors", "rebalances", "size_bytes", "succeeded",
    )  # fmt: skip

    def __init__(self) -> None:
        self.age: Final = Histogram(AGE_S)
        self.awaited: Final = Histogram(AWAIT_MS)
        self.succeeded: Final = Histogram(PROCESS_MS)
        self.failed: Final = Histogram(PROCESS_MS)
        self.messages = 0
        self.size_bytes = 0
        self.pull_errors = 0
        self.pauses = 0
        self.rebalances = 0


class HeldMessages(NamedTuple):
    """The queues and messages of one topic that a consumer holds now."""

    group: str
    topic: str
    queues: int
    full_queues: int
    messages: int
    size_bytes: int
    lag: int

    def beside(self, other: "HeldMessages") -> "HeldMessages":
        """Return the sums of both, under the names of the other."""
        return HeldMessages(other.group, other.topic, *map(sum, zip(self[2:], other[2:], strict=True)))


class Holder(Protocol):
    """An open consumer, as its metrics see it."""

    def held(self) -> Iterable[HeldMessages]:
        """Return what it holds, by topic."""
        ...


class Counts:
    """The counts of clients with the same `ClientMetrics`: at most ``max_topics`` topics, and groups with topics."""

    def __init__(self, max_topics: int) -> None:
        self._max_topics = max_topics
        self._sends: dict[str, Sends] = {}
        self._deliveries: dict[tuple[str, str], Deliveries] = {}
        self._holders: dict[Holder, None] = {}
        self.connections_opened = 0
        """Connections to brokers and name servers that were opened."""
        self.connections_lost = 0
        """Connections that ended while their client was open."""
        self.route_changes = 0
        """Times that a known route was another one when it was refreshed."""

    def sends(self, topic: str) -> Sends:
        """Return the counts of a topic."""
        found = self._sends.get(topic)
        if found is None:
            if len(self._sends) >= self._max_topics:
                topic = OTHER
            found = self._sends.setdefault(topic, Sends())
        return found

    def deliveries(self, group: str, topic: str) -> Deliveries:
        """Return the counts of a group and a topic."""
        place = group, topic
        found = self._deliveries.get(place)
        if found is None:
            if len(self._deliveries) >= self._max_topics:
                place = OTHER, OTHER
            found = self._deliveries.setdefault(place, Deliveries())
        return found

    def add(self, holder: Holder) -> None:
        """Ask this consumer what it holds, from now on."""
        self._holders[holder] = None

    def remove(self, holder: Holder) -> None:
        """Ask a consumer no more: it is closed."""
        self._holders.pop(holder, None)

    def by_topic(self) -> list[tuple[str, Sends]]:
        """Return what was sent to every topic."""
        return list(self._sends.items())

    def by_group(self) -> list[tuple[tuple[str, str], Deliveries]]:
        """Return what every group got of every topic."""
        return list(self._deliveries.items())

    def held(self) -> Iterator[HeldMessages]:
        """Yield what all consumers of a group hold of a topic together."""
        found: dict[tuple[str, str], HeldMessages] = {}
        for holder in list(self._holders):
            for held in holder.held():
                place = held.group, held.topic
                if place not in found and len(found) >= self._max_topics:
                    place = OTHER, OTHER
                found[place] = (
                    held.beside(found[place]) if place in found else held._replace(group=place[0], topic=place[1])
                )
        yield from found.values()

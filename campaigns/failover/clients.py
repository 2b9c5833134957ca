"""The clients of a group through its failovers: our producer, and producers and consumers of the stock clients.

All of them are on the clients' machine. Producers send one message at a time; every consumer is a group of its own and
gets every message. How long a producer got no acknowledgement is seen from outside, by asking how far it is.
"""

import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from types import TracebackType
from typing import Final, Self, TypeVar

from campaigns.broker.promises import audit
from campaigns.failover.group import Group
from campaigns.failover.network import CLIENTS
from judges.conversation import JudgeFailed
from judges.judge import Judge, JudgeProcess, Subscription, fresh
from judges.producers import Produced, Producing, produce
from judges.reports import ReceiveReport

OURS: Final = "firearrow"
ROUTE_MS: Final = 1_000
"""The route interval of the Java client here; its own default is 30 s, and the Go client's is fixed to that."""
PAUSE_MS: Final = 25
LOOK_S: Final = 0.04
STOCK_LOOK_S: Final = 0.1
SEND_MS: Final = 3_000
ARRIVAL_S: Final = 150.0
SILENCE_S: Final = 20.0
"""A reader that got nothing for so long has got everything."""
ATTEMPTS: Final = 5

Begun = TypeVar("Begun")


class Sender:
    """A producer, with the moments at which it was seen to have got acknowledgements."""

    def __init__(self, producing: Producing) -> None:
        self.name = producing.judge.client
        self._producing = producing
        self._seen: list[tuple[float, int]] = []
        self._look_s = LOOK_S if self.name == OURS else STOCK_LOOK_S
        self._next_s = 0.0

    @property
    def acknowledged(self) -> int:
        """Messages acknowledged until the last look."""
        return self._seen[-1][1] if self._seen else 0

    def look(self, now: float) -> None:
        """Ask how far it is, if it is time to."""
        if now < self._next_s:
            return
        count = self._producing.progress().acknowledged
        if count > self.acknowledged:
            self._seen.append((time.monotonic(), count))
        self._next_s = time.monotonic() + self._look_s

    def gap_s(self, begin: float, end: float) -> float | None:
        """The longest time without an acknowledgement that begins between two moments, or lasts at the first.

        None when it did not end: no acknowledgement came after the later moment.
        """
        moments = [moment for moment, _ in self._seen]
        if not moments or moments[-1] <= end:
            return None
        first = max(bisect_right(moments, begin) - 1, 0)
        kept = [max(moment, begin) for moment in moments[first : bisect_right(moments, end) + 1]]
        return max((later - earlier for earlier, later in pairwise(kept)), default=0.0)

    def halt(self) -> Produced:
        """End it."""
        return self._producing.halt()


class Clients:
    """Everybody who uses a topic of a group."""

    def __init__(self, group: Group, topic: str, stock: Sequence[str]) -> None:
        self._stack = ExitStack()
        self._topic = topic
        try:
            self._begin(group, topic, stock)
        except BaseException:
            self._stack.close()
            raise

    def _begin(self, group: Group, topic: str, stock: Sequence[str]) -> None:
        prefix = group.network.words(CLIENTS, [])
        program = [sys.executable, "-m", "campaigns.failover.our_producer"]
        processes = [JudgeProcess(OURS, program, prefix=prefix), *(JudgeProcess(name, prefix=prefix) for name in stock)]
        judges = [self._stack.enter_context(process).at(group.name_servers) for process in processes]
        self._reader = judges[1]
        self.consumers: dict[str, Subscription] = {
            judge.client: _patiently(lambda judge=judge: judge.subscribe(topic, group=fresh("failover")))  # type: ignore[misc]
            for judge in judges[1:]
        }
        self.senders = [_patiently(lambda judge=judge: _sender(judge, topic)) for judge in judges]  # type: ignore[misc]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all of them at once."""
        self._stack.close()

    @property
    def ours(self) -> Sender:
        """Our producer."""
        return self.senders[0]

    def counts(self) -> dict[str, int]:
        """Acknowledged messages by client."""
        return {sender.name: sender.acknowledged for sender in self.senders}

    def watch(self, until: Callable[[], bool], what: str, seconds: float) -> None:
        """Look at all producers until a condition holds."""
        deadline = time.monotonic() + seconds
        while not until():
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"{what} did not come within {seconds:g} s; acknowledged {self.counts()}")
            for sender in self.senders:
                sender.look(now)
            time.sleep(LOOK_S)

    def advance(self, count: int, seconds: float, *, wait_for: Sequence[str]) -> None:
        """Watch until so many more messages of some clients are acknowledged."""
        wanted = {name: number + count for name, number in self.counts().items() if name in wait_for}
        self.watch(
            lambda: all(self.counts()[name] >= number for name, number in wanted.items()),
            f"{count} more messages of {', '.join(wanted)}",
            seconds,
        )

    def finish(self) -> tuple[list[Produced], dict[str, ReceiveReport]]:
        """End the producers, wait until every consumer has everything, and return what they tell."""
        produced = [sender.halt() for sender in self.senders]
        deadline = time.monotonic() + ARRIVAL_S
        received: dict[str, ReceiveReport] = {}
        for name, consumer in self.consumers.items():
            received[name] = consumer.so_far()
            while audit(produced, [received[name]]).lost and time.monotonic() < deadline:
                time.sleep(0.2)
                received[name] = consumer.so_far()
        return produced, received

    def read_again(self) -> ReceiveReport:
        """Read the topic with a stock consumer that begins at the first message, until nothing more comes."""
        with _patiently(lambda: self._reader.subscribe(self._topic, group=fresh("failover"))) as subscription:
            report, quiet_s = subscription.so_far(), time.monotonic() + SILENCE_S
            while time.monotonic() < quiet_s:
                time.sleep(0.5)
                before, report = len(report.deliveries), subscription.so_far()
                if len(report.deliveries) > before:
                    quiet_s = time.monotonic() + SILENCE_S
            return report


def _sender(judge: Judge, topic: str) -> Sender:
    return Sender(produce(judge, topic, pause_ms=PAUSE_MS, timeout_ms=SEND_MS, route_ms=ROUTE_MS))


def _patiently(begin: Callable[[], Begun]) -> Begun:
    """Begin something of a client, again where its first calls take longer than it waits, on a crowded machine."""
    for _ in range(ATTEMPTS):
        with suppress(JudgeFailed):
            return begin()
    return begin()


def order_breaks(produced: Produced) -> list[str]:
    """Acknowledged messages of a producer that lie before one of the same queue that it sent earlier."""
    last: dict[tuple[str, int], tuple[int, int]] = {}
    complaints = []
    for number, place in produced.acks:
        queue = (place.broker, place.queue)
        before, offset = last.get(queue, (-1, -1))
        if place.offset <= offset:
            complaints.append(f"message {number} at {place}, after message {before} at offset {offset}")
        last[queue] = (number, place.offset)
    return complaints

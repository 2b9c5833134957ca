"""Producers and consumers of stock clients that run while something happens to the servers.

    with Load([java, go], "orders", producers=8, consumers=8) as load:
        load.advance()
        broker.restart()
        load.advance()
        findings = load.finish()

Producers and consumers are dealt out to the clients in turn; the consumers are one group.
"""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from campaigns.broker.promises import Findings, audit
from judges.judge import Judge, Start, Subscription, fresh
from judges.producers import (
    CLIENT_RETRIES,
    CLIENT_ROUTE_MS,
    PAUSE_MS,
    Produced,
    Producing,
    produce,
)
from judges.reports import ReceiveReport

TIMEOUT_MS = 10_000
"""Of a send, with its retries: longer than the clients' own 3 s, for machines with other things to do."""
POLL_SECONDS = 0.1
ADVANCE = 200
ADVANCE_SECONDS = 90.0
ARRIVAL_SECONDS = 120.0
IMPATIENT_SECONDS = 10.0
REREAD_SECONDS = 60.0


class Load:
    """The work of the clients during an act."""

    def __init__(
        self,
        judges: Sequence[Judge],
        topic: str,
        *,
        producers: int = 8,
        consumers: int = 8,
        ordered: bool = False,
        shards: int = 0,
        size: int = 0,
        pause_ms: int = PAUSE_MS,
        timeout_ms: int = TIMEOUT_MS,
        route_ms: int = CLIENT_ROUTE_MS,
        retries: int = CLIENT_RETRIES,
        start: Start = "first",
    ) -> None:
        self._judges = judges
        self._topic = topic
        self.group = fresh("load")
        self._consuming: list[Subscription] = [
            judge.subscribe(topic, group=self.group, ordered=ordered, start=start)
            for judge in _dealt(judges, consumers)
        ]
        self._producing: list[Producing] = [
            produce(
                judge,
                topic,
                shards=shards,
                size=size,
                pause_ms=pause_ms,
                timeout_ms=timeout_ms,
                route_ms=route_ms,
                retries=retries,
            )
            for judge in _dealt(judges, producers)
        ]
        self.produced: list[Produced] = []
        self.received: list[ReceiveReport] = []

    @property
    def acknowledged(self) -> int:
        """Messages acknowledged until now."""
        running = sum(one.progress().acknowledged for one in self._producing)
        return running + sum(len(one.acks) for one in self.produced)

    @property
    def failed(self) -> int:
        """Sends that failed until now, the clients' own retries included."""
        running = sum(one.progress().failed for one in self._producing)
        return running + sum(len(one.failed) for one in self.produced)

    @property
    def delivered(self) -> int:
        """Deliveries until now."""
        return sum(one.count().deliveries for one in self._consuming)

    def so_far(self) -> list[ReceiveReport]:
        """The messages that every consumer has been given until now."""
        return [one.so_far() for one in self._consuming]

    def advance(self, count: int = ADVANCE, *, consuming: bool = True) -> None:
        """Wait until so many more messages are acknowledged, and as many delivered."""
        sent, given = self.acknowledged + count, self.delivered + count
        deadline = time.monotonic() + ADVANCE_SECONDS
        while self.acknowledged < sent or (consuming and self.delivered < given):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.acknowledged} of {sent} acknowledged, {self.delivered} of {given} delivered "
                    f"after {ADVANCE_SECONDS} s; {self.failed} sends failed"
                )
            time.sleep(POLL_SECONDS)

    def run_for(self, seconds: float) -> None:
        """Let them go on for a while."""
        time.sleep(seconds)

    def halt(self) -> None:
        """End the producers."""
        self.produced += [one.halt() for one in self._producing]
        self._producing.clear()

    def finish(self, *, first: int = 0, patient: bool = True) -> Findings:
        """End the producers, wait for everything to arrive (if patient, until it does), and compare."""
        self.halt()
        deadline = time.monotonic() + (ARRIVAL_SECONDS if patient else IMPATIENT_SECONDS)
        while True:
            if self.delivered >= self.acknowledged or time.monotonic() > deadline:
                self.received = self.so_far()
                findings = audit(self.produced, self.received, first=first)
                if not (findings.lost or findings.skipped) or time.monotonic() > deadline:
                    return findings
            time.sleep(POLL_SECONDS)

    def read_again(self, *, first: int = 0) -> Findings:
        """After the end: let a new group read all that is there, and compare it with what was given before."""
        count = len({(m.broker, m.queue, m.offset) for one in self.received for m in one.messages})
        again = self._judges[0].receive(self._topic, count, timeout_seconds=REREAD_SECONDS, settle_ms=500)
        return audit(self.produced, [*self.received, again], first=first)

    def close(self) -> None:
        """End all clients."""
        self.halt()
        for one in self._consuming:
            one.close()
        self._consuming.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


def _dealt(judges: Sequence[Judge], count: int) -> list[Judge]:
    return [judges[number % len(judges)] for number in range(count)]

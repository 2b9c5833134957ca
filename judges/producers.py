"""Producers of a stock client that send by themselves until they are halted, and tell where each message went.

    one = produce(judge, "orders")
    ...                                   # kill something
    produced = one.halt()                 # every acknowledgement with its place, and what failed

Each sends one message at a time, so what it sent to one queue lies there in the order of its numbers. The Java and
the Go client can.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from judges.judge import MARGIN_SECONDS, PATIENCE_SECONDS, Judge, fresh
from judges.payload import Payload

CLIENT_TIMEOUT_MS = 3_000
CLIENT_ROUTE_MS = 30_000
CLIENT_RETRIES = 2
PAUSE_MS = 4


class Place(NamedTuple):
    """The place of a message."""

    broker: str
    queue: int
    offset: int


class Progress(msgspec.Struct, frozen=True):
    """The progress of a producer."""

    acknowledged: int
    failed: int


@dataclass(frozen=True)
class Produced:
    """Everything that one producer did."""

    payload: Payload
    acks: tuple[tuple[int, Place], ...]
    """Number and place of every acknowledged message, in the order of their numbers."""
    failed: tuple[int, ...]
    errors: tuple[str, ...]
    """The first few reasons."""

    @cached_property
    def by_digest(self) -> dict[str, int]:
        """Number of a message, acknowledged or not, by the digest of its body."""
        numbers = [*(number for number, _ in self.acks), *self.failed]
        return {self.payload.digest(number): number for number in numbers}

    @property
    def brokers(self) -> set[str]:
        """The brokers that took its messages."""
        return {place.broker for _, place in self.acks}


class _Handle(msgspec.Struct):
    handle: int


class _Halted(msgspec.Struct):
    acks: list[tuple[int, str, int, int]]
    failed: list[int]
    errors: list[str]


class Producing:
    """A producer that runs."""

    def __init__(self, judge: Judge, handle: int, payload: Payload) -> None:
        self.judge = judge
        self._handle = handle
        self._payload = payload

    def progress(self) -> Progress:
        """The progress of this producer."""
        return self.judge.ask({"verb": "progress", "handle": self._handle}, Progress, PATIENCE_SECONDS)

    def halt(self) -> Produced:
        """End it; what it is sending at this moment is waited for."""
        request = {"verb": "halt", "handle": self._handle}
        halted = self.judge.ask(request, _Halted, PATIENCE_SECONDS + MARGIN_SECONDS)
        acks = tuple((number, Place(broker, queue, offset)) for number, broker, queue, offset in halted.acks)
        return Produced(self._payload, acks, tuple(halted.failed), tuple(halted.errors))


def produce(
    judge: Judge,
    topic: str,
    *,
    size: int = 0,
    shards: int = 0,
    pause_ms: int = PAUSE_MS,
    timeout_ms: int = CLIENT_TIMEOUT_MS,
    route_ms: int = CLIENT_ROUTE_MS,
    retries: int = CLIENT_RETRIES,
) -> Producing:
    """Start a producer. With shards, message n goes to the queue of n modulo shards and is tried at no other."""
    payload = Payload(fresh(judge.client), size)
    request = {
        "verb": "produce", "name_server": judge.name_server, "topic": topic, "group": f"P-{topic}", "size": size,
        "prefix": payload.prefix, "shards": shards, "pause_ms": pause_ms, "timeout_ms": timeout_ms,
        "route_ms": route_ms, "retries": retries, "tags": [], "properties": {},
    }  # fmt: skip
    return Producing(judge, judge.ask(request, _Handle, PATIENCE_SECONDS).handle, payload)

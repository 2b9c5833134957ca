"""The promises of a store: one line a message, printed after the store said that it reached its level.

::

    number physical size topic queueId queueOffset storeMs level ticks crc32 flushed

``ticks`` is the machine's monotonic clock in nanoseconds when the promise was heard; ``crc32`` is that of the body;
``flushed`` is what the store called durable at that moment, which is a promise of its own.
Whatever arrived in a pipe before its writer died counts: the promise was out.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Ack(NamedTuple):
    """One promise."""

    number: int
    physical: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    store_ms: int
    level: str
    ticks: int
    crc: int
    flushed: int

    def line(self) -> str:
        """The promise as text."""
        return " ".join(map(str, self)) + "\n"


def parse_ack(line: str) -> Ack:
    """The promise that a line stands for."""
    number, physical, size, topic, queue_id, queue_offset, store_ms, level, ticks, crc, flushed = line.split(" ")
    return Ack(
        int(number),
        int(physical),
        int(size),
        topic,
        int(queue_id),
        int(queue_offset),
        int(store_ms),
        level,
        int(ticks),
        int(crc),
        int(flushed),
    )


def parse_refused(text: bytes) -> list[int]:
    """The numbers of the messages that the store refused: they may not be found in it."""
    lines = [line for line in text.decode().split("\n")[:-1] if line.startswith("# refused ")]
    return [int(number) for line in lines for number in line.split(" ")[2:]]


def parse_acks(text: bytes) -> list[Ack]:
    """The promises in what was read from a pipe; a last line without an end was not out yet."""
    lines: Iterable[str] = text.decode().split("\n")[:-1]
    return [parse_ack(line) for line in lines if line and not line.startswith("#")]

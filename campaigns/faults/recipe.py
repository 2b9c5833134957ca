"""Messages made from a seed and a number, so that a message found on a disk can be checked. Pure.

A body begins with its number in ten digits. Sizes vary from nothing more to a few kilobytes, a few are larger; topics,
queues, keys and tags vary; some neighbours travel as a batch.
"""

import random
from typing import Final, NamedTuple

from firearrow.model import EpochMs, Host
from firearrow.record.encode import Draft
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import encode_properties

TOPICS: Final = ("orders", "payments", "audit")
QUEUES: Final = 2
TAGS: Final = ("", "created", "paid", "gone")
BATCH_MAX: Final = 5
HOST: Final = host_bytes(Host("127.0.0.1", 10911))
_NUMBER_DIGITS: Final = 10
_SIZES: Final = (0, 10, 100, 300, 1000, 2500)


class Sent(NamedTuple):
    """One message before it has a place."""

    number: int
    topic: str
    queue_id: int
    key: str
    tag: str
    body: bytes

    @property
    def unique_key(self) -> str:
        """The unique key that a client would have given the message."""
        return unique_key(self.number)

    def draft(self) -> Draft:
        """The message as the store takes it."""
        properties = {"KEYS": self.key, "UNIQ_KEY": self.unique_key} | ({"TAGS": self.tag} if self.tag else {})
        stored = encode_properties(properties)
        return Draft(self.topic, self.queue_id, self.body, stored, EpochMs(1_700_000_000_000), HOST, HOST)


class Recipe:
    """All messages of one seed."""

    def __init__(self, seed: int, *, largest: int = _SIZES[-1]) -> None:
        self.seed = seed
        self._sizes = [size for size in _SIZES if size <= largest]

    def message(self, number: int) -> Sent:
        """The message of that number."""
        luck = random.Random(self.seed << 40 | number)
        body = f"{number:0{_NUMBER_DIGITS}d}".encode() + luck.randbytes(luck.choice(self._sizes))
        leader = self.step_of(number)[0]
        place = random.Random(self.seed << 40 | 1 << 39 | leader)
        topic, queue_id = place.choice(TOPICS), place.randrange(QUEUES)
        return Sent(number, topic, queue_id, f"key-{number % 97}", luck.choice(TAGS), body)

    def step_of(self, number: int) -> range:
        """The numbers that are appended together with this one: one, or a batch that starts at a multiple of ten."""
        decade = number - number % 10
        batch = random.Random(self.seed << 40 | 1 << 38 | decade).randrange(BATCH_MAX + 1)
        if batch > 1 and number < decade + batch:
            return range(decade, decade + batch)
        return range(number, number + 1)


def unique_key(number: int) -> str:
    """Return the unique key that a client would have given the message of that number."""
    return f"7F000001{number:024X}"


def number_of(body: bytes) -> int:
    """The number that a body begins with; -1 when it does not begin with one."""
    digits = body[:_NUMBER_DIGITS]
    return int(digits) if len(digits) == _NUMBER_DIGITS and digits.isdigit() else -1

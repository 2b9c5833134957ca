"""Messages made from their number, so that a message found in a store can be checked. Pure.

A body begins with its number in ten digits. Messages travel in steps: a batch for one queue, or one alone. Of the ones
alone some are delayed, some are large (compressible ones travel compressed), some name no key. Every message has a
UNIQ_KEY that follows from its number, so that it can be found by key; a third has keys of its own as well.
"""

import random
from functools import lru_cache
from typing import Final, NamedTuple

from firearrow.model import keys
from firearrow.record.compression import Codec, compress, with_codec

TOPICS: Final = 50
QUEUES: Final = 4
BATCH: Final = 32
TAGS: Final = ("", "created", "paid", "gone")
DIGITS: Final = 10
LARGE_BYTES: Final = 1 << 20
SOON: Final = (1, 2)
"""Delay levels that come due while a test waits."""
NEVER: Final = 18
"""The delay level that does not."""
DELAY_LEVELS: Final = "1s 2s" + " 1s" * 15 + " 2h"
"""Delay levels of both brokers: level 18 never comes due."""

_SPECIAL: Final = 50
_LARGE_EVERY: Final = 40
_SIZES: Final = (10, 40, 120, 300, 900)
_NOISE: Final = random.Random(7).randbytes(1 << 16)


class Planned(NamedTuple):
    """A message before it has a place."""

    number: int
    topic: str
    queue_id: int
    body: bytes
    """As stored: compressed if ``sys_flag`` says so."""
    properties: dict[str, str]
    sys_flag: int = 0

    @property
    def unique_key(self) -> str:
        """The unique key that a client would have given the message."""
        return self.properties[keys.UNIQ_KEY]

    @property
    def delay_level(self) -> int:
        """The delay level of the message; 0 for none."""
        return int(self.properties.get(keys.DELAY, "0"))

    @property
    def is_delivered(self) -> bool:
        """Whether it gets to its own topic before a test ends."""
        return self.delay_level != NEVER


class Step(NamedTuple):
    """Messages that are sent together."""

    messages: list[Planned]

    @property
    def is_batch(self) -> bool:
        """Whether they are one batch."""
        return len(self.messages) > 1


def topic_name(number: int) -> str:
    """The name of a topic."""
    return f"shared-{number:02d}"


def topic_names() -> list[str]:
    """All topics of a plan."""
    return [topic_name(number) for number in range(TOPICS)]


def unique_key(number: int) -> str:
    """The UNIQ_KEY of a message."""
    return f"7F000001{number:024X}"


def number_of(properties: dict[str, str]) -> int:
    """The number of the message that has these properties; -1 when it is none of a plan."""
    unique = properties.get(keys.UNIQ_KEY, "")
    return int(unique[8:], 16) if unique.startswith("7F000001") and len(unique) == 32 else -1


def steps(first: int, count: int) -> list[range]:
    """The numbers from ``first`` on, cut into steps; ``first`` must be a multiple of the batch size."""
    cut: list[range] = []
    for start in range(first, first + count, BATCH):
        block = range(start, min(start + BATCH, first + count))
        if start // BATCH % _SPECIAL == _SPECIAL - 1:
            cut += [range(number, number + 1) for number in block]
        else:
            cut.append(block)
    return cut


def step(numbers: range) -> Step:
    """The messages of a step."""
    if len(numbers) == 1:
        return Step([message(numbers.start)])
    queue = numbers.start // BATCH
    place = (topic_name(queue % TOPICS), queue // TOPICS % QUEUES)
    return Step([_plain(number, *place) for number in numbers])


@lru_cache(4 * BATCH)
def message(number: int) -> Planned:
    """The message of a number."""
    block, index = divmod(number, BATCH)
    if block % _SPECIAL != _SPECIAL - 1:
        return _plain(number, topic_name(block % TOPICS), block // TOPICS % QUEUES)
    # The last topic has no batches, and so is small; half of what it gets is delayed.
    return _special(number, index, topic_name(TOPICS - 1 if index % 8 in (3, 4) else index), number % QUEUES)


def _plain(number: int, topic: str, queue_id: int) -> Planned:
    size = _SIZES[number % 5] + number % 7
    at = number * 31 % (len(_NOISE) - size)
    return Planned(number, topic, queue_id, b"%010d" % number + _NOISE[at : at + size], _properties(number))


def _special(number: int, index: int, topic: str, queue_id: int) -> Planned:
    plain = _plain(number, topic, queue_id)
    if index % 4 == 0:
        level = NEVER if index % 16 == 0 else SOON[index // 4 % len(SOON)]
        return plain._replace(properties=plain.properties | {keys.DELAY: str(level)})
    if index % 16 == 1:
        text = b"%010d" % number * (LARGE_BYTES // DIGITS)
        codec = (Codec.ZLIB, Codec.LZ4, Codec.ZSTD)[number // BATCH // _SPECIAL % 3]
        return plain._replace(body=compress(text, codec), sys_flag=with_codec(0, codec))
    if index == 2 and number // BATCH // _SPECIAL % _LARGE_EVERY == 0:
        return plain._replace(body=b"%010d" % number + _NOISE * (LARGE_BYTES // len(_NOISE)))
    return plain


def _properties(number: int) -> dict[str, str]:
    found = {keys.UNIQ_KEY: unique_key(number), "n": str(number)}
    if tag := TAGS[number % len(TAGS)]:
        found[keys.TAGS] = tag
    if number % 3 == 0:
        found[keys.KEYS] = f"order-{number} many-{number // 1000}"
    return found

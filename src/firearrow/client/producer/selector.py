"""The choice of a message's queue: round robin, hash of a sharding key, brokers to avoid. Pure.

Messages without an order are sent round-robin to all queues of all brokers, and after a failure to another broker. With
a sharding key, the queue follows from Java's hash of the key, so that Java's producers choose the same queue. A custom
selector is a function.

Java: ``TopicPublishInfo.selectOneMessageQueue``, ``SelectMessageQueueByHash``, ``MQFaultStrategy``,
``LatencyFaultToleranceImpl``.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Final

from firearrow.errors import SettingsError
from firearrow.model import Message, MessageQueue
from firearrow.model.java_hash import java_hash

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of the queues that a topic has now."""

INT32_MIN: Final = -(2**31)

_SLOWNESS_MS: Final = ((0, 0), (50, 0), (100, 0), (550, 2_000), (1_800, 5_000), (3_000, 6_000), (5_000, 10_000))
_SLOWEST_MS: Final = (15_000, 30_000)
SLOWNESS_MS: Final = (*_SLOWNESS_MS, _SLOWEST_MS)
"""(latency, penalty): a broker with at least this latency is avoided for this long."""
FAILURE_COUNTS_AS_MS: Final = 10_000
"""A failed broker is treated like a broker with this latency."""


def checked_queue(queue: object, topic: str) -> MessageQueue:
    """Raise ``SettingsError`` if ``queue`` is not a queue of that topic."""
    if not isinstance(queue, MessageQueue):
        raise SettingsError(
            f"queue={queue!r} is not a queue; give a MessageQueue: producer.queues({topic!r}) lists them"
        )
    if queue.topic != topic:
        raise SettingsError(
            f"{queue} is of another topic than the message, {topic!r}; producer.queues({topic!r}) lists its queues"
        )
    return queue


def selected(selector: Selector, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Return the queue that a user's selector chooses; raise ``SettingsError`` if it is not one of the topic's."""
    chosen: object = selector(queues, message)
    if isinstance(chosen, MessageQueue) and chosen.topic == message.topic:
        return chosen
    if inspect.iscoroutine(chosen):
        chosen.close()
        raise SettingsError("the selector is a coroutine function; let it be a plain one that returns a queue")
    raise SettingsError(f"the selector returned {chosen!r}; let it return one of the queues that it is given")


def queue_of_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the queue of a sharding key."""
    return queues[number_of_key(key, len(queues))]


def number_of_key(key: str, count: int) -> int:
    """Return the queue index of a sharding key: the absolute value of Java's hash modulo the number of queues."""
    hashed = java_hash(key)
    return 0 if hashed == INT32_MIN else abs(hashed) % count


class RoundRobin:
    """Round-robin over the queues of one topic."""

    def __init__(self, start: int) -> None:
        self._next = start

    def choose(
        self,
        queues: Sequence[MessageQueue],
        tried: Collection[str] = (),
        is_available: Callable[[str], bool] | None = None,
    ) -> MessageQueue:
        """Return the next queue, if possible on an available broker that has not just failed."""
        wishes: list[Callable[[MessageQueue], bool]] = []
        if is_available is not None:
            wishes.append(lambda queue: queue.broker_name not in tried and is_available(queue.broker_name))
        if tried:
            wishes.append(lambda queue: queue.broker_name not in tried)
        for wish in wishes:
            for _ in range(len(queues)):
                queue = self._step(queues)
                if wish(queue):
                    return queue
        return self._step(queues)

    def _step(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        queue = queues[self._next % len(queues)]
        self._next += 1
        return queue


class Faults:
    """The brokers to avoid, and the time at which each may be used again, in seconds of any steady clock."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, broker: str, latency_ms: float, now: float, *, failed: bool = False) -> None:
        """Note the latency of a broker, or its failure."""
        self._until[broker] = now + avoid_for_ms(FAILURE_COUNTS_AS_MS if failed else latency_ms) / 1000

    def is_available(self, broker: str, now: float) -> bool:
        """Whether a broker need not be avoided."""
        return self._until.get(broker, now) <= now


def avoid_for_ms(latency_ms: float) -> int:
    """Return how long a broker with this latency is avoided."""
    for (_, avoid), (slower, _) in pairwise(SLOWNESS_MS):
        if latency_ms < slower:
            return avoid
    return SLOWNESS_MS[-1][1]

"""Which queue a message goes to. Pure.

Without an order to keep, messages go round all queues of all brokers in turn, and after a failure to a broker other
than the one that failed. With one, the queue follows from the message: equal sharding keys make equal queues, by Java's
hash, so that Java's producers choose the same. A selector of one's own is a function.

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
"""From this latency on, a broker is avoided for this long."""
FAILURE_COUNTS_AS_MS: Final = 10_000
"""A broker that failed is treated as one that took this long."""


def checked_queue(queue: object, topic: str) -> MessageQueue:
    """Raise ``SettingsError`` for what is no queue of that topic."""
    if not isinstance(queue, MessageQueue):
        raise SettingsError(f"queue={queue!r} is no queue; give a MessageQueue: producer.queues({topic!r}) tells them")
    if queue.topic != topic:
        raise SettingsError(
            f"{queue} is of another topic than the message, {topic!r}; producer.queues({topic!r}) tells its queues"
        )
    return queue


def selected(selector: Selector, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """The queue that a user's selector chooses; raise ``SettingsError`` when that is none of the message's topic."""
    chosen: object = selector(queues, message)
    if isinstance(chosen, MessageQueue) and chosen.topic == message.topic:
        return chosen
    if inspect.iscoroutine(chosen):
        chosen.close()
        raise SettingsError("the selector is a coroutine function; let it be a plain one that returns a queue")
    raise SettingsError(f"the selector returned {chosen!r}; let it return one of the queues that it is given")


def queue_of_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of a sharding key."""
    return queues[number_of_key(key, len(queues))]


def number_of_key(key: str, count: int) -> int:
    """Which of so many queues a sharding key has: the absolute value of Java's hash, modulo their number."""
    hashed = java_hash(key)
    return 0 if hashed == INT32_MIN else abs(hashed) % count


class RoundRobin:
    """Goes round the queues of one topic."""

    def __init__(self, start: int) -> None:
        self._next = start

    def choose(
        self,
        queues: Sequence[MessageQueue],
        tried: Collection[str] = (),
        is_available: Callable[[str], bool] | None = None,
    ) -> MessageQueue:
        """The next queue, if possible on a broker that is available and is not among those that just failed."""
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
    """Which brokers to avoid, and until when. Times are seconds of any steady clock."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, broker: str, latency_ms: float, now: float, *, failed: bool = False) -> None:
        """A broker answered after so long, or failed."""
        self._until[broker] = now + avoid_for_ms(FAILURE_COUNTS_AS_MS if failed else latency_ms) / 1000

    def is_available(self, broker: str, now: float) -> bool:
        """Whether a broker need not be avoided."""
        return self._until.get(broker, now) <= now


def avoid_for_ms(latency_ms: float) -> int:
    """For how long a broker is avoided that took so long."""
    for (_, avoid), (slower, _) in pairwise(SLOWNESS_MS):
        if latency_ms < slower:
            return avoid
    return SLOWNESS_MS[-1][1]

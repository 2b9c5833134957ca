"""Counts and times the deliveries of one member, for its `ClientMetrics`.

A message remembers when it arrived and, after that, since when a handler has it, in ticks of the clock.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from firearrow.client.consumer.broker_queries import PulledBytes
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.metrics.client_metrics import ClientMetrics
from firearrow.client.metrics.counts import Counts, Deliveries
from firearrow.model import StoredMessage
from firearrow.runtime.clock import Clock

NS_PER_MS: Final = 1_000_000


class DeliveryMeter:
    """The meter of one member of a group."""

    def __init__(self, metrics: ClientMetrics, group: str, clock: Clock) -> None:
        self.counts: Final[Counts] = metrics.counts
        self._group = group
        self._ticks: Callable[[], int] = clock.ticks
        self._now_ms: Callable[[], int] = clock.now_ms

    def of(self, topic: str) -> Deliveries:
        """Return the counts of a topic."""
        return self.counts.deliveries(self._group, topic)

    def pulled(self, topic: str, pulled: PulledBytes, messages: Sequence[StoredMessage]) -> None:
        """Count the messages of a pull."""
        if not messages:
            return
        counts, now_ms = self.of(topic), self._now_ms()
        counts.messages += len(messages)
        counts.size_bytes += len(pulled.body)
        for message in messages:
            counts.age.observe(max(0, now_ms - message.store_timestamp) / 1000)

    def arrived(self, messages: Sequence[ReceivedMessage[Any]]) -> None:
        """Note that messages wait for a handler from now on."""
        now = self._ticks()
        for message in messages:
            message._since_ns = now

    def handed(self, messages: Sequence[ReceivedMessage[Any]]) -> None:
        """Note that a handler has messages of one queue from now on."""
        now, awaited = self._ticks(), self.of(messages[0].queue.topic).awaited
        for message in messages:
            awaited.observe((now - message._since_ns) / NS_PER_MS)
            message._since_ns = now

    def settled(self, message: ReceivedMessage[Any], *, is_success: bool) -> None:
        """Count a message that a handler has ended with."""
        counts = self.of(message.queue.topic)
        histogram = counts.succeeded if is_success else counts.failed
        histogram.observe((self._ticks() - message._since_ns) / NS_PER_MS)

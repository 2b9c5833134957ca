"""Counts and times the sends of one producer, for its `ClientMetrics`. Pure: ticks of the clock are arguments."""

from bisect import bisect_left
from typing import Final

from firearrow.client.metrics.counts import SEND_MS, Counts, Sends
from firearrow.client.producer.outgoing import OutgoingBatch, OutgoingMessage
from firearrow.client.producer.result import STATUS_BY_CODE
from firearrow.errors import FireArrowError

NS_PER_MS: Final = 1_000_000
ONEWAY: Final = "ONEWAY"
"""The result of a message that was sent without an answer."""

_STATUS: Final = {code: str(status.value) for code, status in STATUS_BY_CODE.items()}


class SendMeter:
    """The meter of one producer."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._topics: dict[str, Sends] = {}

    def _of(self, topic: str) -> Sends:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = self._counts.sends(topic)
        return found

    def stored(self, outgoing: OutgoingMessage | OutgoingBatch, code: int, took_ns: int) -> None:
        """Count a send that a broker acknowledged."""
        sends = self._topics.get(outgoing.topic) or self._of(outgoing.topic)
        histogram, took_ms = sends.succeeded, took_ns / NS_PER_MS
        histogram.counts[bisect_left(SEND_MS, took_ms)] += 1  # as `observe` does, without a call for every send
        histogram.total += took_ms
        sends.size_bytes += len(outgoing.body)
        if isinstance(outgoing, OutgoingMessage):
            sends.messages[_STATUS[code]] += 1
        else:
            sends.messages[_STATUS[code]] += _messages(outgoing)
            sends.batches += 1

    def failed(self, outgoing: OutgoingMessage | OutgoingBatch, error: FireArrowError, took_ns: int) -> None:
        """Count a send that was given up; ``error`` is that of the last attempt."""
        sends = self._of(outgoing.topic)
        sends.failed.observe(took_ns / NS_PER_MS)
        sends.messages[type(error).__name__] += _messages(outgoing)

    def retried(self, topic: str) -> None:
        """Count an attempt after the first."""
        self._of(topic).retries += 1

    def told(self, outgoing: OutgoingMessage) -> None:
        """Count a message that was sent without an answer."""
        sends = self._of(outgoing.topic)
        sends.messages[ONEWAY] += 1
        sends.size_bytes += len(outgoing.body)


def _messages(outgoing: OutgoingMessage | OutgoingBatch) -> int:
    """Return how many messages a send has; a batch that its caller encoded does not tell and counts as one."""
    return 1 if isinstance(outgoing, OutgoingMessage) else len(outgoing.unique_keys) or 1

"""The metrics that are made of the counts of clients.

Names, labels and units are those of RocketMQ 5's clients where they have the metric (``HistogramEnum`` and
``GaugeEnum`` of rocketmq-clients), except for ``client_id``, which is new at every start. All others begin with
``firearrow_client_``.
"""

from collections.abc import Callable, Iterator
from typing import Final

from firearrow.client.metrics.counts import Counts, Deliveries, HeldMessages, Sends
from firearrow.telemetry.metrics import Family, Histogram, Kind, Labels, Sample

LABELS: Final = frozenset({"topic", "consumer_group", "invocation_status", "result", "le"})
"""The labels of these metrics."""


def families(counts: Counts, shared: Labels) -> Iterator[Family]:
    """Yield all metrics, with the shared labels on every sample; samples are computed while they are iterated over."""
    for name, kind, says, samples in _TABLE:
        yield Family(name, kind, says, _labelled(shared, samples(counts)))


def _labelled(shared: Labels, samples: Iterator[Sample]) -> Iterator[Sample]:
    for labels, value in samples:
        yield (*shared, *labels), value


def _by_topic(counts: Counts) -> Iterator[tuple[Labels, Sends]]:
    for topic, sends in counts.by_topic():
        yield (("topic", topic),), sends


def _by_group(counts: Counts) -> Iterator[tuple[Labels, Deliveries]]:
    for (group, topic), deliveries in counts.by_group():
        yield _place(group, topic), deliveries


def _held(counts: Counts) -> Iterator[tuple[Labels, HeldMessages]]:
    for held in counts.held():
        yield _place(held.group, held.topic), held


def _place(group: str, topic: str) -> Labels:
    return ("topic", topic), ("consumer_group", group)


_Samples = Callable[[Counts], Iterator[Sample]]


def _of_sends(read: Callable[[Sends], float]) -> _Samples:
    return lambda counts: ((labels, read(sends)) for labels, sends in _by_topic(counts))


def _of_deliveries(read: Callable[[Deliveries], float | Histogram]) -> _Samples:
    return lambda counts: ((labels, read(deliveries)) for labels, deliveries in _by_group(counts))


def _of_held(read: Callable[[HeldMessages], float]) -> _Samples:
    return lambda counts: ((labels, read(held)) for labels, held in _held(counts))


def _of_all(read: Callable[[Counts], float]) -> _Samples:
    return lambda counts: iter([((), read(counts))])


def _send_times(counts: Counts) -> Iterator[Sample]:
    for labels, sends in _by_topic(counts):
        yield (*labels, ("invocation_status", "success")), sends.succeeded
        yield (*labels, ("invocation_status", "failure")), sends.failed


def _process_times(counts: Counts) -> Iterator[Sample]:
    for labels, deliveries in _by_group(counts):
        yield (*labels, ("invocation_status", "success")), deliveries.succeeded
        yield (*labels, ("invocation_status", "failure")), deliveries.failed


def _results(counts: Counts) -> Iterator[Sample]:
    for labels, sends in _by_topic(counts):
        for result, messages in list(sends.messages.items()):
            yield (*labels, ("result", result)), messages


_TABLE: Final[tuple[tuple[str, Kind, str, _Samples], ...]] = (
    ("rocketmq_send_cost_time", "histogram", "Milliseconds of a send, retries included", _send_times),
    (
        "rocketmq_await_time", "histogram", "Milliseconds that a message waited here for a handler",
        _of_deliveries(lambda of: of.awaited),
    ),
    ("rocketmq_process_time", "histogram", "Milliseconds that a handler had a message", _process_times),
    (
        "rocketmq_consumer_cached_messages", "gauge", "Messages that were pulled and are not finished",
        _of_held(lambda of: of.messages),
    ),
    (
        "rocketmq_consumer_cached_bytes", "gauge", "Their bytes",
        _of_held(lambda of: of.size_bytes),
    ),
    ("firearrow_client_messages_sent_total", "counter", "Messages sent, by result", _results),
    (
        "firearrow_client_sent_bytes_total", "counter", "Bytes of bodies that were stored, as they were sent",
        _of_sends(lambda of: of.size_bytes),
    ),
    (
        "firearrow_client_batches_sent_total", "counter", "Stored sends of more than one message",
        _of_sends(lambda of: of.batches),
    ),
    (
        "firearrow_client_send_retries_total", "counter", "Attempts of sends after the first",
        _of_sends(lambda of: of.retries),
    ),
    (
        "firearrow_client_messages_pulled_total", "counter", "Messages pulled",
        _of_deliveries(lambda of: of.messages),
    ),
    (
        "firearrow_client_pulled_bytes_total", "counter", "Bytes of their records",
        _of_deliveries(lambda of: of.size_bytes),
    ),
    (
        "firearrow_client_message_age_seconds", "histogram", "From the storing of a message to its arrival here",
        _of_deliveries(lambda of: of.age),
    ),
    (
        "firearrow_client_pull_errors_total", "counter", "Pulls that failed",
        _of_deliveries(lambda of: of.pull_errors),
    ),
    (
        "firearrow_client_pull_pauses_total", "counter", "Times that a queue was full, and pulling waited for handlers",
        _of_deliveries(lambda of: of.pauses),
    ),
    (
        "firearrow_client_rebalances_total", "counter", "Times that queues came or went",
        _of_deliveries(lambda of: of.rebalances),
    ),
    ("firearrow_client_queues", "gauge", "Queues that consumers own now", _of_held(lambda of: of.queues)),
    ("firearrow_client_full_queues", "gauge", "Those that are full now", _of_held(lambda of: of.full_queues)),
    (
        "firearrow_client_lag_messages", "gauge", "Messages of these queues that are not finished, by the last pull",
        _of_held(lambda of: of.lag),
    ),
    (
        "firearrow_client_connections_opened_total", "counter", "Connections opened",
        _of_all(lambda of: of.connections_opened),
    ),
    (
        "firearrow_client_connections_lost_total", "counter", "Connections that ended while their client was open",
        _of_all(lambda of: of.connections_lost),
    ),
    (
        "firearrow_client_route_changes_total", "counter", "Changes of known routes",
        _of_all(lambda of: of.route_changes),
    ),
)  # fmt: skip

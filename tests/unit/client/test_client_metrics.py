"""Counts of clients: their limits, their labels, several threads, and what OpenTelemetry's own SDK reads of them."""

import sys
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from firearrow.client import ClientMetrics, Producer
from firearrow.client.metrics.counts import OTHER, HeldMessages
from firearrow.client.producer.outgoing import OutgoingBatch, OutgoingMessage
from firearrow.client.producer.send_meter import SendMeter
from firearrow.errors import ConnectionLost, SettingsError

THREADS, TIMES = 4, 5000


class Holding:
    def __init__(self, *held: HeldMessages) -> None:
        self._held = held

    def held(self) -> tuple[HeldMessages, ...]:
        return self._held


def single(topic: str) -> OutgoingMessage:
    return OutgoingMessage(topic, "", "", b"body", 0, 0, 0)


def filled() -> ClientMetrics:
    metrics = ClientMetrics(labels={"app": "shop"})
    meter, counts = SendMeter(metrics.counts), metrics.counts.deliveries("g", 'or"d\ners')
    meter.stored(single("orders"), 0, 3_000_000)
    meter.stored(OutgoingBatch("orders", b"bodies", "", 0, ("a", "b")), 10, 700_000_000)
    meter.failed(single("bills"), ConnectionLost("gone"), 1)
    counts.awaited.observe(2)
    counts.messages += 5
    metrics.counts.add(Holding(HeldMessages("g", "orders", 2, 1, 7, 70, 9)))
    metrics.counts.route_changes += 3
    return metrics


def samples(page: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_prometheus_client_and_our_text_say_the_same() -> None:
    metrics, registry = filled(), CollectorRegistry()
    registry.register(metrics)
    ours = samples(metrics.text())
    assert samples(generate_latest(registry).decode()) == ours
    place = frozenset({("app", "shop"), ("topic", "orders")})
    assert ours["firearrow_client_batches_sent_total", place] == 1
    assert ours["firearrow_client_sent_bytes_total", place] == len(b"body" + b"bodies")
    assert ours["firearrow_client_messages_sent_total", place | {("result", "FLUSH_DISK_TIMEOUT")}] == 2
    slow = place | {("invocation_status", "success")}
    assert ours["rocketmq_send_cost_time_bucket", slow | {("le", "500.0")}] == 1
    assert ours["rocketmq_send_cost_time_bucket", slow | {("le", "+Inf")}] == 2
    assert ours["rocketmq_send_cost_time_sum", slow] == 703


def test_opentelemetry_reads_the_same_numbers() -> None:
    metrics, reader = filled(), InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    metrics.observe(provider)
    read: dict[tuple[str, frozenset[tuple[str, Any]]], float] = {}
    data = reader.get_metrics_data()
    assert data is not None
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            read[metric.name, frozenset(dict(point.attributes or {}).items())] = point.value  # type: ignore[union-attr]
    provider.shutdown()
    assert read == {
        (name.removesuffix("_total"), labels): value for (name, labels), value in samples(metrics.text()).items()
    }


def test_the_number_of_samples_is_bounded() -> None:
    metrics = ClientMetrics(max_topics=3)
    meter = SendMeter(metrics.counts)
    for number in range(50):
        meter.stored(single(f"topic-{number}"), 0, 0)
        metrics.counts.deliveries("g", f"topic-{number}").messages += 1
    metrics.counts.add(Holding(*(HeldMessages("g", f"topic-{number}", 1, 0, 2, 3, 4) for number in range(50))))
    page = samples(metrics.text())
    for name, rest in (
        ("firearrow_client_sent_bytes_total", 47 * 4),
        ("firearrow_client_messages_pulled_total", 47),
        ("firearrow_client_lag_messages", 47 * 4),
    ):
        found = {dict(labels)["topic"]: value for (sample, labels), value in page.items() if sample == name}
        assert list(found) == ["topic-0", "topic-1", "topic-2", OTHER]
        assert found[OTHER] == rest


def test_consumers_of_one_group_are_summed_up_until_they_are_closed() -> None:
    metrics, first = ClientMetrics(), Holding(HeldMessages("g", "orders", 1, 1, 2, 3, 4))
    metrics.counts.add(first)
    metrics.counts.add(
        Holding(HeldMessages("g", "orders", 10, 0, 20, 30, 40), HeldMessages("g", "bills", 1, 0, 0, 0, 0))
    )
    assert list(metrics.counts.held()) == [
        HeldMessages("g", "orders", 11, 1, 22, 33, 44),
        HeldMessages("g", "bills", 1, 0, 0, 0, 0),
    ]
    metrics.counts.remove(first)
    assert next(metrics.counts.held()) == HeldMessages("g", "orders", 10, 0, 20, 30, 40)


def test_threads_lose_no_count() -> None:
    metrics = ClientMetrics()
    before = sys.getswitchinterval()

    def send() -> None:
        meter = SendMeter(metrics.counts)
        for number in range(TIMES):
            meter.stored(single("orders"), 0, 1_000_000)
            if number % 1000 == 0:
                metrics.text()  # a scrape beside it

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=send) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    counts = metrics.counts.sends("orders")
    assert counts.succeeded.count == counts.messages["SEND_OK"] == counts.succeeded.total == THREADS * TIMES
    assert counts.size_bytes == THREADS * TIMES * len(b"body")


@pytest.mark.parametrize("name", ["topic", "le", "a-b", "9", "", "__x"])
def test_a_label_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="cannot be a label"):
        ClientMetrics(labels={name: "x"})


def test_wrong_values_are_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="give 1 or more"):
        ClientMetrics(max_topics=0)
    with pytest.raises(SettingsError, match="metrics=True is not usable"):
        Producer("127.0.0.1:9876", metrics=True)  # type: ignore[call-overload]


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(SettingsError, match=r"pip install 'firearrow\[opentelemetry\]'"):
        ClientMetrics().observe()

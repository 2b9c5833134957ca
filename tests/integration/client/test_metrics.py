"""Client metrics at a real broker, scraped over HTTP from prometheus-client and read by Prometheus's own parser."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from firearrow import blocking
from firearrow.client import ClientMetrics, Consumer, Message, Producer, PullConsumer, ReceivedMessage
from firearrow.errors import SendFailed
from firearrow.testing import Cluster
from firearrow.testing.blocking import Cluster as BlockingCluster
from tests.interop.client.ours import until

pytestmark = pytest.mark.real

LABELS = ("app", "topic", "consumer_group", "invocation_status", "result", "le")
Page = dict[str, dict[str, float]]
"""The samples of a page by their names, then by the values of their labels, joined."""


@contextmanager
def served(metrics: ClientMetrics) -> Iterator[str]:
    """The metrics at an address, as an application serves them."""
    registry = CollectorRegistry()
    registry.register(metrics)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def scraped(address: str) -> Page:
    def read() -> str:
        with urlopen(address) as answer:
            return str(answer.read(), "utf-8")

    found: Page = {}
    for family in text_string_to_metric_families(await asyncio.to_thread(read)):
        for sample in family.samples:
            values = [sample.labels[name] for name in LABELS if name in sample.labels]
            found.setdefault(sample.name, {})[" ".join(values)] = sample.value
    return found


def test_what_was_sent_and_handled_is_counted() -> None:
    async def story() -> Page:
        async with Cluster() as cluster:
            await cluster.create_topic("orders", queues=1)
            async with Producer(cluster.address, metrics=metrics) as producer:
                for number in range(3):
                    await producer.send(Message("orders", b"%d" % number))
                await producer.send_batch(Message("orders", b"x") for _ in range(10))
                await producer.send_oneway(Message("orders", b"told"))
            seen: list[bytes] = []

            async def handle(message: ReceivedMessage) -> None:
                seen.append(message.body)
                if seen == [b"0"]:
                    raise LookupError("once")

            consumer = Consumer(
                cluster.address, group="g", topics="orders", start="first", ordered=True, suspend_ms=10, metrics=metrics
            )
            async with consumer:
                running = asyncio.create_task(consumer.run(handle))
                await until(lambda: len(seen) == 15, "every message")
                page = await scraped(address)
                consumer.stop()
                await running
            return page

    metrics = ClientMetrics(labels={"app": "shop"})
    with served(metrics) as address:
        page = asyncio.run(story())
        after = asyncio.run(scraped(address))
    assert page["firearrow_client_messages_sent_total"] == {"shop orders SEND_OK": 13, "shop orders ONEWAY": 1}
    assert page["firearrow_client_batches_sent_total"] == {"shop orders": 1}
    assert page["firearrow_client_sent_bytes_total"]["shop orders"] > 3 + 10 + 4
    assert page["firearrow_client_send_retries_total"] == {"shop orders": 0}
    assert page["rocketmq_send_cost_time_count"] == {"shop orders success": 4, "shop orders failure": 0}
    assert page["rocketmq_send_cost_time_sum"]["shop orders success"] > 0
    assert page["rocketmq_send_cost_time_bucket"]["shop orders success +Inf"] == 4
    assert page["firearrow_client_messages_pulled_total"]["shop orders g"] == 14
    assert page["firearrow_client_pulled_bytes_total"]["shop orders g"] > 14 * 91
    assert page["firearrow_client_message_age_seconds_count"]["shop orders g"] == 14
    assert page["rocketmq_process_time_count"]["shop orders g success"] == 14
    assert page["rocketmq_process_time_count"]["shop orders g failure"] == 1
    assert page["rocketmq_await_time_count"]["shop orders g"] == 15
    assert page["rocketmq_consumer_cached_messages"]["shop orders g"] == 0
    assert page["firearrow_client_lag_messages"]["shop orders g"] == 0
    assert page["firearrow_client_queues"]["shop orders g"] == 1
    assert page["firearrow_client_rebalances_total"]["shop orders g"] == 1
    assert page["firearrow_client_connections_opened_total"]["shop"] >= 4
    assert page["firearrow_client_connections_lost_total"] == {"shop": 0}
    assert "firearrow_client_queues" not in after, "a closed consumer holds nothing"
    assert after["firearrow_client_connections_lost_total"] == {"shop": 0}, "closing loses no connection"
    assert after["rocketmq_process_time_count"]["shop orders g success"] == 14, "counts outlive their clients"


def test_a_full_consumer_shows_its_pauses_and_its_lag() -> None:
    async def story() -> tuple[Page, Page, Page]:
        turns = asyncio.Semaphore(0)

        async def handle(_message: ReceivedMessage) -> None:
            await turns.acquire()

        async with Cluster() as cluster:
            await cluster.create_topic("orders", queues=2)
            async with Producer(cluster.address) as producer:
                for queue in await producer.queues("orders"):
                    await producer.send_batch([Message("orders", b"body") for _ in range(10)], queue=queue)
            consumer = Consumer(
                cluster.address,
                group="g",
                topics="orders",
                start="first",
                pull_threshold=2,
                pull_batch=4,
                metrics=metrics,
            )
            async with consumer:
                running = asyncio.create_task(consumer.run(handle))
                counts = metrics.counts.deliveries("g", "orders")
                await until(lambda: counts.pauses == 2, "a pause of both queues")
                full = await scraped(address)
                turns.release()
                await until(lambda: counts.succeeded.count == 1, "the first message")
                still = await scraped(address)
                for _ in range(19):
                    turns.release()
                await until(lambda: counts.succeeded.count == 20, "every message")
                page = await scraped(address)
                consumer.stop()
                await running
            return full, still, page

    metrics = ClientMetrics()
    with served(metrics) as address:
        full, still, free = asyncio.run(story())
    assert full["firearrow_client_full_queues"]["orders g"] == 2
    assert full["firearrow_client_pull_pauses_total"]["orders g"] == 2
    assert full["rocketmq_consumer_cached_messages"]["orders g"] == 8
    assert full["rocketmq_consumer_cached_bytes"]["orders g"] > 8 * len(b"body")
    assert full["firearrow_client_lag_messages"]["orders g"] == 20
    assert still["firearrow_client_full_queues"]["orders g"] == 2
    assert still["firearrow_client_pull_pauses_total"]["orders g"] == 2, "a pause counts once, however often it is seen"
    assert still["firearrow_client_lag_messages"]["orders g"] == 19
    assert free["firearrow_client_full_queues"]["orders g"] == 0
    assert free["rocketmq_consumer_cached_bytes"]["orders g"] == 0
    assert free["firearrow_client_lag_messages"]["orders g"] == 0


def test_failures_retries_and_lost_connections_are_counted() -> None:
    async def story() -> tuple[Page, Page]:
        async with Cluster() as cluster:
            await cluster.create_topic("orders", queues=1)
            reader = PullConsumer(cluster.address, group="r", metrics=metrics)
            async with Producer(cluster.address, metrics=metrics) as producer, reader:
                await producer.send(Message("orders", b"before"))
                await reader.assign(await reader.queues("orders"))
                counts = metrics.counts.deliveries("r", "orders")
                await until(lambda: metrics.counts.connections_opened >= 4, "both at broker and name server")
                await cluster.kill_broker()
                with pytest.raises(SendFailed):
                    await producer.send(Message("orders", b"lost"), timeout_ms=400)
                await until(lambda: counts.pull_errors > 0, "a failed pull")
                broken = await scraped(address)
                await cluster.start_broker()
                await producer.send(Message("orders", b"after"), timeout_ms=30_000)
                return broken, await scraped(address)

    metrics = ClientMetrics()
    with served(metrics) as address:
        broken, mended = asyncio.run(story())
    results = broken["firearrow_client_messages_sent_total"]
    assert results.pop("orders SEND_OK") == 1
    assert sum(results.values()) == 1
    assert set(results) <= {"orders ConnectionFailed", "orders ConnectionLost", "orders NoRoute"}
    assert broken["rocketmq_send_cost_time_count"]["orders failure"] == 1
    assert broken["firearrow_client_send_retries_total"]["orders"] >= 1
    assert broken["firearrow_client_pull_errors_total"]["orders r"] >= 1
    assert broken["firearrow_client_connections_lost_total"][""] >= 2
    opened = "firearrow_client_connections_opened_total"
    assert mended[opened][""] > broken[opened][""]
    assert mended["firearrow_client_messages_sent_total"]["orders SEND_OK"] == 2


def test_a_grown_topic_changes_its_route() -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("orders", queues=1)
            async with Producer(cluster.address, metrics=metrics, poll_name_server_ms=50) as producer:
                assert len(await producer.queues("orders")) == 1
                assert metrics.counts.route_changes == 0
                await cluster.admin.topics.update("orders", queues=3)
                await until(lambda: metrics.counts.route_changes == 1, "the larger route")

    metrics = ClientMetrics()
    asyncio.run(story())


def test_blocking_clients_of_several_threads_share_their_metrics() -> None:
    metrics = ClientMetrics()
    with BlockingCluster() as cluster:
        with (
            blocking.Producer(cluster.address, group="a", metrics=metrics) as first,
            blocking.Producer(cluster.address, group="b", metrics=metrics) as second,
        ):
            for _ in range(20):
                first.send(Message("orders", b"one"))
                second.send(Message("orders", b"two"))
        with blocking.Consumer(cluster.address, group="g", topics="orders", start="first", metrics=metrics) as consumer:
            for number, message in enumerate(consumer, 1):
                with message.process():
                    pass
                if number == 40:
                    break
    assert metrics.counts.sends("orders").messages == {"SEND_OK": 40}
    assert metrics.counts.deliveries("g", "orders").succeeded.count == 40

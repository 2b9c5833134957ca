"""The cost of metrics: ``python -m benchmarks.broker.metrics [rounds]``.

Three brokers, one with ``metricsExporterType=PROM`` and two without, and a bare client share one process and one loop.
Rounds of 64 sends go to them in turns, so that all see the same machine; printed are microseconds of CPU a message and
the differences. Then a broker with 12,500 topics of 4 queues, a message in every queue, is asked for
``/metrics``: the time until the page is there, its size, and the longest hold of the loop meanwhile.
"""

import asyncio
import sys
import time

from msgspec.structs import replace

from benchmarks.broker.__main__ import LOOPBACK, PROPERTIES, Client
from benchmarks.broker.in_turns import print_difference, rounds_in_turns
from benchmarks.broker.serving import serving
from campaigns.samples import SEND
from firearrow.broker.settings.config import BrokerSettings
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.command import Encoding
from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopicList
from firearrow.protocol.serialize import encode_request
from firearrow.remoting.caller import Caller
from firearrow.remoting.operation_port import MetricsExporter, OperationConfig
from firearrow.runtime.loops import new_loop
from firearrow.runtime.network import Address, SystemNetwork

ROUNDS = 2000
TOPICS, QUEUES, AT_ONCE = 12_500, 4, 500
SENDS_AT_ONCE = 50
LOOK_S = 0.001


def exporting(*, shows_metrics: bool) -> BrokerSettings:
    """The settings of a broker that shows metrics, or does not."""
    kind = MetricsExporter.PROM if shows_metrics else MetricsExporter.DISABLE
    return BrokerSettings(operation=OperationConfig(metrics_exporter_type=kind, metrics_prom_exporter_port=0))


async def compare_sends(rounds: int) -> None:
    """Print what a send costs with metrics and without; a second broker without shows how much chance there is."""
    async with (
        serving(exporting(shows_metrics=False)) as (_, off),
        serving(exporting(shows_metrics=True)) as (_, on),
        serving(exporting(shows_metrics=False)) as (_, again),
    ):
        spent = await rounds_in_turns(rounds, [off, on, again])
    print_difference(spent, ("off", "on"), "metrics cost")


async def scrape() -> None:
    """Print what a page of many queues costs."""
    async with serving(exporting(shows_metrics=True)) as (broker, port):
        await _fill(port)
        assert broker.metrics is not None
        assert broker.metrics.address is not None
        longest = asyncio.create_task(_longest_hold())
        for _ in range(3):
            began, spent = time.perf_counter(), time.process_time()
            page = await _page(broker.metrics.address)
            took, cpu = time.perf_counter() - began, time.process_time() - spent
            lines = page.count(b"\n")
            cost = f"{took:.2f} s, {cpu:.2f} s of CPU, {lines} lines, {len(page)} bytes"
            print(f"scrape of {TOPICS * QUEUES} queues: {cost}")
        longest.cancel()
        print(f"longest hold of the loop meanwhile: {await longest * 1000:.1f} ms")


async def _fill(port: int) -> None:
    caller = Caller(SystemNetwork())
    names = [f"topic-{number:05}" for number in range(TOPICS)]
    for first in range(0, TOPICS, AT_ONCE):
        made = [
            TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for name in names[first : first + AT_ONCE]
        ]
        body = encode_body(CreateTopicListBody(topic_config_list=made))
        await caller.call(Address(LOOPBACK, port), UpdateAndCreateTopicList(), body, timeout_ms=60_000)
    await caller.close()
    _, client = await asyncio.get_running_loop().create_connection(Client, LOOPBACK, port)
    for first in range(0, TOPICS, SENDS_AT_ONCE):
        parts = []
        for number, name in enumerate(names[first : first + SENDS_AT_ONCE]):
            for queue in range(QUEUES):
                request = replace(SEND, topic=name, queue_id=queue, properties=PROPERTIES)
                parts += [encode_request(Encoding.JSON, request, number, body_size=1), b"x"]
        await client.exchange(b"".join(parts), SENDS_AT_ONCE * QUEUES)


async def _page(address: Address) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
    page = await reader.read()
    writer.close()
    assert page.startswith(b"HTTP/1.1 200"), page[:200]
    return page


async def _longest_hold() -> float:
    longest = 0.0
    try:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LOOK_S)
            longest = max(longest, time.perf_counter() - began - LOOK_S)
    except asyncio.CancelledError:
        return longest


async def main(rounds: int) -> None:
    """Print both."""
    await compare_sends(rounds)
    await scrape()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))

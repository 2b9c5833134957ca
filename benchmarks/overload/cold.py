"""A stock consumer reads a backlog that is not in memory while producers send: what their sends take meanwhile.

The backlog is sent by Apache's batch producer, then the pages of its files are dropped from the page cache. Sixteen
connections with one send under way each are measured alone, beside the consumer, and beside a second group that reads
the same messages from memory: what that costs is the consumer's share of the cores, the rest is the disk's. The longest
that the loop was held shows in the slowest of requests that ask for nothing, sent every few milliseconds on a
connection of their own.
"""

import asyncio
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.overload.frames import Answers, frame, heartbeat_body
from benchmarks.store.report import percentile
from benchmarks.versus.clients import Client
from benchmarks.versus.contestants import ASYNC, OURS, QUEUES, FireArrowInEarnest, Standing
from firearrow.protocol.requests.heartbeat import HeartBeat
from firearrow.runtime.loops import new_loop
from firearrow.testing.apache import FireArrowNameServer
from firearrow.testing.apache.wire import ask

BODY_BYTES = 1024
RECORD_BYTES = 1300
TOPIC = "cold"
GROUPS = ("cold-readers", "hot-readers")
"""The first reads what is on disk alone, the second what the first has brought into memory."""
COMMIT_OFFSET = 15
PROBE_S = 0.004


def fill(standing: Standing, gigabytes: float) -> int:
    """Make the backlog; return how many messages it has."""
    wanted = int(gigabytes * 1e9 / RECORD_BYTES)
    words = ("-n", standing.name_server, "-t", TOPIC, "-w", "2", "-s", str(BODY_BYTES), "-b", "32")
    with Client("BatchProducer", words) as client:
        while (count := standing.ends(TOPIC)) < wanted:
            client.check()
            time.sleep(0.2)
    return count


def drop_pages(store: Path) -> None:
    """Let the kernel forget what the files of a store hold."""
    os.sync()
    for path in store.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


class Probe(threading.Thread):
    """Asks the broker every few milliseconds how late it answers."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.ended = threading.Event()
        self.took_ms: list[float] = []

    def run(self) -> None:
        """Ask until told to end."""
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(self._ask())

    async def _ask(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        beat = frame(HeartBeat(), 1, heartbeat_body("127.0.0.1@probe"))
        answers = Answers()
        while not self.ended.is_set():
            began = time.perf_counter()
            writer.write(beat)
            while not answers.feed(await reader.read(65_536)):
                pass
            self.took_ms.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(PROBE_S)
        writer.close()


def _phase(generator: Any, port: int, seconds: float) -> dict[str, Any]:
    probe = Probe(port)
    probe.start()
    result: dict[str, Any] = generator.hold(0, seconds)
    probe.ended.set()
    probe.join()
    result["loop_held_ms"] = max(probe.took_ms)
    result["probe_p99_ms"] = percentile(probe.took_ms, 0.99)
    return result


def _beside(standing: Standing, generator: Any, port: int, group: str, seconds: float) -> dict[str, Any]:
    """Send while a group reads the backlog from its beginning."""
    for queue in range(QUEUES):
        fields = {"consumerGroup": group, "topic": TOPIC, "queueId": str(queue), "commitOffset": "0"}
        ask(standing.broker, COMMIT_OFFSET, fields)
    with Client("Consumer", ("-n", standing.name_server, "-t", TOPIC, "-g", group)):
        deadline = time.monotonic() + 60
        while not standing.committed(group, TOPIC) and time.monotonic() < deadline:
            time.sleep(0.1)
        before = standing.committed(group, TOPIC)
        result = _phase(generator, port, seconds)
        result["read_s"] = (standing.committed(group, TOPIC) - before) / seconds
    return result


def measure_cold(make_generator: Any, gigabytes: float, seconds: float) -> dict[str, Any]:
    """Fill, forget, send, then send while somebody reads."""
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        broker = FireArrowInEarnest(name_servers=[names.address], settings={"flushDiskType": ASYNC})
        stack.enter_context(broker)
        for topic in (TOPIC, "overload"):
            broker.create_topic(topic, QUEUES)
        standing = Standing(OURS, ASYNC, names.address, broker.address, (broker.pid, names.pid))
        count = fill(standing, gigabytes)
        drop_pages(broker.store)
        generator = make_generator(broker.port, 16, 1)
        stack.callback(generator.close)
        phases = {"alone": _phase(generator, broker.port, seconds)}
        for group in GROUPS:
            phases[group] = _beside(standing, generator, broker.port, group, seconds)
    print(f"backlog of {gigabytes:g} GB, {count:,} messages")
    for name, found in phases.items():
        _show(name, found, phases["alone"])
    return {"gigabytes": gigabytes, "messages": count} | phases


def _show(name: str, found: dict[str, Any], alone: dict[str, Any]) -> None:
    print(
        f"{name:14} sends {found['goodput']:>8,.0f}/s  p99 {found['p99_ms']:6.2f} ms "
        f"({found['p99_ms'] / alone['p99_ms']:.2f} times)  read {found.get('read_s', 0.0):>8,.0f}/s  "
        f"request that asks for nothing: p99 {found['probe_p99_ms']:.1f} ms, worst {found['loop_held_ms']:.1f} ms",
        flush=True,
    )

"""A stock consumer reads a backlog that is not in memory while producers send: what their sends take meanwhile.

The backlog is sent by Apache's batch producer, then the pages of its files are dropped from the page cache. Sixteen
connections with one send under way each are measured alone, beside the consumer, and beside a second group that reads
the same messages from memory: what that costs is the consumer's share of the cores, the rest is the disk's. The longest
that the loop was held shows in the slowest of requests that ask for nothing, sent every few milliseconds on a
connection of their own.

A consumer that has just started compiles itself, and takes more of the cores for that than for its messages: so it is
measured in several windows, the first of which is shown apart. The generator goes before everybody else on its core
where that is allowed, because its own waiting is no part of a send. Broker and consumer share the cores as they like;
how long the broker waited for one is printed.

Apache's broker as a control is started again before it is measured, because pages that are mapped cannot be dropped,
and takes sends for a while before that counts.
"""

import asyncio
import json
import os
import statistics
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.overload.cores import put_first, waited_s
from benchmarks.overload.frames import Answers, frame, heartbeat_body
from benchmarks.store.report import percentile
from benchmarks.versus.clients import Client
from benchmarks.versus.contestants import ASYNC, OURS, QUEUES, RUNBROKER_FLAGS, FireArrowInEarnest, Standing
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.runtime.loops import new_loop
from judges import ApacheBroker, ApacheNameServer, FireArrowNameServer, Server
from judges.server_process import wait_for
from judges.wire import ask

BODY_BYTES = 1024
RECORD_BYTES = 1300
TOPIC = "cold"
GROUPS = ("cold-readers", "hot-readers")
"""The first reads what is on disk alone, the second what the first has brought into memory."""
CONTROL = "Apache 5.5.0"
COMMIT_OFFSET = 15
MAKE_GROUP = 200
PROBE_S = 0.004
CONTROL_WARM_S = 20.0
_MIDDLE = ("goodput", "p50_ms", "p99_ms", "read_s", "broker_waited", "probe_p99_ms")


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


class Bench:
    """A broker with its backlog, and the generator beside it."""

    def __init__(self, standing: Standing, generator: Any, port: int, seconds: float) -> None:
        self._standing = standing
        self._generator = generator
        self._port = port
        self._seconds = seconds

    def alone(self) -> dict[str, Any]:
        """Send while nobody reads."""
        self._generator.hold(0, self._seconds / 2)
        return self._window()

    def beside(self, group: str, count: int, windows: int) -> list[dict[str, Any]]:
        """Send while a group reads the backlog from its beginning, to its end or for so many windows."""
        standing = self._standing
        _put_at_beginning(standing, group)
        found: list[dict[str, Any]] = []
        with Client("Consumer", ("-n", standing.name_server, "-t", TOPIC, "-g", group)):
            wait_for(lambda: standing.committed(group, TOPIC) > 0, f"{group} to begin", 60.0)
            before = standing.committed(group, TOPIC)
            while len(found) < windows and before < count:
                result = self._window()
                after = standing.committed(group, TOPIC)
                result["read_s"], before = (after - before) / self._seconds, after
                found.append(result)
        return found[:-1] if before >= count and len(found) > 1 else found  # nobody read at the end of that window

    def _window(self) -> dict[str, Any]:
        waited = waited_s(self._standing.pids[0])
        probe = Probe(self._port)
        probe.start()
        result: dict[str, Any] = self._generator.hold(0, self._seconds)
        probe.ended.set()
        probe.join()
        result["loop_held_ms"] = max(probe.took_ms)
        result["probe_p99_ms"] = percentile(probe.took_ms, 0.99)
        result["broker_waited"] = (waited_s(self._standing.pids[0]) - waited) / self._seconds
        return result


def _put_at_beginning(standing: Standing, group: str) -> None:
    made = ask(standing.broker, MAKE_GROUP, body=json.dumps({"groupName": group}).encode())
    assert made.code == 0, made
    for queue in range(QUEUES):
        fields = {"consumerGroup": group, "topic": TOPIC, "queueId": str(queue), "commitOffset": "0"}
        committed = ask(standing.broker, COMMIT_OFFSET, fields)
        assert committed.code == 0, committed


def _broker(stack: ExitStack, name: str) -> tuple[ApacheBroker, Standing]:
    settings = {"flushDiskType": ASYNC}
    names: Server
    broker: ApacheBroker
    if name == OURS:
        names = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        broker = FireArrowInEarnest(name_servers=[names.address], settings=settings)
    else:
        version = name.split()[-1]
        names = stack.enter_context(ApacheNameServer(version, measured=True))
        broker = ApacheBroker(
            version, name_servers=[names.address], settings=settings, measured=True, flags=RUNBROKER_FLAGS
        )
    stack.enter_context(broker)
    for topic in (TOPIC, "overload"):
        broker.create_topic(topic, QUEUES)
    return broker, Standing(name, ASYNC, names.address, broker.address, (broker.pid, names.pid))


def measure_cold(name: str, make_generator: Any, gigabytes: float, seconds: float, windows: int) -> dict[str, Any]:
    """Fill, forget, send, then send while somebody reads."""
    with ExitStack() as stack:
        broker, standing = _broker(stack, name)
        count = fill(standing, gigabytes)
        if name != OURS:
            broker.restart()
            standing = msgspec.structs.replace(standing, pids=(broker.pid, *standing.pids[1:]))
        drop_pages(broker.store)
        generator = make_generator(broker.port, 16, 1)
        stack.callback(generator.close)
        goes_first = put_first(generator.pid)
        bench = Bench(standing, generator, broker.port, seconds)
        if name != OURS:
            generator.hold(0, CONTROL_WARM_S)
        alone = bench.alone()
        beside = {group: bench.beside(group, count, windows) for group in GROUPS}
    first = "goes first on its core" if goes_first else "shares its core (not allowed to go first)"
    print(f"{name}: backlog of {gigabytes:g} GB, {count:,} messages; the generator {first}")
    _show("alone", [alone], alone)
    for group, found in beside.items():
        _show(f"{group}, at first", found[:1], alone)
        _show(f"{group}, then", found[1:], alone)
    return {"gigabytes": gigabytes, "messages": count, "alone": alone} | beside


def _show(name: str, windows: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    """A line: medians of windows, but the worst of what is held."""
    if not windows:
        return
    middle = {key: statistics.median(window.get(key, 0.0) for window in windows) for key in _MIDDLE}
    worst, held = (max(window[key] for window in windows) for key in ("p99_ms", "loop_held_ms"))
    print(
        f"{name:22} {len(windows):2} x sends {middle['goodput']:>8,.0f}/s  p50 {middle['p50_ms']:5.2f}  "
        f"p99 {middle['p99_ms']:6.2f} ms ({middle['p99_ms'] / alone['p99_ms']:.2f} times; in one window {worst:.2f})  "
        f"read {middle['read_s']:>8,.0f}/s  broker's threads waited {middle['broker_waited']:.2f} s/s for a core  "
        f"no-op request: p99 {middle['probe_p99_ms']:.1f} ms, worst {held:.1f} ms",
        flush=True,
    )

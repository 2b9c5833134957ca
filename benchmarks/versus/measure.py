"""One turn: start the client, let it run in, look at the broker at both ends of the steady window."""

import time

import msgspec

from benchmarks.store.report import percentile
from benchmarks.versus.clients import Client
from benchmarks.versus.contestants import QUEUES, TOPIC, Standing, group_cpu_s
from benchmarks.versus.contestants import make_topic as ask_for_topic
from benchmarks.versus.rows import BACKLOG, BACKLOG_TOPIC, BATCH, FILTERED_TOPIC, PASSES_ONE_IN, Row
from firearrow.blocking import Message, Producer
from judges import fresh
from judges.server_process import wait_for
from judges.wire import GET_ROUTE, ask

POLL_S = 0.05
DRAINED_FROM, DRAINED_TO = 0.1, 0.9
"""The part of a backlog over which reading is timed: the ends belong to the client's start and its last offsets."""
DRAIN_S = 120.0


class Turn(msgspec.Struct):
    """The figures of one turn."""

    rate: float
    cpu_us: float
    """Broker CPU, microseconds a message."""
    cpu_s: float
    window_s: float
    client_cpu_s: float
    rss_mib: float
    anon_mib: float
    failed: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None


class Window:
    """The broker at one moment."""

    def __init__(self, standing: Standing, client: Client, count: int) -> None:
        self._standing = standing
        self._client = client
        self._count = count
        self._at = time.monotonic()
        self._cpu = standing.cpu_s()
        self._client_cpu = group_cpu_s(client.pid)

    def close(self, count: int) -> Turn:
        """Return the figures since the window was opened."""
        standing = self._standing
        seconds, cpu = time.monotonic() - self._at, standing.cpu_s() - self._cpu
        messages = max(count - self._count, 1)
        return Turn(
            rate=messages / seconds,
            cpu_us=cpu / messages * 1e6,
            cpu_s=cpu,
            window_s=seconds,
            client_cpu_s=group_cpu_s(self._client.pid) - self._client_cpu,
            rss_mib=standing.memory_mib("VmRSS"),
            anon_mib=standing.memory_mib("RssAnon"),
            failed=self._client.failed(),
        )


def take_turn(row: Row, standing: Standing, lead_s: float, seconds: float) -> Turn:
    """Measure one row once."""
    if row.kind == "drain":
        _fill(standing)
        return _drain(row, standing, BACKLOG_TOPIC)
    if row.kind == "filtered":
        _fill_filtered(standing)
        return _drain(row, standing, FILTERED_TOPIC)
    # A group that begins reads a young topic from its first message, so waiting times need a topic of their own.
    topic = fresh("waiting") if row.kind == "latency" else TOPIC
    if topic != TOPIC:
        make_topic(standing, topic)
    with Client(row.program, row.words(standing.name_server, topic)) as client:
        time.sleep(lead_s)
        client.check()
        before = len(client.latencies_us())
        window = Window(standing, client, standing.ends(topic))
        time.sleep(seconds)
        client.check()
        turn = window.close(standing.ends(topic))
        if row.kind == "latency":
            took = [us / 1000 for us in client.latencies_us()[before:]]
            if not took:
                raise RuntimeError(f"nothing was delivered by {standing.name} for {seconds:.0f} s; raise --lead")
            turn.p50_ms, turn.p99_ms = percentile(took, 0.5), percentile(took, 0.99)
    return turn


def _drain(row: Row, standing: Standing, topic: str) -> Turn:
    total = standing.ends(topic)
    group = fresh("drain")
    with Client(row.program, (*row.words(standing.name_server, topic), "-g", group)) as client:
        deadline = time.monotonic() + DRAIN_S
        read = _wait_read(standing, group, topic, total * DRAINED_FROM, deadline)
        window = Window(standing, client, read)
        return window.close(_wait_read(standing, group, topic, total * DRAINED_TO, deadline))


def _wait_read(standing: Standing, group: str, topic: str, wanted: float, deadline: float) -> int:
    while (read := standing.committed(group, topic)) < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{standing.name}: {read:,} of {wanted:,.0f} messages read after {DRAIN_S} s")
        time.sleep(POLL_S)
    return read


def _fill(standing: Standing) -> None:
    """Make the backlog, once for each broker."""
    make_topic(standing, BACKLOG_TOPIC)
    if standing.ends(BACKLOG_TOPIC) >= BACKLOG:
        return
    words = ("-n", standing.name_server, "-t", BACKLOG_TOPIC, "-w", "2", "-s", "128", "-b", str(BATCH))
    with Client("BatchProducer", words) as client:
        while standing.ends(BACKLOG_TOPIC) < BACKLOG:
            client.check()
            time.sleep(POLL_S)


def _fill_filtered(standing: Standing) -> None:
    """Make the backlog behind a filter, once for each broker."""
    make_topic(standing, FILTERED_TOPIC)
    missing = BACKLOG - standing.ends(FILTERED_TOPIC)
    if missing <= 0:
        return
    body = b"x" * 128
    batch = [Message(FILTERED_TOPIC, body, properties={"n": str(n), "city": "Köln"}) for n in range(PASSES_ONE_IN)]
    with Producer(standing.name_server, group=fresh("fill")) as producer:
        for _ in range(missing // len(batch) + 1):
            producer.send_batch(batch)


def make_topic(standing: Standing, topic: str) -> None:
    """A topic of as many queues as the arena's, at this broker and its other workers."""
    for broker in standing.brokers:
        ask_for_topic(broker, topic, QUEUES)
    wait_for(lambda: ask(standing.name_server, GET_ROUTE, {"topic": topic}).code == 0, f"a route of {topic}", 40.0)

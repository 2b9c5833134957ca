"""The rows of the arena: what each sends or reads, and with which client."""

from pathlib import Path
from typing import NamedTuple

from benchmarks.versus.contestants import ASYNC, REPLICATED, SYNC, TOPIC

BATCH = 32
BATCH_THREADS = 4
IN_FLIGHT = 256
LOW_RATE = 200
BACKLOG = 1_000_000
BACKLOG_TOPIC = "backlog"
FILTERED_TOPIC = "filtered"
"""A backlog whose messages have a property ``n`` from 0 to 99."""
PASSES_ONE_IN = 100
_FILTER = Path(__file__).parent / "one_in_hundred.sql"
"""The expression that Apache's program reads from a file."""


class Row(NamedTuple):
    """One load. ``kind`` says how it is measured: by what is stored, by what is read, by how long it takes."""

    name: str
    kind: str
    program: str
    arguments: tuple[str, ...]
    flush: str = ASYNC
    floor: bool = False
    """Whether the floor can take it too."""

    def words(self, name_server: str, topic: str = TOPIC) -> tuple[str, ...]:
        """The client's arguments."""
        if self.program == "Load":
            mode, *rest = self.arguments
            return (mode, name_server, topic, *rest)
        return ("-n", name_server, "-t", topic, *self.arguments)


def _threads(body: int, threads: int, *, floor: bool = False) -> Row:
    size = "1 KiB" if body == 1024 else f"{body} B"
    name = f"{size}, {threads} thread{'s' if threads > 1 else ''}"
    return Row(name, "stored", "Producer", ("-w", str(threads), "-s", str(body)), floor=floor)


ROWS = {
    f"{size}x{threads}": _threads(size, threads, floor=size == 128 and threads > 1)
    for size in (10, 128, 1024)
    for threads in (1, 16, 64)
}
ROWS["batch"] = Row(
    f"batches of {BATCH}, 128 B, {BATCH_THREADS} threads",
    "stored",
    "BatchProducer",
    ("-w", str(BATCH_THREADS), "-s", "128", "-b", str(BATCH)),
)
ROWS["async"] = Row(f"async, 128 B, {IN_FLIGHT} in flight", "stored", "Load", ("async", "128", str(IN_FLIGHT)))
ROWS["sync"] = Row("SYNC_FLUSH, 128 B, 64 threads", "stored", "Producer", ("-w", "64", "-s", "128"), flush=SYNC)
ROWS["replicated"] = Row(
    "SYNC_MASTER with a slave, 128 B, 64 threads", "stored", "Producer", ("-w", "64", "-s", "128"), flush=REPLICATED
)
ROWS["64conns"] = Row(
    "64 producers, a connection each, 128 B", "stored", "Load", ("producers", "128", "64"), floor=True
)
ROWS["16conns"] = Row("16 connections, one in flight, 128 B", "stored", "Load", ("producers", "128", "16"))
ROWS["drain"] = Row(f"drain of {BACKLOG:,} messages", "drain", "Consumer", ())
ROWS["sql"] = Row(
    f"messages looked at behind a SQL92 filter that passes 1 %, of {BACKLOG:,}",
    "filtered",
    "Consumer",
    ("-f", "SQL92", "-e", str(_FILTER)),
)
ROWS["latency"] = Row(f"delivery at {LOW_RATE}/s, 128 B", "latency", "Load", ("latency", "128", str(LOW_RATE)))
ROWS["transactions"] = Row(
    "transactions committed at once, 128 B, 64 threads", "stored", "Load", ("transactions", "128", "64")
)

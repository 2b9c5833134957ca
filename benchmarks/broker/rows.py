"""`python -m benchmarks.broker.rows`: what rows with an identity cost a broker.

One row for each figure: CPU time of the broker for a message of a batch without and with an identity, and for a
repeated one; memory for a remembered identity; the longest wait of the first row after kill -9 and restart. The CPU
time is that of the broker's process, so a busy machine changes it little.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from firearrow.blocking import Message, MessageQueue, Producer
from firearrow.model import keys
from tests.spark.serving import Served

TOGETHER = 200
BODY = b"x" * 100


def cpu_s(pid: int) -> float:
    """The CPU time of a process so far."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """The resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def rows(name: str, count: int) -> Sequence[Message]:
    """Messages with identities as long as Spark's are."""
    head = "d4c2f7b6-8a4e-4c61-9a55-3f1f0d7f0b11:12:3"
    return [Message("rows", BODY, {keys.ROW_ID: f"{head}:{name}:{number:016x}"}) for number in range(count)]


def plain(count: int) -> Sequence[Message]:
    """Messages of the same size without identities."""
    head = "d4c2f7b6-8a4e-4c61-9a55-3f1f0d7f0b11:12:3"
    return [Message("rows", BODY, {"IDENTITY_OF_ROW": f"{head}:0:{number:016x}"}) for number in range(count)]


def send(producer: Producer, queue: MessageQueue, messages: Sequence[Message]) -> float:
    """Send to one queue; return the longest time of a request."""
    longest = 0.0
    for start in range(0, len(messages), TOGETHER):
        began = time.perf_counter()
        producer.send_batch(messages[start : start + TOGETHER], queue=queue)
        longest = max(longest, time.perf_counter() - began)
    return longest


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of one queue (dedupWindowCount is 100,000)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = Served(Path(directory) / "broker", ends_with_parent=True)
        broker.start()
        costs: dict[str, list[float]] = {"without identity": [], "with identity": [], "repeated": []}
        with Producer(broker.name_server, group="bench", send_timeout_ms=30_000) as producer:
            producer.send(Message("rows", b"first"))
            queue = producer.queues("rows")[0]
            send(producer, queue, plain(given.rows // 10))
            before = resident(broker.pid)
            fresh: Sequence[Message] = ()
            for number in range(given.rounds):
                fresh = rows(str(number), given.rows)
                for kind, messages in (
                    ("without identity", plain(given.rows)),
                    ("with identity", fresh),
                    ("repeated", fresh),
                ):
                    began = cpu_s(broker.pid)
                    send(producer, queue, messages)
                    costs[kind].append((cpu_s(broker.pid) - began) / given.rows * 1e6)
            print(f"rows a round: {given.rows:,}, {TOGETHER} a request, bodies of {len(BODY)} bytes")
            for kind, each in costs.items():
                spread = f"{statistics.median(each):.2f} us of the broker's CPU ({min(each):.2f}-{max(each):.2f})"
                print(f"a message {kind}: {spread}")
            print(f"memory of the broker: {(resident(broker.pid) - before) / given.rows:.0f} bytes more for each row")
        broker.kill()
        began = time.perf_counter()
        broker.start()
        ready_s = time.perf_counter() - began
        with Producer(broker.name_server, group="bench", send_timeout_ms=30_000) as producer:
            producer.send(Message("other", b"first"))
            again = send(producer, queue, fresh[-TOGETHER:])
            next_one = send(producer, queue, fresh[-TOGETHER:])
        print(f"after kill -9: ready in {ready_s:.2f} s, first request {again:.3f} s, the next {next_one:.4f} s")
        broker.kill()


if __name__ == "__main__":
    main()

"""The same rows everywhere: in our store and broker, in Apache's, in Kafka, as Parquet; and what is running of it."""

import asyncio
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from benchmarks.spark.kafka import Kafka
from benchmarks.spark.rows import BODIES, PLAIN, QUEUES, TUNED, WARM_TOPIC, Row, rows_of, warm_rows
from benchmarks.spark.sessions import Session
from firearrow.admin import Admin
from firearrow.blocking import Message, Producer, PullConsumer
from judges import ApacheBroker, ApacheNameServer
from tests.spark.serving import Served, served

Order = dict[str, Any]
FEED_EVERY_S = 0.05
FEED_ROWS = 50
LATENCY_S = 15


def say(text: str) -> None:
    """Tell whoever waits."""
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Places:
    """The files and running servers of a benchmark. Use it in a ``with`` block."""

    def __init__(self, output: Path, size: int) -> None:
        self.output = output
        self.size = size
        self._stack = ExitStack()
        self._ours: Served | None = None
        self._is_restarted = False
        self._kafka: Kafka | None = None
        self._apache: ApacheBroker | None = None
        self._filled: set[str] = set()

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        """End what was started."""
        self._stack.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    @property
    def scratch(self) -> Path:
        """For what a turn leaves behind."""
        return self.output / "scratch"

    @property
    def store(self) -> Path:
        """The directory that holds our log: a development broker keeps it below its own."""
        return next((self.output / "store").rglob("commitlog")).parent

    def ours(self) -> Served:
        """Our broker."""
        if self._ours is None:
            self._ours = self._stack.enter_context(served(self.output / "store"))
        return self._ours

    def restarted(self) -> Served:
        """Our broker after a restart: it has written nothing of what it holds, and checks all that it hands out."""
        broker = self.ours()
        if not self._is_restarted:
            broker.kill()
            broker.start()
            self._is_restarted = True
        return broker

    def kafka(self) -> Kafka:
        """Kafka."""
        if self._kafka is None:
            self._kafka = self._stack.enter_context(Kafka(self.output / "kafka", QUEUES))
        return self._kafka

    def apache(self, topic: str, body: int, count: int) -> ApacheBroker:
        """Apache's broker with a topic; it begins anew with every run."""
        if self._apache is None:
            names = self._stack.enter_context(ApacheNameServer("5.5.0"))
            broker = ApacheBroker("5.5.0", name_servers=[names.address], measured=True)
            self._apache = self._stack.enter_context(broker)
        if topic not in self._filled:
            say(f"{count} messages of {body} bytes into Apache's broker")
            fill(self._apache.name_servers[0], topic, body, count)
            self._filled.add(topic)
        return self._apache

    # -- orders

    def order(self, row: Row, *, warming: bool = False) -> Order:
        """The order to a session for a row; to warm up, the same with fewer rows."""
        topic, body = (WARM_TOPIC, BODIES[0]) if warming else (row.topic_name, row.body)
        count = warm_rows(self.size) if warming else row.count(self.size)
        order: Order = {
            "do": "latency" if row.sink == "latency" else "move",
            "source": row.source, "sink": row.sink, "topic": topic, "count": count, "whole": row.whole,
            "stream": row.stream, "options": TUNED if row.tuned else {}, "seconds": LATENCY_S,
            "scratch": str(self.scratch),
        }  # fmt: skip
        return order | self._source(row, topic, body, count) | self._sink(row)

    def _source(self, row: Row, topic: str, body: int, count: int) -> Order:
        if row.source == "kafka":
            return {"address": self.kafka().address, "pid": self.kafka().pid}
        if row.source == "store":
            return {"path": str(self.store)}
        if row.source in ("parquet", "made"):
            kind = topic if row.source == "parquet" else f"made-{row.body}"
            return {"path": str(self.output / "parquet" / kind)}
        if row.source == "apache":
            broker = self.apache(topic, body, count)
            return {"address": broker.name_servers[0], "pid": broker.pid}
        if row.source == "floor":
            return {}
        ours = self.restarted() if row.source == "restarted" else self.ours()
        return {"address": ours.name_server, "pid": ours.pid}

    def _sink(self, row: Row) -> Order:
        if row.sink == "topic":
            return {"to": self.ours().name_server, "pid": self.ours().pid, "target": f"sink-{row.body}"}
        if row.sink == "kafka":
            return {"to": self.kafka().address, "pid": self.kafka().pid, "target": f"sink-{row.body}"}
        return {}

    # -- making the rows

    def prepare(self, rows: Sequence[Row]) -> None:
        """Make what rows need. Our broker is filled in every run, for it serves best what it wrote itself."""
        topics = {f"bench-{body}": (body, rows_of(self.size, body), QUEUES) for body in BODIES}
        topics[WARM_TOPIC] = (BODIES[0], warm_rows(self.size), QUEUES)
        is_copied = all((self.output / "made" / mark).exists() for mark, _ in self._copies(topics))
        if not is_copied or any(row.needs_ours for row in rows):
            shutil.rmtree(self.output / "store", ignore_errors=True)
            ours = topics | {f"bench-queues-{n}": (BODIES[0], self.size // 4, n) for n in (1, 64)}
            ours |= {"bench-latency": (BODIES[0], 1, 4)} | {f"sink-{body}": (body, 0, QUEUES) for body in BODIES}
            for topic, (body, count, queues) in ours.items():
                say(f"our broker: {topic}, {count} messages of {body} bytes in {queues} queues")
                fill(self.ours().name_server, topic, body, count, queues)
        self._copy(topics)

    def _copy(self, topics: dict[str, tuple[int, int, int]]) -> None:
        with ExitStack() as stack:
            session: Session | None = None
            for mark, order in self._copies(topics):
                with self._once(mark) as is_needed:
                    if is_needed:
                        say(f"a copy of the rows: {mark}")
                        order |= {"path": str(self.store)}
                        session = session or stack.enter_context(Session(PLAIN, self.output))
                        if order.get("sink") == "kafka":
                            order["to"] = self.kafka().address
                        session.ask(order)

    def _copies(self, topics: dict[str, tuple[int, int, int]]) -> Iterator[tuple[str, Order]]:
        """The copies of topics in other places, and rows for sinks, each by the mark it leaves when it is done."""
        for topic, (_, count, _) in topics.items():
            store = {"source": "store", "topic": topic, "count": count}
            target = str(self.output / "parquet" / topic)
            yield f"parquet-{topic}", {"do": "copy", **store, "sink": "parquet", "target": target, "whole": True}
            yield f"kafka-{topic}", {"do": "copy", **store, "sink": "kafka", "target": topic}
        for body in BODIES:
            target, count = str(self.output / "parquet" / f"made-{body}"), rows_of(self.size, body) // 8
            yield f"made-{body}", {"do": "make", "body": body, "count": count, "target": target}
            yield f"kafka-sink-{body}", {"do": "topic", "sink": "kafka", "target": f"sink-{body}"}

    @contextmanager
    def _once(self, name: str) -> Iterator[bool]:
        """Whether something is still to be made; it is noted when that went well."""
        mark = self.output / "made" / name
        yield not mark.exists()
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def fill(address: str, topic: str, body: int, count: int, queues: int = QUEUES) -> None:
    """A topic with so many unique random bodies and keys, in all queues in turn."""

    async def create() -> None:
        async with Admin(address) as admin:
            if not await admin.topics.exists(topic):
                await admin.topics.create(topic, queues=queues)

    asyncio.run(create())
    chance = random.Random(7)
    with PullConsumer(address, group="bench-looking") as looker:
        targets = sorted(looker.queues(topic))
    some = max(1, min(1000, (1 << 20) // (body + 200), -(-count // queues)))
    with Producer(address, group="bench", send_timeout_ms=30_000) as producer:
        for start in range(0, count, some):
            numbers = range(start, min(start + some, count))
            queue = targets[start // some % len(targets)]
            rows = [Message.of(topic, chance.randbytes(body), tag="t", keys=[f"order-{each:09d}"]) for each in numbers]
            producer.send_batch(rows, queue=queue)


@contextmanager
def fed(address: str) -> Iterator[None]:
    """A thousand messages a second, in small batches, while the block runs."""
    done = threading.Event()

    def feed() -> None:
        with Producer(address, group="bench-feed") as producer:
            while not done.wait(FEED_EVERY_S):
                producer.send_batch([Message.of("bench-latency", b"x" * 100) for _ in range(FEED_ROWS)])

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

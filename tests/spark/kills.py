"""Kills of driver, executor and broker at random points while a topic is archived; then nothing is lost or doubled.

    python -m tests.spark.kills --points 200 --directory DIR [--seed N] [--formats A,B] [--ledger FILE]

Run again with the same directory it goes on where it stopped: broker, tables and checkpoints are on disk, and what was
acknowledged to the feeder is in a file. Every part ends with a comparison, and a line in the ledger.
"""

import argparse
import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from firearrow.blocking import Message, Producer
from firearrow.errors import FireArrowError
from tests.spark.serving import Served

FORMATS = "parquet,iceberg,delta"
KINDS = ("broker", "executor", "driver")
EXECUTOR = "CoarseGrainedExecutorBackend"
CLUSTER = "local-cluster[1,2,1024]"
TOPIC = "orders"
START_PATIENCE_S = 180.0
FEED_ROWS = 20
FEED_PAUSE_S = 0.1


class Feeder:
    """Sends numbered messages on and on, and remembers which were acknowledged."""

    def __init__(self, name_server: str, acknowledged: Path) -> None:
        self._name_server = name_server
        self._file = acknowledged
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.count = sum(1 for _ in acknowledged.open()) if acknowledged.exists() else 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer(self._name_server, group="feeder") as producer, self._file.open("a") as acknowledged:
            while not self._stop.wait(FEED_PAUSE_S):
                numbers = range(self.count, self.count + FEED_ROWS)
                with contextlib.suppress(FireArrowError):  # a broker that is away: the same numbers again
                    producer.send_batch([Message.of(TOPIC, b"%d" % number, keys=[str(number)]) for number in numbers])
                    self.count += FEED_ROWS
                    acknowledged.write("".join(f"{number}\n" for number in numbers))


class Driver:
    """One life of the archiving driver."""

    def __init__(
        self, what: str, directory: Path, name_server: str, formats: str, python: str, more: Sequence[str]
    ) -> None:
        master = CLUSTER if what == "follow" else "local[2]"
        words = [python, "-m", "tests.spark.archiver", what, str(directory), name_server, TOPIC, master, formats, *more]
        log = (directory / "driver.log").open("ab")
        environment = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, env=environment
        )
        log.close()
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("")

    def wait_for(self, beginning: str, patience_s: float = START_PATIENCE_S) -> str | None:
        """The next line that begins so; None when the driver ended before, or takes too long."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if line.startswith(beginning):
                return line
            if not line:
                return None

    def executors(self) -> list[int]:
        """The JVMs that run tasks."""
        return [pid for pid, words in descendants(self.process.pid) if EXECUTOR in words]

    def kill(self) -> None:
        """End driver, executors and Python workers at once."""
        family = [pid for pid, _ in descendants(self.process.pid)]
        for pid in [self.process.pid, *family]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._reading.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


def descendants(root: int) -> Iterator[tuple[int, str]]:
    """The processes below one, with their command lines."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, ())
        words = ""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        yield pid, words


class Campaign:
    """Lives of a driver, each with a few kills and the next of the formats, over tables that stay."""

    def __init__(self, directory: Path, seed: int, formats: str, python: str, more: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._formats, self._python, self._more = directory, formats, python, more
        self._chance = random.Random(seed)
        self._lives = 0
        self.done: dict[str, int] = dict.fromkeys(KINDS, 0)

    def run(self, points: int, seconds: float = 1e9) -> dict[str, Any]:
        """Kill at so many points, or for so long, then compare."""
        ends = time.monotonic() + seconds
        broker = Served(self._directory / "broker")
        broker.start()
        try:
            with Feeder(broker.name_server, self._directory / "acknowledged") as feeder:
                while sum(self.done.values()) < points and time.monotonic() < ends:
                    self._life(broker, points)
            verdict = self._compare(broker)
            verdict["acknowledged"] = feeder.count
        finally:
            broker.kill()
        return {"points": sum(self.done.values()), "kills": self.done, **verdict}

    def _driver(self, what: str, broker: Served, formats: str) -> Driver:
        return Driver(what, self._directory, broker.name_server, formats, self._python, self._more)

    def _life(self, broker: Served, points: int) -> None:
        formats = self._formats.split(",")
        driver = self._driver("follow", broker, formats[self._lives % len(formats)])
        self._lives += 1
        try:
            if driver.wait_for("batch") is None:
                return  # a query gave up, as it may after a kill: the next life goes on from its checkpoint
            kinds = [*list(self._chance.sample(KINDS[:2], 2)), "driver"]
            for kind in kinds:
                if sum(self.done.values()) >= points or driver.process.poll() is not None:
                    return
                time.sleep(self._chance.uniform(0.0, 3.0))
                self._kill(kind, driver, broker)
        finally:
            driver.kill()

    def _kill(self, kind: str, driver: Driver, broker: Served) -> None:
        if kind == "driver":
            driver.kill()
        elif kind == "broker":
            broker.kill()
            time.sleep(self._chance.uniform(0.0, 1.0))
            broker.start()
        else:
            victims = driver.executors()
            if not victims:
                return
            os.kill(self._chance.choice(victims), signal.SIGKILL)
        self.done[kind] += 1

    def _compare(self, broker: Served) -> dict[str, Any]:
        for _ in range(3):
            driver = self._driver("finish", broker, self._formats)
            try:
                line = driver.wait_for("{", 4 * START_PATIENCE_S)
            finally:
                driver.kill()
            if line is not None:
                verdict: dict[str, Any] = json.loads(line)
                return verdict
        raise AssertionError(f"the tables could not be compared; see {self._directory / 'driver.log'}")


def faults(verdict: dict[str, Any]) -> list[str]:
    """What is wrong with the tables."""
    found = []
    for name, seen in verdict.items():
        if isinstance(seen, dict) and "rows" in seen:
            found += [
                f"{name}: {seen[kind]} {kind}" for kind in ("lost", "duplicated", "unknown", "changed") if seen[kind]
            ]
    if verdict["messages"] < verdict["acknowledged"]:
        found.append(f"the topic holds {verdict['messages']} of {verdict['acknowledged']} acknowledged messages")
    return found


def main() -> int:
    """Run a part of the campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--points", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--formats", default=FORMATS)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, key=value")
    parser.add_argument("--ledger", type=Path)
    given = parser.parse_args()
    seed = random.Random().randrange(1 << 32) if given.seed is None else given.seed
    began = time.monotonic()
    campaign = Campaign(given.directory, seed, given.formats, given.python, given.conf)
    verdict = {"campaign": "spark kills", "seed": seed, **campaign.run(given.points, given.seconds)}
    verdict["seconds"] = round(time.monotonic() - began)
    print(json.dumps(verdict))
    wrong = faults(verdict)
    if given.ledger is not None:
        with given.ledger.open("a") as ledger:
            ledger.write(json.dumps({**verdict, "faults": wrong}) + "\n")
    print("\n".join(wrong) or "0 lost, 0 duplicated")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

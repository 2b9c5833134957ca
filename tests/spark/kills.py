"""Kills of driver, executor and broker while a topic is archived, or written to another; nothing is lost or doubled.

    python -m tests.spark.kills --points 200 --directory DIR [--seconds S] [--seed N] [--formats A,B] [--ledger [FILE]]

``--formats sink`` writes the topic to another topic instead, in which every row must be once. ``sink-control`` asks the
broker to store repeated rows, so it shows how many rows the kills repeat.

Formats ``changing-iceberg`` and ``changing-delta`` (``make spark-changes``) are archives whose schema of bodies is
another one in every life, and whose driver is also killed while it changes the tables. Formats ``upsert-iceberg`` and
``upsert-delta`` are tables by key, which must equal the topic folded by key.

Run again with the same directory it goes on where it stopped, however it was stopped: broker, tables and checkpoints
are on disk, and so are the numbers that were acknowledged to the feeder and the count of kills. ``--points`` counts
kills over all runs, ``--seconds`` ends one run. Every run ends with a comparison, and a line in the ledger.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.spark.processes import processes_below
from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from firearrow.blocking import Message, Producer
from firearrow.errors import FireArrowError
from tests.spark import changing, folding
from tests.spark.serving import Served, end_with_parent

FORMATS = "parquet,iceberg,delta"
CHANGING = "changing-iceberg,changing-delta"
UPSERTS = "upsert-iceberg,upsert-delta"
SINK = "sink"
KINDS = ("broker", "executor", "driver")
EXECUTOR = "CoarseGrainedExecutorBackend"
CLUSTER = "local-cluster[1,2,1024]"
TOPIC = "orders"
START_PATIENCE_S = 180.0
FEED_ROWS = 20
FEED_PAUSE_S = 0.1


def progress(text: str) -> None:
    """One line for whoever watches."""
    print(f"[{time.strftime('%H:%M:%S', time.gmtime())}] {text}", flush=True)


class Feeder:
    """Sends numbered messages on and on, and remembers which were acknowledged."""

    def __init__(self, name_server: str, acknowledged: Path, body: Callable[[int], bytes]) -> None:
        self._name_server, self._body = name_server, body
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
                    rows = [Message.of(TOPIC, self._body(number), keys=[str(number)]) for number in numbers]
                    producer.send_batch(rows)
                    self.count += FEED_ROWS
                    acknowledged.write("".join(f"{number}\n" for number in numbers))
                    acknowledged.flush()


class Driver:
    """One life of the archiving driver."""

    def __init__(
        self, what: str, directory: Path, name_server: str, formats: str, python: str, more: Sequence[str], stage: int
    ) -> None:
        master = CLUSTER if what == "follow" else "local[2]"
        module = "tests.spark.sinker" if formats.startswith(SINK) else "tests.spark.archiver"
        words = [python, "-m", module, what, str(directory), name_server, TOPIC, master, formats, *more]
        log = (directory / "driver.log").open("ab")
        environment = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
        environment["ARCHIVER_STAGE"] = str(stage)
        self.process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env=environment,
            preexec_fn=end_with_parent,
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
    _, *below = processes_below(root)
    for pid in below:
        words = ""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        yield pid, words


class Campaign:
    """Lives of a driver, each with a few kills and the next of the formats, over tables that stay."""

    def __init__(self, directory: Path, seed: int, formats: str, python: str, more: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._formats, self._python, self._more = directory, formats, python, more
        self._notes = directory / "kills.json"
        self.done: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._lives = 0
        if self._notes.exists():
            notes = json.loads(self._notes.read_text())
            self._lives, self.done = notes["lives"], {**self.done, **notes["kills"]}
        # What is drawn after a restart is not what was drawn before it.
        self._chance = random.Random(f"{seed} {self._lives}")

    def run(self, points: int, seconds: float = 1e9) -> dict[str, Any]:
        """Kill until there were so many kills and one of each kind, or for so long, then compare."""
        before, ends = sum(self.done.values()), time.monotonic() + seconds
        broker = Served(self._directory / "broker", ends_with_parent=True)
        broker.start()
        body = folding.body if self._formats.startswith(folding.PREFIX) else changing.body
        try:
            with Feeder(broker.name_server, self._directory / "acknowledged", body) as feeder:
                while not self._is_enough(points) and time.monotonic() < ends:
                    self._life(broker, points)
            verdict = self._compare(broker)
            verdict["acknowledged"] = feeder.count
        finally:
            broker.kill()
        total = sum(self.done.values())
        return {"points": total, "points_of_this_run": total - before, "kills": self.done, **verdict}

    def _is_enough(self, points: int) -> bool:
        return sum(self.done.values()) >= points and all(self.done.values())

    def _note(self) -> None:
        fresh = self._notes.with_suffix(".new")
        fresh.write_text(json.dumps({"lives": self._lives, "kills": self.done}))
        fresh.replace(self._notes)

    def _driver(self, what: str, broker: Served, formats: str) -> Driver:
        stage = self._lives // len(self._formats.split(","))  # every format gets every schema
        return Driver(what, self._directory, broker.name_server, formats, self._python, self._more, stage)

    def _life(self, broker: Served, points: int) -> None:
        formats = self._formats.split(",")
        driver = self._driver("follow", broker, formats[self._lives % len(formats)])
        self._lives += 1
        self._note()
        try:
            if formats[0].startswith(changing.PREFIX) and self._lives % 3 == 0:
                # Between the first look at the tables and the first batch with a new schema.
                time.sleep(self._chance.uniform(8.0, 30.0))
                self._kill("driver", driver, broker)
                return
            if driver.wait_for("batch") is None:
                progress(f"life {self._lives}: the driver ended by itself or made no batch")
                return  # a query gave up, as it may after a kill: the next life goes on from its checkpoint
            kinds = [*list(self._chance.sample(KINDS[:2], 2)), "driver"]
            for kind in kinds:
                if self._is_enough(points) or driver.process.poll() is not None:
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
        self._note()
        progress(f"life {self._lives}: {kind} killed, {sum(self.done.values())} kills in all {self.done}")

    def _compare(self, broker: Served) -> dict[str, Any]:
        progress("comparing tables with the topic")
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
    """The faults of the tables."""
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
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing started here is left behind
    seed = random.Random().randrange(1 << 32) if given.seed is None else given.seed
    began = time.monotonic()
    campaign = Campaign(given.directory.resolve(), seed, given.formats, given.python, given.conf)
    verdict = {"seed": seed, **campaign.run(given.points, given.seconds)}
    wrong = faults(verdict)
    name = f"{given.formats}-kills" if given.formats.startswith(SINK) else "spark-kills"
    figures = {**verdict, "seconds": round(time.monotonic() - began), "faults": wrong}
    print(json.dumps(Ledger(name, given.ledger).add(figures)))
    print("\n".join(wrong) or "0 lost, 0 duplicated")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

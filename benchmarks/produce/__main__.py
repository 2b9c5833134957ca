"""``python -m benchmarks.produce``: a million lines with eight sharding keys, from a pipe and from a file.

``firearrow produce`` sends them to our broker, ``kcat`` the same lines to Kafka, if it is installed (a package of
Debian; Kafka comes from Maven). Then every queue is read, and the order within each key is looked at. The rate is over
all of the process, its start included; the pipe's writer runs beside it. The exit status is 1 when an order is broken.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.produce.lines import KEYS, chunks
from benchmarks.spark.kafka import Kafka
from campaigns.faults.ledger import DEFAULT_PATH, Figures, Ledger
from firearrow.client import PullConsumer
from firearrow.model import keys
from judges import FireArrowBroker, FireArrowNameServer, fresh

MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
QUEUES = 8


class Broken(Exception):
    """Messages are missing, or lie in another order than they were written in."""


def from_pipe(command: list[str], kind: str, lines: int) -> float:
    """Seconds until the command has sent what a neighbour writes."""
    began = time.monotonic()
    words = [sys.executable, "-m", "benchmarks.produce.lines", kind, str(lines)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        subprocess.run(command, stdin=writer.stdout, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def from_file(command: list[str], path: Path) -> float:
    """Seconds until the command has sent a file, which is its standard input."""
    began = time.monotonic()
    with path.open("rb") as file:
        subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def check_order(bodies: dict[str, list[int]], lines: int) -> None:
    """Raise ``Broken`` unless each key has its lines, in order."""
    for number in range(KEYS):
        wanted = list(range(number, lines, KEYS))
        found = bodies[f"k{number}"]
        if found != wanted:
            what = "in another order" if sorted(found) == wanted else f"{len(found)} instead of {len(wanted)}"
            raise Broken(f"the messages of k{number} are {what}")


async def stored(names: str, topic: str) -> dict[str, list[int]]:
    """The numbers of each key, in the order of their queue."""
    found: dict[str, list[int]] = defaultdict(list)
    async with PullConsumer(names, group=fresh("look")) as reader:
        for queue, held in (await reader.bounds(topic)).items():
            async for pulled in reader.pull_range(queue, held.first, held.end):
                for message in pulled.messages():
                    found[message.properties[keys.SHARDING_KEY]].append(int(message.body.split()[0]))
    return found


def ours(lines: int, directory: Path) -> Iterator[tuple[str, float]]:
    """Our command to our broker, both ways."""
    path = _written(directory, "json", lines)
    with FireArrowNameServer() as names, FireArrowBroker(name_servers=[names.address]) as broker:
        for way in ("pipe", "file"):
            topic = broker.create_topic(fresh(way), QUEUES)
            command = [sys.executable, "-c", MAIN, "produce", topic, "-f", "json", "-n", names.address]
            took = from_pipe(command, "json", lines) if way == "pipe" else from_file(command, path)
            check_order(asyncio.run(stored(names.address, topic)), lines)
            yield f"firearrow produce, {way}", took


def theirs(lines: int, directory: Path) -> Iterator[tuple[str, float]]:
    """kcat to Kafka, both ways; its defaults, which are acknowledged by the one node there is."""
    path = _written(directory, "keyed", lines)
    with Kafka(directory / "kafka", QUEUES, creates=True) as kafka:
        for way in ("pipe", "file"):
            topic = fresh(way)
            command = ["kcat", "-P", "-b", kafka.address, "-t", topic, "-K:"]
            took = from_pipe(command, "keyed", lines) if way == "pipe" else from_file(command, path)
            check_order(_read(kafka, topic), lines)
            yield f"kcat, {way}", took


def _written(directory: Path, kind: str, lines: int) -> Path:
    path = directory / kind
    with path.open("wb") as file:
        for chunk in chunks(kind, lines):
            file.write(chunk)
    return path


def _read(kafka: Kafka, topic: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    words = ["kcat", "-C", "-q", "-e", "-b", kafka.address, "-t", topic, "-o", "beginning", "-f", "%k %s\n"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        for line in reader.stdout:
            key, number = line.split()[:2]
            found[key].append(int(number))
    return found


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="firearrow-produce-") as directory:
        yield Path(directory)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    figures: Figures = {"lines": given.lines, "keys": KEYS}
    sides = [ours, theirs] if shutil.which("kcat") else [ours]
    with _scratch() as directory:
        for side in sides:
            for name, took in side(given.lines, directory):
                figures[name] = {"seconds": round(took, 1), "lines_per_s": round(given.lines / took)}
                print(f"{name:<24}{took:8.1f} s {given.lines / took:10,.0f} lines/s, order kept", flush=True)
    if theirs not in sides:
        print("kcat is not installed: apt-get install kcat compares with it")
    print(json.dumps(Ledger("produce-lines", given.ledger).add(figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

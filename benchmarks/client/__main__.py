"""`python -m benchmarks.client`: our client beside the other Python clients and Apache's Java client, in one run.

    python -m benchmarks.client                       every row, every client, one round
    python -m benchmarks.client --rows one,async --seconds 6 --rounds 3
    python -m benchmarks.client --broker ours         at our broker instead of Apache's

Everybody talks to one broker, one after the other, each in a process of its own. A row's figure is the median of its
rounds. Beside the rate: microseconds of CPU a message, of the client's process and of the broker's; threads and memory
of the client.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

from benchmarks.client import others
from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer
from judges.server_process import Server, wait_for

ROOT = Path(__file__).parents[2]
BODY, IN_FLIGHT, BATCH, QUEUES = 128, 256, 32, 8
BACKLOG = 1_000_000
ROWS = {
    "one": "one at a time",
    "async": f"{IN_FLIGHT} in flight",
    "linger": "1,000 tasks, linger 1 ms",
    "batch": f"batches of {BATCH}, 4 at once",
    "receive": "received",
}
CAN = {
    "ours": ("one", "async", "linger", "batch", "receive"),
    "ours-uvloop": ("one", "async", "linger", "batch", "receive"),
    "ours-blocking": ("one", "batch", "receive"),
    "wheel": ("one", "async", "receive"),
    "wheel-threads": ("async",),
    "grpc": ("one", "async", "receive"),
    "java": ("one", "async", "batch", "receive"),
}
OTHERS = ("wheel", "wheel-threads", "grpc")
WARM_UP_S = 6.0
FIRST_S = 20.0


class Figure(NamedTuple):
    """One turn of one client."""

    rate: float
    cpu_us: float
    broker_us: float
    threads: int
    memory_mib: float


Figures = dict[str, dict[str, list[Figure]]]


def cpu_s(pid: int) -> float:
    """CPU that a process has used, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(pid: int, name: str) -> int:
    """A number of /proc/PID/status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise KeyError(name)


class Turn:
    """A client at work until the end of the block."""

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment, bufsize=0
        )
        self._count, self._rest = 0, b""

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def done(self) -> int:
        """Return the number of messages that the client has reported."""
        assert self._process.stdout is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the client ended with {self._process.returncode}")
        *lines, self._rest = (self._rest + (self._process.stdout.read() or b"")).split(b"\n")
        numbers = [int(line) for line in lines if line.isdigit()]
        self._count = numbers[-1] if numbers else self._count
        return self._count


def measure(words: Sequence[str], environment: dict[str, str], broker: Server, lead_s: float, seconds: float) -> Figure:
    """Let a client work, and look at it from the end of its lead on."""
    with Turn(words, environment) as turn:
        wait_for(lambda: turn.done() > 0, "the first message", FIRST_S)
        time.sleep(lead_s)
        begun, first, cpu, at_broker = time.monotonic(), turn.done(), cpu_s(turn.pid), broker.cpu_seconds()
        time.sleep(seconds)
        count = turn.done() - first
        took = time.monotonic() - begun
        if count <= 0:
            raise RuntimeError("it did nothing more")
        return Figure(
            count / took,
            (cpu_s(turn.pid) - cpu) / count * 1e6,
            (broker.cpu_seconds() - at_broker) / count * 1e6,
            status(turn.pid, "Threads"),
            status(turn.pid, "VmRSS") / 1024,
        )


def words_of(who: str, row: str, names: str, topic: str, home: Path) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of a client."""
    arguments = [row, names, topic, str(BODY), str(IN_FLIGHT), str(BATCH)]
    environment = {**os.environ, "HOME": str(home)}
    if who == "java":
        return [*others.java_words(home), *arguments], environment
    extra = {"wheel": others.wheel, "wheel-threads": others.wheel, "grpc": others.grpc}.get(who)
    if extra is not None:
        environment["PYTHONPATH"] = str(extra().install())
    return [sys.executable, "-m", "benchmarks.client.contestant", who, *arguments], environment


def fill(names: str, topic: str) -> None:
    """Messages to receive."""
    import asyncio

    from firearrow.client import Message, Producer

    async def send() -> None:
        async with Producer(names, group="fill", send_timeout_ms=60_000) as producer:
            some = [Message.of(topic, b"x" * BODY) for _ in range(1000)]
            for _ in range(BACKLOG // 4000):
                await asyncio.gather(*(producer.send_batch(some) for _ in range(4)))

    asyncio.run(send())


def middle(turns: list[Figure]) -> Figure:
    """The median of every column."""
    return Figure(*(statistics.median(column) for column in zip(*turns, strict=True)))


def best_other(figures: Figures, row: str) -> float:
    """The rate of the fastest other Python client; for rows that none of them has, its rate of single sends."""
    of = figures.get(row if any(who in figures.get(row, {}) for who in OTHERS) else "async", {})
    return max((middle(turns).rate for who, turns in of.items() if who in OTHERS), default=0.0)


def table(figures: Figures) -> str:
    """The page of results."""
    lines = []
    head = f"  {'client':16}{'per s':>10}{'x others':>10}{'CPU us':>9}{'broker us':>11}{'threads':>9}{'MiB':>7}"
    for row, title in ROWS.items():
        if row not in figures:
            continue
        lines += [f"\n{title}, {BODY} B", head]
        rival = best_other(figures, row)
        for who, turns in figures[row].items():
            one = middle(turns)
            times = f"{one.rate / rival:.2f}" if rival else ""
            lines.append(
                f"  {who:16}{one.rate:10,.0f}{times:>10}{one.cpu_us:9.1f}{one.broker_us:11.1f}"
                f"{one.threads:9.0f}{one.memory_mib:7.0f}"
            )
    return "\n".join(lines) + thread_hop(figures.get("one", {}))


def thread_hop(one: dict[str, list[Figure]]) -> str:
    """Return the cost a message of the blocking twin's way into another thread."""
    if "ours-blocking" not in one or "ours-uvloop" not in one:
        return ""
    hop = 1e6 / middle(one["ours-blocking"]).rate - 1e6 / middle(one["ours-uvloop"]).rate
    return f"\n\nthe blocking twin's thread hop: {hop:.0f} us a message"


def servers(stack: ExitStack, whose: str) -> tuple[Server, ApacheBroker]:
    """Start the broker that everybody talks to."""
    if whose == "ours":
        names: Server = stack.enter_context(FireArrowNameServer())
        return names, stack.enter_context(FireArrowBroker(name_servers=[names.address]))
    names = stack.enter_context(ApacheNameServer(others.VERSION))
    return names, stack.enter_context(ApacheBroker(others.VERSION, name_servers=[names.address], measured=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--clients", default=",".join(CAN))
    parser.add_argument("--broker", choices=("apache", "ours"), default="apache")
    parser.add_argument("--lead", type=float, default=2.0, help="seconds before a turn counts")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    options = parser.parse_args()
    rows, clients = options.rows.split(","), options.clients.split(",")
    figures: Figures = {}
    with ExitStack() as stack:
        names, broker = servers(stack, options.broker)
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firearrow-bench-")))
        proxy = stack.enter_context(others.Proxy(names.address)) if "grpc" in clients else None
        topic, full = broker.create_topic("bench", QUEUES), broker.create_topic("backlog", QUEUES)
        if "receive" in rows:
            fill(names.address, full)
        for row in ("one", "async"):  # a broker that has not compiled its way yet would make the first client look slow
            words, environment = words_of("ours-uvloop", row, names.address, topic, home)
            measure(words, environment, broker, 0, WARM_UP_S)
        for _ in range(options.rounds):
            for row in rows:
                for who in (who for who in clients if row in CAN[who]):
                    at = proxy.address if who == "grpc" and proxy is not None else names.address
                    words, environment = words_of(who, row, at, full if row == "receive" else topic, home)
                    lead = 0.5 if row == "receive" and who != "java" else options.lead
                    try:
                        figure = measure(words, environment, broker, lead, options.seconds)
                    except (RuntimeError, TimeoutError) as error:
                        print(f"  {who} {row}: {error}", file=sys.stderr, flush=True)
                        continue
                    figures.setdefault(row, {}).setdefault(who, []).append(figure)
                    print(f"  {row} {who}: {figure.rate:,.0f}/s", file=sys.stderr, flush=True)
    print(f"broker: {options.broker}, {options.rounds} round(s) of {options.seconds:g} s; {os.cpu_count()} cores")
    print(table(figures))
    if options.output:
        told: dict[str, Any] = {
            row: {who: [t._asdict() for t in ts] for who, ts in of.items()} for row, of in figures.items()
        }
        options.output.write_text(json.dumps(told))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.nameserver`: both name servers, the same cluster, the same load, in turns.

Both servers run for the whole time and hold the same cluster; one at a time is loaded. The load generator has a core of
its own, the servers the other one. Apache's runs as in earnest: full JIT, G1, a heap of 1 GiB. CPU seconds are the
kernel's, of all threads. The warm-up is not counted.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.nameserver.shape import EVERYWHERE, Shape, topic_name
from firearrow import fastjson
from judges import ApacheNameServer, FireArrowNameServer, Server

CONNECTIONS = 64
WARM_LOOKUPS_S = 10_000
"""Lookups for each second of warm-up: on a busy machine it lasts longer, so that Apache's code is compiled anyway."""


@dataclass
class Figures:
    """The measurements of one server; one entry a turn."""

    lookups_s: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    lookups_cpu_s: list[float] = field(default_factory=list)
    first_round_cpu_s: list[float] = field(default_factory=list)
    round_cpu_s: list[float] = field(default_factory=list)
    changed_round_cpu_s: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    anon_mib: list[float] = field(default_factory=list)


ROWS: list[tuple[str, str, bool]] = [
    ("lookups_s", "route lookups a second", True),
    ("p50_ms", "  p50, ms", False),
    ("p99_ms", "  p99, ms", False),
    ("lookups_cpu_s", "route lookups a CPU second", True),
    ("first_round_cpu_s", "CPU s, first registration of all brokers", False),
    ("round_cpu_s", "CPU s, one heartbeat round", False),
    ("changed_round_cpu_s", "CPU s, one round with every table changed", False),
    ("rss_mib", "resident memory, MiB", False),
    ("anon_mib", "  of it anonymous, MiB", False),
]


class Load:
    """The generator's process."""

    def __init__(self, shape: Shape, core: int | None) -> None:
        words = [sys.executable, "-m", "benchmarks.nameserver.load", str(shape.brokers), str(shape.topics)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pin(self.process.pid, core)

    def do(self, verb: str, **arguments: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": verb, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the load generator ended"
        result: dict[str, Any] = json.loads(line)
        return result

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def pin(pid: int, core: int | None) -> None:
    """Keep every thread of a process on one core."""
    if core is not None:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads, in nanoseconds' resolution."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((thread / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue
    return total / 1e9


class Turns:
    """Both servers and the load, in turns."""

    def __init__(self, servers: dict[str, Server], load: Load, shape: Shape) -> None:
        self.servers = servers
        self.load = load
        self.shape = shape
        self.figures = {name: Figures() for name in servers}

    def join(self) -> None:
        for name, server in self.servers.items():
            cost, result = self._cost(server, lambda port=server.port: self.load.do("join", port=port))  # type: ignore[misc]
            self.figures[name].first_round_cpu_s.append(cost)
            megabytes, seconds = result["bytes"] / 1e6, result["seconds"]
            say(f"{name}: {self.shape.brokers} brokers registered, {megabytes:.1f} MB in {seconds:.1f} s")

    def compare(self) -> None:
        """Both must say the same, or the figures mean nothing."""
        for topic in (topic_name(0), topic_name(self.shape.topics - 1), EVERYWHERE):
            said = [self.load.do("route", port=server.port, topic=topic)["body"] for server in self.servers.values()]
            ours, theirs = (in_order(fastjson.read(body.encode())) for body in said)
            assert ours == theirs, f"the servers disagree about {topic}"

    def rounds(self, editions: int) -> None:
        for edition in range(2, editions + 2):
            for name, server in self.servers.items():
                changed, _ = self._round(server, edition)
                same, _ = self._round(server, edition)
                self.figures[name].changed_round_cpu_s.append(changed)
                self.figures[name].round_cpu_s.append(same)

    def lookups(self, turns: int, seconds: float, warm_up_s: float) -> None:
        for name, server in self.servers.items():
            warm = {"seconds": warm_up_s, "at_least": int(WARM_LOOKUPS_S * warm_up_s)}
            result = self.load.do("lookup", port=server.port, connections=CONNECTIONS, **warm)
            say(f"{name}: warmed up by {result['lookups']:,} lookups in {result['seconds']:.0f} s")
        for turn in range(turns):
            for name, server in self.servers.items():
                arguments = {"port": server.port, "seconds": seconds, "connections": CONNECTIONS}
                cost, result = self._cost(server, lambda arguments=arguments: self.load.do("lookup", **arguments))  # type: ignore[misc]
                figures = self.figures[name]
                figures.lookups_s.append(result["lookups"] / result["seconds"])
                figures.lookups_cpu_s.append(result["lookups"] / cost)
                figures.p50_ms.append(result["p50_ms"])
                figures.p99_ms.append(result["p99_ms"])
                say(f"turn {turn + 1}, {name}: {result['lookups'] / cost:,.0f} lookups a CPU second")

    def memory(self) -> None:
        for name, server in self.servers.items():
            self.figures[name].rss_mib.append(server.memory_bytes("VmRSS") / 2**20)
            self.figures[name].anon_mib.append(server.memory_bytes("RssAnon") / 2**20)

    def _round(self, server: Server, edition: int) -> tuple[float, dict[str, Any]]:
        return self._cost(server, lambda: self.load.do("round", port=server.port, edition=edition))

    def _cost(self, server: Server, work: Callable[[], dict[str, Any]]) -> tuple[float, dict[str, Any]]:
        before = cpu_s(server.pid)
        result = work()
        return cpu_s(server.pid) - before, result


def in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): in_order(part) for key, part in value.items()}
    if isinstance(value, list):
        return sorted((in_order(part) for part in value), key=lambda part: json.dumps(part, sort_keys=True))
    return value


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def shown(values: list[float]) -> str:
    """The middle of the turns, with the extremes."""
    middle = sorted(values)[len(values) // 2]
    digits = 0 if middle >= 100 else 2 if middle >= 1 else 3
    spread = f" ({min(values):,.{digits}f} - {max(values):,.{digits}f})" if len(values) > 1 else ""
    return f"{middle:,.{digits}f}{spread}"


def print_table(figures: dict[str, Figures]) -> None:
    ours, theirs = figures.values()
    print(f"| {'':42} | {' | '.join(f'{name:32}' for name in figures)} | ratio |")
    print(f"|{'-' * 44}|{'-' * 34}|{'-' * 34}|-------|")
    for name, label, _more_is_better in ROWS:
        a, b = getattr(ours, name), getattr(theirs, name)
        ratio = sorted(a)[len(a) // 2] / sorted(b)[len(b) // 2]
        print(f"| {label:42} | {shown(a):32} | {shown(b):32} | {ratio:5.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the cluster, short turns: a smoke test")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a turn")
    parser.add_argument("--warm-up", type=float, default=20.0)
    options = parser.parse_args()
    shape = Shape(104, 1001) if options.quick else Shape()
    turns, seconds, warm_up = (2, 3.0, 4.0) if options.quick else (options.turns, options.seconds, options.warm_up)
    cores = sorted(os.sched_getaffinity(0))
    server_core, load_core = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    started = time.monotonic()
    with ExitStack() as stack:
        ours = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        apaches = stack.enter_context(ApacheNameServer("5.5.0", measured=True))
        load = Load(shape, load_core)
        stack.callback(load.close)
        for server in (ours, apaches):
            pin(server.pid, server_core)
        run = Turns({"FireArrow": ours, "Apache 5.5.0": apaches}, load, shape)
        run.join()
        run.compare()
        run.lookups(turns, seconds, warm_up)
        run.rounds(turns)
        run.memory()
    print(f"\n{shape.topics:,} topics, each on 8 of {shape.brokers:,} brokers with 8 queues, and one topic on all;")
    print(f"{CONNECTIONS} connections, each waiting for its answer; every broker registers every 30 s meanwhile.")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, {cpu_name()}; Python {platform.python_version()}; {java}")
    print(f"{turns} turns of {seconds:.0f} s, middle (least - most); {time.monotonic() - started:.0f} s in all\n")
    print_table(run.figures)


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


if __name__ == "__main__":
    main()

"""`python -m benchmarks.overload`: sends beyond capacity, idle connections, waiting pulls, a cold backlog.

The broker has one core, the generator the other. Capacity is what 1,000 connections get through with a few sends under
way each; then twice and ten times as much is offered, at most 64 sends under way on each connection. On a machine that
others use too, read the end of each line first: it says how fast the broker's core was (`speed`) and how long it was
somebody else's.
"""

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.overload.cold import CONTROL, measure_cold
from benchmarks.overload.cores import pin, waited_s
from benchmarks.overload.idle import measure_idle
from benchmarks.overload.parked import measure_parked
from benchmarks.overload.speed import Speed
from benchmarks.versus.contestants import OURS, FireArrowInEarnest
from judges import FireArrowNameServer
from judges.wire import ask

TOPIC = "overload"
PRODUCERS_OF_GROUP = 204
CAPACITY_WINDOWS = (1, 2, 4)
PARTS = ("overload", "idle", "parked", "cold")


class Generator:
    """The load's process, on a core of its own."""

    def __init__(self, port: int, connections: int, in_flight: int, core: int) -> None:
        words = [sys.executable, "-m", "benchmarks.overload.load", str(port), str(connections), str(in_flight)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(self._process.pid, {core})
        self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the generator ended"
        return json.loads(line)

    def _ask(self, **words: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self._read()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def offer(self, rate: float, seconds: float, window: int = 1) -> None:
        """Offer a rate for a while; return when its time is over."""
        self._ask(rate=rate, seconds=seconds, window=window)

    def report(self) -> list[dict[str, Any]]:
        """Wait for the last answers; return what each phase since the last report has found."""
        found: list[dict[str, Any]] = self._ask(report=True)
        return found

    def hold(self, rate: float, seconds: float, window: int = 1) -> dict[str, Any]:
        """Offer a rate for a while, and say what came of it."""
        self.offer(rate, seconds, window)
        return self.report()[0]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def show(name: str, result: dict[str, Any]) -> None:
    """One line of the table."""
    p99 = f"{result['p99_ms']:6.1f}" if result["p99_ms"] is not None else "     -"
    print(
        f"{name:22} offered {result['offered']:>9,.0f}/s  goodput {result['goodput']:>8,.0f}/s  refused "
        f"{result['refusals']:>8,.0f}/s  accepted p99 {p99} ms, worst {result['worst_ms']:.0f}  "
        f"last refusal {result['last_refusal_s']:4.1f} s  "
        f"heartbeats {result['heartbeats']}, worst {result['heartbeat_worst_ms']:.0f} ms  "
        f"RssAnon {result['anon_mib']:.0f} MiB  | piece of work {result['speed_us']:.0f} us, waited for a core "
        f"{result['waited_s']:.2f} s, generator's turn p99 {result['turn_p99_ms']:.0f} ms",
        flush=True,
    )


class Phases:
    """Loads of one broker, one after the other without a break, and what is known of each beside its answers."""

    def __init__(self, broker: FireArrowInEarnest, generator: Generator, speed: Speed) -> None:
        self._broker = broker
        self._generator = generator
        self._speed = speed
        self._taken: list[tuple[str, dict[str, float]]] = []

    def take(self, name: str, rate: float, seconds: float, window: int = 1) -> None:
        """Hold a rate for a while."""
        broker = self._broker
        cpu_s, wait_s = broker.cpu_seconds(), waited_s(broker.pid)
        self._speed.since_last()
        self._generator.offer(rate, seconds, window)
        beside = {"speed_us": self._speed.since_last(), "cpu_s": broker.cpu_seconds() - cpu_s}
        beside["waited_s"] = waited_s(broker.pid) - wait_s
        beside["anon_mib"] = broker.memory_bytes("RssAnon") / 2**20
        self._taken.append((name, beside))

    def report(self) -> dict[str, dict[str, Any]]:
        """Show and return what was taken since the last report."""
        taken, self._taken = self._taken, []
        results = self._generator.report()
        found = {name: result | beside for (name, beside), result in zip(taken, results, strict=True)}
        for name, result in found.items():
            show(name, result)
        return found


def overload(seconds: float, connections: int, in_flight: int) -> dict[str, Any]:
    """Sends beyond capacity."""
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        broker = FireArrowInEarnest(name_servers=[names.address], settings={"flushDiskType": "ASYNC_FLUSH"})
        stack.enter_context(broker)
        pin(broker.pid, cores[0])
        broker.create_topic(TOPIC, 8)
        generator = Generator(broker.port, connections, in_flight, cores[-1])
        stack.callback(generator.close)
        speed = Speed(cores[0])
        stack.callback(speed.close)
        phases = Phases(broker, generator, speed)
        phases.take("running in", 0, seconds / 2)
        for window in CAPACITY_WINDOWS:
            phases.take(f"capacity, {window} each", 0, seconds, window)
        found: dict[str, Any] = phases.report()
        best = max((found[f"capacity, {window} each"] for window in CAPACITY_WINDOWS), key=lambda one: one["goodput"])
        peak = found["peak"] = best["goodput"]
        # At a low rate sends come alone, and those cost most: half is half of what the broker does of them.
        calm = min(peak, found["capacity, 1 each"]["goodput"]) / 2
        phases.take("half", calm, seconds)
        for times in (2, 10):
            phases.take(f"{times} times capacity", peak * times, seconds)
            phases.take(f"after {times} times: half", calm, seconds / 2)
        found |= phases.report()
        answer = ask(broker.address, PRODUCERS_OF_GROUP, {"producerGroup": "overload"}, timeout_seconds=10)
        found["registered"] = len(json.loads(answer.body or b"{}").get("connectionSet", []))
        print(f"producers registered after it: {found['registered']}")
    for times in (2, 10):
        part = found[f"{times} times capacity"]
        raw = part["goodput"] / peak
        level = raw * part["speed_us"] / best["speed_us"]
        print(f"goodput at {times} times capacity: {raw:.0%} of peak, {level:.0%} at the same speed of the core")
    return found


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=" ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=8.0, help="length of a phase")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections")
    parser.add_argument("--queues", type=int, default=50_000, help="queues with a waiting pull")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the backlog that is not in memory")
    parser.add_argument("--windows", type=int, default=4, help="phases that a reader of the backlog is measured for")
    parser.add_argument("--control", action="store_true", help="measure the backlog with Apache's broker as well")
    parser.add_argument("--output", type=Path, default=Path("build") / "overload.json")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if "overload" in options.parts:
        found["overload"] = overload(options.seconds, options.connections, options.in_flight)
    if "idle" in options.parts:
        found["idle"] = measure_idle(options.idle)
    if "parked" in options.parts:
        found["parked"] = measure_parked(options.queues)
    if "cold" in options.parts:
        core = max(os.sched_getaffinity(0))
        make = partial(Generator, core=core)
        for name in (OURS, CONTROL) if options.control else (OURS,):
            key = "cold" if name == OURS else f"cold, {name}"
            found[key] = measure_cold(name, make, options.gigabytes, options.seconds, options.windows)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

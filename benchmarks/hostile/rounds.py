"""One round: stock clients alone, beside a hostile client, after it, and beside an ordinary client of such a rate."""

import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.stock import StockClients
from benchmarks.overload.cores import pin
from benchmarks.size.probe import Probe
from benchmarks.store.report import percentile
from benchmarks.versus.contestants import FireArrowInEarnest, group_cpu_s
from campaigns.access.__main__ import ACCESS, ROOT
from firearrow import Message, Producer
from firearrow.admin import Admin
from firearrow.protocol.auth import Credentials, Signer
from firearrow.runtime.loops import new_loop
from firearrow.testing.complaints import complaints_in
from firearrow.testing.ports import free_port
from judges import FireArrowNameServer, fresh
from judges.server_process import wait_for

DESCRIPTORS: Final = 10_000
RATE: Final = 500
BYTES: Final = 1024
BULK: Final = "hostile-bulk"
BUSY: Final = "hostile-busy"
PROBED: Final = "hostile-probed"
PROBES_A_SECOND: Final = 100
BULK_MESSAGES: Final = 12
WARM_S: Final = 8.0
LEAD_S: Final = 1.0
"""The longest time until an attack is in full effect."""
MOST_BYTES_A_SECOND: Final = 64 << 20
"""An ordinary client is not told to send more: one producer on one core does not."""
RATE_STEP: Final = 4
CPU_STEP: Final = 0.5
"""Ordinary clients send powers of ``RATE_STEP`` bytes a second and use multiples of ``CPU_STEP`` of their core."""
NORMAL_S: Final = 5.0
"""Within which everything must be as before."""
AFTER_S: Final = 1.0
"""The time for which the broker is observed after an attack, again and again until all is as before or the time is
over."""
LOOK_S: Final = 0.05
RESTING_MIB: Final = 32.0
RESTING_SOCKETS: Final = 8
MOST_TIMES: Final = 2.0
MOST_MIB: Final = 128.0
FLOOR_MS: Final = 5.0
"""Shorter delays at p99 count as this one: they are those of a timer of the system, not of a broker."""


class Seen(msgspec.Struct):
    """The broker and its stock clients over a while."""

    p50_ms: float
    p99_ms: float
    messages: int
    anon_mib: float
    """At most."""
    descriptors: int
    """At most."""
    sockets: int
    """At its end."""
    failed_sends: int
    """Of the stock producer."""
    broker_cpu: float
    """The share of its core that the broker used."""
    p99_cpu_ms: float
    """CPU that the broker's loop spent between a small send and its answer: what else runs here does not change it."""


class Round(msgspec.Struct):
    """The effects of one attack."""

    kind: str
    alone: Seen
    beside: Seen
    after: Seen
    busy: Seen
    """Beside an ordinary client that sends at most as many bytes a second and uses at most as much of its core."""
    opened: int
    ended: int
    bytes_a_second: float
    cpu: float
    """The share of its core that the hostile client used."""

    @property
    def times(self) -> float:
        """The slowest hundredth of deliveries, in times of those beside the ordinary client."""
        return self.beside.p99_ms / max(self.busy.p99_ms, FLOOR_MS)

    @property
    def cpu_times(self) -> float:
        """The broker's CPU that a small send waited for at p99, in times of that beside the ordinary client."""
        return self.beside.p99_cpu_ms / max(self.busy.p99_cpu_ms, FLOOR_MS)

    @property
    def times_alone(self) -> float:
        """The time of deliveries, in times of that with no other client."""
        return self.beside.p99_ms / max(self.alone.p99_ms, FLOOR_MS)

    @property
    def times_after(self) -> float:
        """The time of deliveries after an attack, in times of that before it."""
        return self.after.p99_ms / max(self.alone.p99_ms, FLOOR_MS)

    @property
    def mib(self) -> float:
        """Memory that the broker took beside it."""
        return self.beside.anon_mib - self.alone.anon_mib


class Bench:
    """A broker on one core; a stock producer and consumer, and whoever attacks, on the other."""

    def __init__(self, broker: FireArrowInEarnest, load: StockClients, core: int, keys: tuple[str, str] | None) -> None:
        self._broker = broker
        self._load = load
        self._core = core
        self._keys = keys
        sign = Signer(Credentials(*keys)) if keys else None
        self._probe = Probe(broker.port, broker.pid, sign=sign)
        self._pool = ThreadPoolExecutor(1)
        self._runner = asyncio.Runner(loop_factory=new_loop)
        self._pool.submit(self._runner.run, self._probe.open()).result()
        self._number = -1
        self._alone: Seen | None = None
        self._busy: dict[tuple[float, float], Seen] = {}

    def round(self, kind: str, seconds: float, number: int) -> Round:
        """Measure one attack. Rounds of one number share what is measured alone and beside like ordinary clients."""
        if number != self._number:
            self._number, self._alone, self._busy = number, None, {}
        if self._alone is None:
            self._alone = self._look(seconds)
        alone = msgspec.structs.replace(self._alone, anon_mib=self._most(AFTER_S / 4)[0])
        beside, told = self._beside(seconds, kind, str(self._port(ATTACKS[kind].PORT)), BULK)
        after = self._after(alone)
        busy = self._beside_ordinary(seconds, told["bytes_a_second"], told["cpu"])
        self._load.check()
        return Round(kind=kind, alone=alone, beside=beside, after=after, busy=busy, **told)

    def _after(self, alone: Seen) -> Seen:
        """Look until all is as before, or until that must be so."""
        ended = time.monotonic()
        while True:
            after = self._look(AFTER_S)
            is_normal = after.p99_ms <= MOST_TIMES * max(alone.p99_ms, FLOOR_MS)
            is_small = after.anon_mib - alone.anon_mib <= RESTING_MIB
            is_closed = after.sockets <= alone.sockets + RESTING_SOCKETS
            if (is_normal and is_small and is_closed) or time.monotonic() - ended >= NORMAL_S:
                return after

    def _beside_ordinary(self, seconds: float, bytes_a_second: float, cpu: float) -> Seen:
        """Measure beside an ordinary client of this rate, both rounded down so that attacks alike share one."""
        rate = min(bytes_a_second, MOST_BYTES_A_SECOND)
        rate = float(RATE_STEP ** int(math.log(rate, RATE_STEP))) if rate >= 1 else 0.0
        cpu = int(cpu / CPU_STEP) * CPU_STEP
        if (rate, cpu) not in self._busy:
            also = ["--cpu", str(cpu), *(["--keys", ":".join(self._keys)] if self._keys else [])]
            port = str(self._broker.port)
            self._busy[rate, cpu], _ = self._beside(seconds, "busy", port, BUSY, "--rate", str(rate), *also)
        return self._busy[rate, cpu]

    def close(self) -> None:
        """End the probe."""
        self._probe.close()
        self._pool.submit(self._runner.close).result()
        self._pool.shutdown()

    def _beside(self, seconds: float, *words: str) -> tuple[Seen, dict[str, Any]]:
        """Measure beside another client; return what that client has done, too."""
        command = [sys.executable, "-m", "benchmarks.hostile.attacks", *words]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            os.sched_setaffinity(other.pid, {self._core})
            _begun(other)
            memory, descriptors = self._most(LEAD_S)
            seen = self._look(seconds)
            seen.anon_mib = max(seen.anon_mib, memory)
            seen.descriptors = max(seen.descriptors, descriptors)
            told, _ = other.communicate("end\n", timeout=60)
        return seen, json.loads(told)

    def _port(self, name: str) -> int:
        """A port of the broker by its name in ``Attack.PORT``."""
        ports = {
            "client": self._broker.port,
            "log": self._broker.port + 1,
            "metrics": int(self._broker.settings["metricsPromExporterPort"]),
        }
        return ports[name]

    def _look(self, seconds: float) -> Seen:
        before, failed = len(self._load.latencies_us()), self._load.failed()
        began, cpu_s = time.monotonic(), group_cpu_s(self._broker.pid)
        probe = self._probe.watch(seconds, rate=PROBES_A_SECOND, topics=(PROBED,))
        probing = self._pool.submit(self._runner.run, probe)
        memory, descriptors = self._most(seconds)
        probed = probing.result()
        cpu = (group_cpu_s(self._broker.pid) - cpu_s) / (time.monotonic() - began)
        time.sleep(1.0)  # the clients print once a second
        found = [one / 1000 for one in self._load.latencies_us()[before:]]
        sockets = _sockets(self._broker.pid)
        failed = self._load.failed() - failed
        delays = found or [seconds * 1000]  # where nothing was delivered, each took longer than that
        p50, p99 = percentile(delays, 0.5), percentile(delays, 0.99)
        return Seen(p50, p99, len(found), memory, descriptors, sockets, failed, cpu, probed.p99_cpu_ms)

    def _most(self, seconds: float) -> tuple[float, int]:
        """Watch the broker for a while: the most memory and descriptors it had."""
        end, memory, descriptors = time.monotonic() + seconds, 0.0, 0
        while time.monotonic() < end:
            memory = max(memory, self._broker.memory_bytes("RssAnon") / 2**20)
            descriptors = max(descriptors, len(os.listdir(f"/proc/{self._broker.pid}/fd")))
            time.sleep(LOOK_S)
        return memory, descriptors

    def failures(self) -> list[str]:
        """Exceptions in the broker's log."""
        return complaints_in(Path(self._broker.log).read_text(errors="replace"))


def _begun(attack: subprocess.Popen[str]) -> None:
    assert attack.stdout is not None
    if not attack.stdout.readline():
        raise RuntimeError("the attack did not begin")


def _sockets(pid: int) -> int:
    """The connections and listening sockets of a process."""
    count = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += os.readlink(one).startswith("socket:")
    return count


class WithAccess(FireArrowInEarnest):
    """A broker that knows one user; ready when its name server lists it."""

    def _ready(self) -> bool:
        return all(map(self._listed_by, self.name_servers))


@contextmanager
def bench(warm_s: float = WARM_S, *, access: bool = False) -> Iterator[Bench]:
    """Start everything and warm it up; with ``access``, stock clients have keys and hostile ones none."""
    keys = ROOT if access else None
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        metrics = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(free_port())}
        settings = {"flushDiskType": "ASYNC_FLUSH", **metrics, **(ACCESS if access else {})}
        broker = (WithAccess if access else FireArrowInEarnest)(name_servers=[names.address], settings=settings)
        stack.enter_context(broker)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        pin(broker.pid, cores[0])
        topic = fresh("hostile")
        asyncio.run(_prepare(names.address, topic, keys))
        load = stack.enter_context(StockClients(names.address, topic, BYTES, RATE, keys))
        pin(load.pid, cores[-1])
        wait_for(lambda: bool(load.latencies_us()), "a first delivery of the stock clients", 120.0)
        time.sleep(warm_s)
        load.check()
        running = Bench(broker, load, cores[-1], keys)
        stack.callback(running.close)
        yield running


async def _prepare(names: str, topic: str, keys: tuple[str, str] | None) -> None:
    """Make the topics, and fill that which is pulled from."""
    account: dict[str, Any] = {"access_key": keys[0], "secret_key": keys[1]} if keys else {}
    async with Admin(names, **account) as admin:
        for name, queues in ((topic, 8), (BULK, 2), (BUSY, 4), (PROBED, 1)):
            await admin.topics.create(name, queues=queues)
    async with Producer(names, **account) as producer:
        for _ in range(BULK_MESSAGES):
            await producer.send(Message.of(BULK, os.urandom(1 << 20)), timeout_ms=30_000)


def broken(rounds: list[Round], *, by_wall_time: bool = True) -> list[str]:
    """The bounds that one kind of attack breaks, by the medians of its rounds.

    Times of deliveries mean something where nothing else runs. CPU of the broker means the same on a busy machine.
    """
    kind, one = rounds[0].kind, median(rounds)
    least = rounds[0].alone
    found = []
    if one["cpu_times"] > MOST_TIMES:
        found.append(
            f"{kind}: a send waited for {one['cpu_ms']:.1f} ms of the broker's CPU at p99, "
            f"beside an ordinary client for {one['busy_cpu_ms']:.1f} ms"
        )
    if by_wall_time and one["times"] > MOST_TIMES:
        found.append(
            f"{kind}: deliveries took {one['times']:.2f} times as long at p99 as beside an ordinary client, "
            f"{MOST_TIMES:g} are allowed"
        )
    if one["mib"] > MOST_MIB:
        found.append(f"{kind}: the broker took {one['mib']:.0f} MiB more, {MOST_MIB:g} are allowed")
    if by_wall_time and one["times_after"] > MOST_TIMES:
        found.append(f"{kind}: {NORMAL_S:g} s after its end p99 is {one['times_after']:.2f} times what it was")
    if one["mib_after"] > RESTING_MIB:
        found.append(f"{kind}: {NORMAL_S:g} s after its end the broker has {one['mib_after']:.0f} MiB more than before")
    if max(each.after.sockets for each in rounds) > least.sockets + RESTING_SOCKETS:
        found.append(f"{kind}: {NORMAL_S:g} s after its end connections are left")
    if by_wall_time and one["failed_sends"] > one["busy_failed_sends"]:
        found.append(f"{kind}: {one['failed_sends']:.0f} sends of the stock producer failed beside it")
    return found


def median(rounds: list[Round]) -> dict[str, float]:
    """The figures of one kind of attack."""

    def middle(values: list[float]) -> float:
        return sorted(values)[len(values) // 2]

    return {
        "alone_p99_ms": middle([one.alone.p99_ms for one in rounds]),
        "beside_p99_ms": middle([one.beside.p99_ms for one in rounds]),
        "busy_p99_ms": middle([one.busy.p99_ms for one in rounds]),
        "times": middle([one.times for one in rounds]),
        "times_alone": middle([one.times_alone for one in rounds]),
        "cpu_ms": middle([one.beside.p99_cpu_ms for one in rounds]),
        "busy_cpu_ms": middle([one.busy.p99_cpu_ms for one in rounds]),
        "cpu_times": middle([one.cpu_times for one in rounds]),
        "cpu": middle([one.cpu for one in rounds]),
        "broker_cpu": middle([one.beside.broker_cpu for one in rounds]),
        "busy_broker_cpu": middle([one.busy.broker_cpu for one in rounds]),
        "kilobytes_a_second": middle([one.bytes_a_second / 1000 for one in rounds]),
        "mib": middle([one.mib for one in rounds]),
        "times_after": middle([one.times_after for one in rounds]),
        "mib_after": middle([one.after.anon_mib - one.alone.anon_mib for one in rounds]),
        "failed_sends": middle([one.beside.failed_sends for one in rounds]),
        "busy_failed_sends": middle([one.busy.failed_sends for one in rounds]),
        "connections": max(one.opened for one in rounds),
        "ended": max(one.ended for one in rounds),
        "descriptors": max(one.beside.descriptors for one in rounds),
    }

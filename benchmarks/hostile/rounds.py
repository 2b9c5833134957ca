"""One round: stock clients alone, then beside a hostile one, then after it."""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.hostile.stock import StockClients
from benchmarks.overload.cores import pin
from benchmarks.store.report import percentile
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow import Message, Producer
from firearrow.testing.complaints import complaints_in
from judges import FireArrowNameServer, fresh
from judges.server_process import wait_for

DESCRIPTORS: Final = 10_000
RATE: Final = 500
BYTES: Final = 1024
BULK: Final = "hostile-bulk"
BULK_MESSAGES: Final = 12
WARM_S: Final = 8.0
LEAD_S: Final = 4.0
"""How long an attack may take to become what it is."""
NORMAL_S: Final = 5.0
"""Within which everything must be as before."""
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


class Round(msgspec.Struct):
    """What one attack did."""

    kind: str
    alone: Seen
    beside: Seen
    after: Seen
    opened: int
    ended: int
    failed_sends: int
    """Since the start of the clients."""

    @property
    def times(self) -> float:
        """How many times as long the slowest hundredth of deliveries took beside it."""
        return self.beside.p99_ms / max(self.alone.p99_ms, FLOOR_MS)

    @property
    def times_after(self) -> float:
        """The same after it."""
        return self.after.p99_ms / max(self.alone.p99_ms, FLOOR_MS)

    @property
    def mib(self) -> float:
        """Memory that the broker took beside it."""
        return self.beside.anon_mib - self.alone.anon_mib


class Bench:
    """A broker on one core; a stock producer and consumer, and whoever attacks, on the other."""

    def __init__(self, broker: FireArrowInEarnest, load: StockClients, core: int) -> None:
        self._broker = broker
        self._load = load
        self._core = core

    def round(self, kind: str, seconds: float) -> Round:
        """Measure one attack."""
        alone = self._look(seconds)
        words = [sys.executable, "-m", "benchmarks.hostile.attacks", kind, str(self._broker.port), BULK]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attack:
            os.sched_setaffinity(attack.pid, {self._core})
            _begun(attack)
            memory, descriptors = self._most(LEAD_S)
            beside = self._look(seconds)
            beside.anon_mib = max(beside.anon_mib, memory)
            beside.descriptors = max(beside.descriptors, descriptors)
            told, _ = attack.communicate("end\n", timeout=30)
        time.sleep(NORMAL_S)
        after = self._look(seconds / 2)
        self._load.check()
        return Round(
            kind=kind, alone=alone, beside=beside, after=after, failed_sends=self._load.failed(), **json.loads(told)
        )

    def _look(self, seconds: float) -> Seen:
        before = len(self._load.latencies_us())
        memory, descriptors = self._most(seconds)
        time.sleep(1.0)  # the clients print once a second
        found = [one / 1000 for one in self._load.latencies_us()[before:]]
        if not found:
            raise RuntimeError(f"nothing was delivered for {seconds} s:\n{self._load.output()[-1000:]}")
        sockets = _sockets(self._broker.pid)
        return Seen(percentile(found, 0.5), percentile(found, 0.99), len(found), memory, descriptors, sockets)

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


@contextmanager
def bench(warm_s: float = WARM_S) -> Iterator[Bench]:
    """Start everything, and let the compilers see it."""
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        broker = FireArrowInEarnest(name_servers=[names.address], settings={"flushDiskType": "ASYNC_FLUSH"})
        stack.enter_context(broker)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        pin(broker.pid, cores[0])
        topic = broker.create_topic(fresh("hostile"), 8)
        broker.create_topic(BULK, 2)
        asyncio.run(_fill(names.address))
        load = stack.enter_context(StockClients(names.address, topic, BYTES, RATE))
        pin(load.pid, cores[-1])
        wait_for(lambda: bool(load.latencies_us()), "a first delivery of the stock clients", 120.0)
        time.sleep(warm_s)
        load.check()
        yield Bench(broker, load, cores[-1])


async def _fill(names: str) -> None:
    async with Producer(names) as producer:
        for _ in range(BULK_MESSAGES):
            await producer.send(Message.of(BULK, os.urandom(1 << 20)), timeout_ms=30_000)


def broken(rounds: list[Round]) -> list[str]:
    """What does not hold of one kind of attack, by the medians of its rounds."""
    kind, one = rounds[0].kind, median(rounds)
    least = rounds[0].alone
    found = []
    if one["times"] > MOST_TIMES:
        found.append(f"{kind}: deliveries took {one['times']:.2f} times as long at p99, {MOST_TIMES:g} are allowed")
    if one["mib"] > MOST_MIB:
        found.append(f"{kind}: the broker took {one['mib']:.0f} MiB more, {MOST_MIB:g} are allowed")
    if one["times_after"] > MOST_TIMES:
        found.append(f"{kind}: {NORMAL_S:g} s after its end p99 is {one['times_after']:.2f} times what it was")
    if one["mib_after"] > RESTING_MIB:
        found.append(f"{kind}: {NORMAL_S:g} s after its end the broker has {one['mib_after']:.0f} MiB more than before")
    if max(each.after.sockets for each in rounds) > least.sockets + RESTING_SOCKETS:
        found.append(f"{kind}: {NORMAL_S:g} s after its end connections are left")
    if rounds[-1].failed_sends:
        found.append(f"{kind}: {rounds[-1].failed_sends} sends of the stock producer failed")
    return found


def median(rounds: list[Round]) -> dict[str, float]:
    """The figures of one kind of attack."""

    def middle(values: list[float]) -> float:
        return sorted(values)[len(values) // 2]

    return {
        "alone_p99_ms": middle([one.alone.p99_ms for one in rounds]),
        "beside_p99_ms": middle([one.beside.p99_ms for one in rounds]),
        "times": middle([one.times for one in rounds]),
        "mib": middle([one.mib for one in rounds]),
        "times_after": middle([one.times_after for one in rounds]),
        "mib_after": middle([one.after.anon_mib - one.alone.anon_mib for one in rounds]),
        "connections": max(one.opened for one in rounds),
        "ended": max(one.ended for one in rounds),
        "descriptors": max(one.beside.descriptors for one in rounds),
    }

"""The broker that is killed, the processes that send meanwhile, and what came of it."""

import asyncio
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct

from firearrow.client import PullConsumer
from judges import (
    ApacheBroker,
    ApacheNameServer,
    FireArrowBroker,
    FireArrowNameServer,
    fresh,
)
from judges.process import Child, ChildFailed
from judges.server_process import wait_for
from tests.interop.client.kills.load import Failure, Report

Side = Literal["firearrow", "standby", "apache"]
SIDES: tuple[Side, ...] = ("firearrow", "standby", "apache")
"""Our broker started anew; ours with the next process waiting, all modules loaded; and Apache's."""
APACHE = "5.5.0"

PROCESSES = 2
PRODUCERS = 50
"""In each process."""
QUEUES = 8
IN_TIME_S = {"firearrow": 2.0, "standby": 2.0, "apache": 12.0}
"""The time after a kill within which the broker must accept connections for the promise to hold."""
TIMEOUT_MS = {"firearrow": 0, "standby": 0, "apache": 15_000}
"""``send_timeout_ms``; 0 is the default of the client."""
LOADED = b"modules are loaded"
STANDBY = f"""
import sys
from firearrow.cli import main
import firearrow.cli.broker
print("{LOADED.decode()}", flush=True)
sys.stdin.readline()
sys.exit(main())
"""
LONGEST_MOMENT_S = 1.0
PATIENCE_S = 90.0


class Kill(Struct):
    """One death of the broker."""

    at: float
    accepts_after_s: float
    failures: list[Failure] = []


class Run(Struct):
    """Some deaths, and what the producers say."""

    side: Side
    kills: list[Kill]
    acknowledged: int
    stored: int
    duplicates: int
    lost: int
    longest_s: float

    @property
    def in_time(self) -> list[Kill]:
        """The deaths after which the broker was back in time."""
        return [kill for kill in self.kills if kill.accepts_after_s <= IN_TIME_S[self.side]]

    @property
    def broken(self) -> list[str]:
        """The broken promises."""
        said = [
            f"a send failed although the broker was back after {kill.accepts_after_s:.2f} s: {failure.text}"
            for kill in self.in_time
            for failure in kill.failures
        ]
        return said + ([f"{self.lost} acknowledged messages are not there"] if self.lost else [])

    def figures(self) -> dict[str, Any]:
        """For the ledger."""
        return {
            "kills": len(self.kills),
            "in_time": len(self.in_time),
            "accepts_after_s": [round(kill.accepts_after_s, 2) for kill in self.kills],
            "failed_in_time": sum(len(kill.failures) for kill in self.in_time),
            "failed_later": sum(len(kill.failures) for kill in self.kills if kill not in self.in_time),
            "acknowledged": self.acknowledged,
            "duplicates": self.duplicates,
            "lost": self.lost,
            "longest_send_s": round(self.longest_s, 2),
            "broken": len(self.broken),
        }


def run(side: Side, kills: int, seed: int, producers: int = PRODUCERS) -> Run:
    """Kill a broker so many times under two processes of producers."""
    chance = random.Random(seed)
    with servers(side) as (names, broker):
        topic = broker.create_topic(fresh("kills"), QUEUES)
        with ExitStack() as stack:
            loads = [
                stack.enter_context(LoadProcess(names, topic, f"p{number}", producers, TIMEOUT_MS[side]))
                for number in range(PROCESSES)
            ]
            advance(loads)
            deaths = []
            for _ in range(kills):
                time.sleep(chance.random() * LONGEST_MOMENT_S)  # the moment of a kill is chance
                deaths.append(_killed(broker))
                advance(loads)
            reports = [load.finish() for load in loads]
        return asyncio.run(_judged(side, deaths, reports, names, topic))


@contextmanager
def servers(side: Side) -> Iterator[tuple[str, ApacheBroker]]:
    """A name server and a broker with the settings of their side."""
    if side != "apache":
        kind = StandbyBroker if side == "standby" else FireArrowBroker
        with FireArrowNameServer() as names, kind(name_servers=[names.address]) as ours:
            yield names.address, ours
        return
    with ApacheNameServer(APACHE) as theirs, ApacheBroker(APACHE, name_servers=[theirs.address]) as broker:
        yield theirs.address, broker


class StandbyBroker(FireArrowBroker):
    """Our broker, with a process that has loaded everything and waits for the death of the one that serves."""

    def __init__(self, *, name_servers: Sequence[str]) -> None:
        super().__init__(name_servers=name_servers, program=STANDBY)
        self._next = super()._launch()
        self._launched = 1

    def _launch(self) -> Child:
        wait_for(lambda: self.log.read_bytes().count(LOADED) >= self._launched, "a process on standby", PATIENCE_S)
        child, self._next = self._next, super()._launch()
        self._launched += 1
        assert child.popen.stdin is not None
        child.popen.stdin.write(b"\n")
        child.popen.stdin.flush()
        return child

    def close(self) -> None:
        """End both."""
        self._next.kill()
        super().close()


class LoadProcess:
    """A process of producers."""

    def __init__(self, names: str, topic: str, name: str, producers: int, timeout_ms: int) -> None:
        words = [names, topic, name, str(producers), str(timeout_ms)]
        self._words = [sys.executable, "-m", "tests.interop.client.kills.load", *words]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def ask(self) -> None:
        """Ask for progress."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        """Wait until every producer of the process has had an acknowledgement since it was asked."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "advanced\n":
            raise ChildFailed("a process of producers ended early")

    def finish(self) -> Report:
        """End it."""
        return msgspec.json.decode(self._process.communicate(timeout=PATIENCE_S)[0], type=Report)


def advance(loads: list[LoadProcess]) -> None:
    """Wait until every producer has had another acknowledgement."""
    for load in loads:
        load.ask()
    for load in loads:
        load.wait()


def _killed(broker: ApacheBroker) -> Kill:
    at = time.monotonic()
    broker.kill()
    broker.start(wait=False)
    wait_for(lambda: _accepts(broker.port), "a broker that accepts connections", PATIENCE_S)
    accepts_after_s = time.monotonic() - at
    broker.wait_ready()
    return Kill(at, accepts_after_s)


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


async def _judged(side: Side, kills: list[Kill], reports: list[Report], names: str, topic: str) -> Run:
    for failure in (each for report in reports for each in report.failures):
        before = [kill for kill in kills if kill.at <= failure.ended]
        (before or kills)[-1 if before else 0].failures.append(failure)
    acknowledged = {body for number, report in enumerate(reports) for body in _acknowledged(f"p{number}", report)}
    stored = await _stored(names, topic)
    return Run(
        side,
        kills,
        len(acknowledged),
        stored.total(),
        stored.total() - len(stored),
        len(acknowledged - stored.keys()),
        max(report.longest_s for report in reports),
    )


def _acknowledged(name: str, report: Report) -> Iterator[str]:
    failed = {failure.body for failure in report.failures}
    for number, count in enumerate(report.acknowledged):
        sent = count + sum(body.startswith(f"{name}-{number}-") for body in failed)
        yield from (body for each in range(sent) if (body := f"{name}-{number}-{each}") not in failed)


async def _stored(names: str, topic: str) -> Counter[str]:
    found: Counter[str] = Counter()
    async with PullConsumer(names, group=fresh("look")) as reader:
        for queue, held in (await reader.bounds(topic)).items():
            async for pulled in reader.pull_range(queue, held.first, held.end):
                found.update(message.body.decode() for message in pulled.messages())
    return found

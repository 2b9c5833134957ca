"""Connections that say nothing but that they are there: what each costs over a bare asyncio server, and heartbeats."""

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.overload.frames import Answers, frame, heartbeat_body
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.runtime.loops import new_loop
from judges import FireArrowNameServer, free_port
from judges.server_process import wait_for

AT_ONCE = 200
SETTLE_S = 1.0
SPARE_FILES = 2_000

BARE = """
import asyncio, sys
from firearrow.runtime.loops import new_loop
async def main():
    await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", int(sys.argv[1]))
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()
with asyncio.Runner(loop_factory=new_loop) as runner:
    runner.run(main())
"""


class Idle(asyncio.Protocol):
    """A connection that beats when it is told to."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._answers = Answers()
        self.answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.answered += sum(code == 0 for code, _ in self._answers.feed(data))

    def beat(self) -> None:
        """Say that we are there."""
        self._transport.write(frame(HeartBeat(), self._number, heartbeat_body(f"127.0.0.1@{self._number}")))


def anon_kib(pid: int) -> int:
    """Anonymous memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("RssAnon")).split()[1])


async def _open(port: int, count: int) -> list[Idle]:
    loop = asyncio.get_running_loop()
    made: list[Idle] = []
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        some = await asyncio.gather(
            *(loop.create_connection(lambda number=number: Idle(number), "127.0.0.1", port) for number in numbers)  # type: ignore[misc]
        )
        made += [idle for _, idle in some]
    return made


async def _hold(port: int, pid: int, count: int, beats: bool) -> dict[str, float]:
    before = anon_kib(pid)
    idles = await _open(port, count)
    await asyncio.sleep(SETTLE_S)
    found: dict[str, float] = {"kib_each": (anon_kib(pid) - before) / count}
    if beats:
        began = time.perf_counter()
        for idle in idles:
            idle.beat()
        while sum(idle.answered for idle in idles) < count and time.perf_counter() - began < 60:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        found["heartbeats_answered"] = sum(idle.answered for idle in idles)
        found["heartbeats_s"] = time.perf_counter() - began
        found["kib_each_registered"] = (anon_kib(pid) - before) / count
    return found


def _run(make: Callable[[], Any]) -> dict[str, float]:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        result: dict[str, float] = runner.run(make())
    return result


def measure_idle(count: int) -> dict[str, Any]:
    """Our broker and a bare server, the same connections."""
    files = count + SPARE_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    port = free_port()
    bare_server = subprocess.Popen([sys.executable, "-c", BARE, str(port)], stdout=subprocess.PIPE)
    try:
        assert bare_server.stdout is not None
        bare_server.stdout.readline()
        bare = _run(lambda: _hold(port, bare_server.pid, count, beats=False))
    finally:
        bare_server.kill()
        bare_server.wait()
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer(arguments=["--log-level", "ERROR"]))
        broker = FireArrowInEarnest(name_servers=[names.address], settings={})
        stack.enter_context(broker)
        wait_for(lambda: broker.running, "the broker")
        ours = _run(lambda: _hold(broker.port, broker.pid, count, beats=True))
    over = ours["kib_each"] - bare["kib_each"]
    print(
        f"{count:,} idle connections: {ours['kib_each']:.1f} KiB each, bare asyncio {bare['kib_each']:.1f}, over it "
        f"{over:.1f} KiB (registered as producers: {ours['kib_each_registered'] - bare['kib_each']:.1f}); "
        f"{ours['heartbeats_answered']:,.0f} heartbeats answered in {ours['heartbeats_s']:.2f} s"
    )
    return {"connections": count, "ours": ours, "bare": bare, "over_kib": over}

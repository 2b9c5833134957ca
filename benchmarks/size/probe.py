"""Looks at a broker from outside, over raw frames: how long it answered nobody, and how long paced sends took.

A *hold* is how long the smallest request waits for its answer. The machine is shared: what the broker's process, or
this one, spent waiting for a core (``/proc/PID/schedstat``) is taken off, so that a hold is the broker's own. On a
machine that is very busy that is not enough, so there is a second figure: the CPU that the broker's loop spent between
request and answer. It leaves out what the loop waits for a device, and hardly changes with whatever else runs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from benchmarks.overload.frames import Answers, frame, send
from benchmarks.store.report import percentile
from firearrow.protocol.auth import Signer
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.runtime.loops import new_loop

T = TypeVar("T")

PING_S = 0.002
BODY = b"x" * 128
TIMEOUT_S = 60.0
LINES = 2
PING = GetMaxOffset(topic="ping", queue_id=0)


class Line(asyncio.Protocol):
    """One connection: codes of answers by opaque."""

    def __init__(self, sign: Signer | None = None) -> None:
        self._sign = sign
        self._answers = Answers()
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._opaque = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """Answers, and pushes that nobody waits for."""
        for code, opaque in self._answers.feed(data):
            future = self._waiting.pop(opaque, None)
            if future is not None and not future.done():
                future.set_result(code)

    def connection_lost(self, _exc: Exception | None) -> None:
        """No answer comes any more."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError("the broker ended the connection of the probe"))

    async def ask(self, request: Request[Any], body: bytes = b"") -> int:
        """Send a request; return the code of its answer."""
        return await self.write(lambda opaque: frame(request, opaque, body, self._sign))

    async def send(self, topic: str, queue_id: int) -> int:
        """Send a message; return the code of its answer."""
        return await self.write(lambda opaque: send(topic, queue_id, opaque, BODY, self._sign))

    async def write(self, encode: Callable[[int], bytes]) -> int:
        """Send what is made for an opaque; return the code of its answer."""
        self._opaque += 1
        future = self._waiting[self._opaque] = asyncio.get_running_loop().create_future()
        self.transport.write(encode(self._opaque))
        return await asyncio.wait_for(future, TIMEOUT_S)


async def connect(port: int, sign: Signer | None = None) -> Line:
    """A connection to a broker on this machine."""
    _, line = await asyncio.get_running_loop().create_connection(lambda: Line(sign), "127.0.0.1", port)
    return line


class Seen(NamedTuple):
    """The measurements of a span of time."""

    hold_ms: float
    p99_ms: float
    hold_cpu_ms: float
    p99_cpu_ms: float
    refused: int


class Took(NamedTuple):
    """The time of an answer in milliseconds, without waits for the machine, and the broker's CPU meanwhile."""

    ms: float
    cpu_ms: float


class Probe:
    """Watches one server. Each `watch` has connections of its own, unless they were opened before."""

    def __init__(self, port: int, pid: int, ping: Request[Any] = PING, sign: Signer | None = None) -> None:
        self._port = port
        self._pid = pid
        self._smallest = ping
        self._sign = sign
        self._lines: list[Line] = []

    async def watch(self, seconds: float, *, rate: float = 0.0, topics: tuple[str, ...] = ()) -> Seen:
        """Ping all the time, and send so many messages a second meanwhile."""
        was_open = bool(self._lines)
        await self.open()
        pinging = asyncio.create_task(self._ping(seconds))
        took, refused = await self._pace(seconds, rate, topics) if rate else ([Took(0.0, 0.0)], 0)
        holds = await pinging
        if not was_open:
            self.close()
        return Seen(
            hold_ms=max(hold.ms for hold in holds),
            p99_ms=percentile([one.ms for one in took], 0.99),
            hold_cpu_ms=max(hold.cpu_ms for hold in holds),
            p99_cpu_ms=percentile([one.cpu_ms for one in took], 0.99),
            refused=refused,
        )

    async def open(self) -> None:
        """Open the connections, which stay open until `close`."""
        while len(self._lines) < LINES:
            self._lines.append(await connect(self._port, self._sign))

    def close(self) -> None:
        """Close the connections."""
        for line in self._lines:
            line.transport.close()
        self._lines.clear()

    async def _ping(self, seconds: float) -> list[Took]:
        line, holds = self._lines[0], []
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            holds.append((await self._timed(line.ask(self._smallest)))[0])
            await asyncio.sleep(PING_S)
        return holds

    async def _timed(self, work: Awaitable[int]) -> tuple[Took, int]:
        """Return the time that the work took, and its code."""
        cpu_ms, waited_ms = self._spent_ms()
        began = time.perf_counter()
        code = await work
        took_ms = (time.perf_counter() - began) * 1000
        cpu_after_ms, waited_after_ms = self._spent_ms()
        return Took(max(took_ms - (waited_after_ms - waited_ms), 0.0), cpu_after_ms - cpu_ms), code

    def _spent_ms(self) -> tuple[float, float]:
        """CPU of the server's loop so far, and what it and this process have waited for a core."""
        server, own = _spent(str(self._pid)), _spent("self")
        return server[0] / 1e6, (server[1] + own[1]) / 1e6

    async def _pace(self, seconds: float, rate: float, topics: tuple[str, ...]) -> tuple[list[Took], int]:
        line = self._lines[1]
        took: list[Took] = []
        refused = 0
        began = time.perf_counter()
        for number in range(int(seconds * rate)):
            await asyncio.sleep(max(began + number / rate - time.perf_counter(), 0))
            one, code = await self._timed(line.send(topics[number % len(topics)], 0))
            took.append(one)
            refused += code != 0
        return took, refused


def _spent(pid: str) -> tuple[int, int]:
    """Nanoseconds on a core, and waiting for one, of the first thread of a process."""
    on_core, waiting, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(on_core), int(waiting)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop that servers use."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def written_bytes(pid: int) -> int:
    """Return the bytes that a process has handed to ``write`` since its start."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def anonymous_mib(pid: int) -> float:
    """Anonymous memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024

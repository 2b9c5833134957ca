"""Looks at a broker from outside, over raw frames: how long it answered nobody, and how long paced sends took.

A *hold* is how long the smallest request waits for its answer. The machine is shared: what the broker's process, or
this one, spent waiting for a core (``/proc/PID/schedstat``) is taken off, so that a hold is the broker's own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from benchmarks.overload.frames import Answers, frame, send
from benchmarks.store.report import percentile
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.offset import GetMaxOffset
from firearrow.runtime.loops import new_loop

T = TypeVar("T")

PING_S = 0.002
BODY = b"x" * 128
TIMEOUT_S = 60.0
PING = GetMaxOffset(topic="ping", queue_id=0)


class Line(asyncio.Protocol):
    """One connection: codes of answers by opaque."""

    def __init__(self) -> None:
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

    async def ask(self, request: Request[Any], body: bytes = b"") -> int:
        """Send a request; return the code of its answer."""
        return await self.write(lambda opaque: frame(request, opaque, body))

    async def send(self, topic: str, queue_id: int) -> int:
        """Send a message; return the code of its answer."""
        return await self.write(lambda opaque: send(topic, queue_id, opaque, BODY))

    async def write(self, encode: Callable[[int], bytes]) -> int:
        """Send what is made for an opaque; return the code of its answer."""
        self._opaque += 1
        future = self._waiting[self._opaque] = asyncio.get_running_loop().create_future()
        self.transport.write(encode(self._opaque))
        return await asyncio.wait_for(future, TIMEOUT_S)


async def connect(port: int) -> Line:
    """A connection to a broker on this machine."""
    _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", port)
    return line


class Seen(NamedTuple):
    """What was seen in a span of time."""

    hold_ms: float
    p50_ms: float
    p99_ms: float
    refused: int


class Probe:
    """Watches one broker."""

    def __init__(self, port: int, pid: int) -> None:
        self._port = port
        self._pid = pid

    async def watch(self, seconds: float, *, rate: float = 0.0, topics: tuple[str, ...] = ()) -> Seen:
        """Ping all the time, and send so many messages a second meanwhile."""
        pinging = asyncio.create_task(self._ping(seconds))
        took, refused = await self._pace(seconds, rate, topics) if rate else ([0.0], 0)
        holds = await pinging
        return Seen(max(holds), percentile(took, 0.5), percentile(took, 0.99), refused)

    async def _ping(self, seconds: float) -> list[float]:
        line, holds = await connect(self._port), []
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            holds.append(await self._took(line.ask(PING)))
            await asyncio.sleep(PING_S)
        line.transport.close()
        return holds

    async def _took(self, work: Awaitable[int]) -> float:
        """How long something took, in milliseconds, without what the machine took."""
        waited = self._waited_ms()
        began = time.perf_counter()
        await work
        return max((time.perf_counter() - began) * 1000 - (self._waited_ms() - waited), 0.0)

    def _waited_ms(self) -> float:
        return sum(_waited_ns(pid) for pid in (str(self._pid), "self")) / 1e6

    async def _pace(self, seconds: float, rate: float, topics: tuple[str, ...]) -> tuple[list[float], int]:
        line = await connect(self._port)
        took: list[float] = []
        refused = 0
        began = time.perf_counter()
        for number in range(int(seconds * rate)):
            await asyncio.sleep(max(began + number / rate - time.perf_counter(), 0))
            sent = line.send(topics[number % len(topics)], 0)
            waited, at = self._waited_ms(), time.perf_counter()
            refused += await sent != 0
            took.append(max((time.perf_counter() - at) * 1000 - (self._waited_ms() - waited), 0.0))
        line.transport.close()
        return took, refused


def _waited_ns(pid: str) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop that servers use."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def written_bytes(pid: int) -> int:
    """What a process has handed to ``write`` since its start."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def anonymous_mib(pid: int) -> float:
    """Anonymous memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024

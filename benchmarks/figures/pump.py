"""The load: sends that are encoded beforehand, a bounded number under way, answers counted.

A stock client takes more CPU for a message than a broker, so with one on the same two cores the figure would be the
client's. `python -m benchmarks.figures.pump TOPIC BODY_BYTES SECONDS LEAD_SECONDS PORT...` prints a JSON object.
"""

import asyncio
import gc
import json
import struct
import sys
import time
from typing import Any, Final

from benchmarks.overload.frames import send
from firearrow.runtime.loops import new_loop

QUEUES: Final = 8
CONNECTIONS: Final = 4
IN_FLIGHT_BYTES: Final = 4 << 20
"""Of one connection; small messages are limited by `MOST_IN_FLIGHT` instead."""
MOST_IN_FLIGHT: Final = 256
_CODE: Final = struct.Struct(">I4xh")
"""The length of an answer with a compact header, and its code."""
_JSON: Final = b"\x00"


class Pump(asyncio.Protocol):
    """One connection that keeps so many sends under way."""

    def __init__(self, topic: str, body: bytes) -> None:
        frames = [send(topic, number % QUEUES, 1, body) for number in range(QUEUES)]
        self._size = len(frames[0])
        self._in_flight = max(1, min(MOST_IN_FLIGHT, IN_FLIGHT_BYTES // self._size))
        self._frames = memoryview(b"".join(frames[number % QUEUES] for number in range(self._in_flight)))
        self._rest = b""
        self.answered = self.failed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        transport.set_write_buffer_limits(high=2 * IN_FLIGHT_BYTES)  # type: ignore[attr-defined]
        self._write(self._in_flight)

    def _write(self, count: int) -> None:
        self._transport.write(self._frames[: count * self._size])

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, end, count = 0, len(data), 0
        while end - at >= _CODE.size:
            length, code = _CODE.unpack_from(data, at)
            if at + 4 + length > end:
                break
            assert data[at + 4 : at + 5] != _JSON, "answers are compact, as the requests are"
            self.failed += code != 0
            at += 4 + length
            count += 1
        self._rest = data[at:]
        if count:
            self.answered += count
            self._write(count)


async def drive(topic: str, body: bytes, ports: list[int], seconds: float, lead_s: float) -> dict[str, float]:
    """Send for a while; return what was answered in the measured part of it."""
    loop = asyncio.get_running_loop()
    pumps = []
    for port in ports:
        for _ in range(CONNECTIONS):
            _, pump = await loop.create_connection(lambda: Pump(topic, body), "127.0.0.1", port)
            pumps.append(pump)
    await asyncio.sleep(lead_s)
    before, failed = sum(each.answered for each in pumps), sum(each.failed for each in pumps)
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    took = time.perf_counter() - began
    return {
        "rate": (sum(each.answered for each in pumps) - before) / took,
        "failed": sum(each.failed for each in pumps) - failed,
        "seconds": took,
        "cpu_s": time.process_time() - cpu,
    }


def main() -> None:
    """Read the words of the command line."""
    topic, size, seconds, lead_s, *ports = sys.argv[1:]
    gc.disable()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        found = runner.run(drive(topic, b"x" * int(size), [int(port) for port in ports], float(seconds), float(lead_s)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

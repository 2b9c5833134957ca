"""A client that writes what it is told to and reads only when it is told to."""

import asyncio
from typing import Any, Self

from firearrow.protocol.command import Heading
from firearrow.protocol.conversation import Request
from firearrow.protocol.frame import FrameSplitter
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.serialize import encode_request, read_heading

SUSPENDS = 0x2
SUBSCRIBES = 0x4


class Line:
    """One connection to a broker. Use it in an ``async with`` block."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._where = host, int(port)
        self._splitter = FrameSplitter()
        self._opaque = 0
        self._heard: list[tuple[Heading[Any], bytes]] = []

    async def __aenter__(self) -> Self:
        self._reader, self.writer = await asyncio.open_connection(*self._where)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def stop_reading(self) -> None:
        """Leave in the socket whatever comes."""
        transport: Any = self.writer.transport
        transport.pause_reading()

    def go_on_reading(self) -> None:
        """Read again."""
        transport: Any = self.writer.transport
        transport.resume_reading()

    def write(self, *requests: Request[Any]) -> int:
        """Say all of it in one write; return how many bytes that took."""
        frames = []
        for request in requests:
            self._opaque += 1
            frames.append(encode_request(0, request, self._opaque))
        data = b"".join(frames)
        self.writer.write(data)
        return len(data)

    async def answers(self, count: int, seconds: float = 20.0) -> list[tuple[Heading[Any], bytes]]:
        """The next answers: headings and bodies."""
        async with asyncio.timeout(seconds):
            while len(self._heard) < count:
                data = await self._reader.read(1 << 18)
                assert data, "the broker has closed the connection"
                self._heard += [
                    (read_heading(encoding, header)[0], body) for encoding, header, body in self._splitter.feed(data)
                ]
        taken, self._heard = self._heard[:count], self._heard[count:]
        return taken


def a_pull(topic: str = "t", queue_id: int = 0, offset: int = 0, *, wait_ms: int | None = None, **more: Any) -> Any:
    """A pull that carries its subscription; with ``wait_ms`` it may be held for so long."""
    values: dict[str, Any] = {
        "consumer_group": "g",
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": SUBSCRIBES if wait_ms is None else SUBSCRIBES | SUSPENDS,
        "commit_offset": 0,
        "suspend_timeout_millis": wait_ms or 0,
        "subscription": "*",
        "sub_version": 0,
        "expression_type": "TAG",
    }
    return PullMessage(**{**values, **more})

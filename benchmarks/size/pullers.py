"""Consumers that all wait at the end of one queue, in a process of their own: ``python -m benchmarks.size.pullers``.

Prints a line when all of them wait. Whoever is answered asks for the next message. Ends when its input ends.
"""

import asyncio
import struct
import sys
from typing import Any

from benchmarks.overload.frames import frame
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.runtime.acceptor import raise_descriptor_limit
from firearrow.runtime.loops import new_loop

AT_ONCE = 100
WAITS_MS = 20_000
SUSPEND_AND_SUBSCRIPTION = 0x2 | 0x4
_ANSWER = struct.Struct(">I4xh")


def pull(topic: str, offset: int) -> bytes:
    """A pull that waits for the next message."""
    request = PullMessage(
        consumer_group="herd",
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=1,
        sys_flag=SUSPEND_AND_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=WAITS_MS,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return frame(request, 1)


class Puller(asyncio.Protocol):
    """One consumer: one pull at a time."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._offset = 0
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport: Any = transport
        self._ask()

    def _ask(self) -> None:
        self._transport.write(pull(self._topic, self._offset))

    def data_received(self, data: bytes) -> None:
        """An answer, or a part of it."""
        self._data += data
        while len(self._data) >= _ANSWER.size:
            length, code = _ANSWER.unpack_from(self._data)
            if len(self._data) < 4 + length:
                return
            self._data = self._data[4 + length :]
            self._offset += code == ResponseCode.SUCCESS
            self._ask()


async def _wait(port: int, count: int, topic: str) -> None:
    loop = asyncio.get_running_loop()
    for first in range(0, count, AT_ONCE):
        some = range(first, min(first + AT_ONCE, count))
        await asyncio.gather(*(loop.create_connection(lambda: Puller(topic), "127.0.0.1", port) for _ in some))
    print("all wait", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_wait(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))

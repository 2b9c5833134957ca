"""The cost of one request to the driver: a ``Server`` with a trivial handler under pipelined SEND_MESSAGE_V2 requests.

The load comes from another process over loopback, as frames encoded beforehand, so that the figure is the server's
alone: reading, splitting, decoding the header, calling the handler, encoding the answer, writing. Three handlers are
measured for each header encoding: one that answers at once, one that parks every request and has them all paid at the
end of the turn of the loop (what a store with grouped writes does), and a bare loop over ``data_received`` that only
splits frames and writes prepared answers, as the floor.

    python -m benchmarks.remoting [--seconds 3] [--connections 4] [--batch 64] [--profile]
"""

import argparse
import asyncio
import cProfile
import multiprocessing
import pstats
import resource
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.queues import Queue
from typing import cast

import uvloop

from campaigns.samples import SEND
from firearrow.protocol.command import Encoding
from firearrow.protocol.frame import FrameSplitter
from firearrow.protocol.requests.message.send import SendAnswer, SendMessageV2
from firearrow.protocol.serialize import encode_answer, encode_request
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address, SystemNetwork

BODY = b"x" * 128
REQUEST = SEND
STORED = SendAnswer(
    msg_id="7F0000010000DE6000000000001A2B3C",
    queue_id=2,
    queue_offset=123_456,
    transaction_id="7F0000010A2B18B4AAC20000000000F1",
    msg_region="DefaultRegion",
    trace_on=True,
)
OPAQUE = 1_234_567


def at_once(handlers: Handlers) -> None:
    def send(request: SendMessageV2, _call: Call) -> Answer:
        return Answer(
            SendAnswer(
                msg_id="7F0000010000DE6000000000001A2B3C",
                queue_id=request.queue_id,
                queue_offset=123_456,
                transaction_id="7F0000010A2B18B4AAC20000000000F1",
                msg_region="DefaultRegion",
                trace_on=True,
            )
        )

    handlers.on(SendMessageV2, send)


def answered_later(handlers: Handlers) -> None:
    owed: list[Later] = []

    def pay() -> None:
        for later in owed:
            later.answer(Answer(STORED))
        owed.clear()

    def send(_request: SendMessageV2, call: Call) -> Later:
        if not owed:
            asyncio.get_running_loop().call_soon(pay)
        owed.append(call.later())
        return owed[-1]

    handlers.on(SendMessageV2, send)


class Bare(asyncio.Protocol):
    """The floor: frames are split, nothing is decoded, every answer is the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._splitter = FrameSplitter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer * len(self._splitter.feed(data)))


def load(port: int, frames: bytes, answer_bytes: int, connections: int, seconds: float, out: "Queue[int]") -> None:
    """Keep two batches in flight on every connection; report the answers counted."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    out.put(0)
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.sendall(frames)
    buffer = bytearray(answer_bytes)
    batches, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for each in sockets:
            each.sendall(frames)
        for each in sockets:
            read_exactly(each, buffer)
        batches += connections
    for each in sockets:
        read_exactly(each, buffer)
        each.close()
    out.put(batches + connections)


def read_exactly(connection: socket.socket, buffer: bytearray) -> None:
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        assert count, "the server hung up"
        view = view[count:]


async def measure(encoding: Encoding, kind: str, arguments: argparse.Namespace) -> tuple[float, float]:
    """Return requests a second and microseconds of this process's CPU for each."""
    frame = encode_request(encoding, REQUEST, OPAQUE, body_size=len(BODY)) + BODY
    answer = encode_answer(encoding, OPAQUE, STORED)
    kinds: dict[str, Callable[[Handlers], None]] = {"answered at once": at_once, "answered later": answered_later}
    network = SystemNetwork()
    if kind in kinds:
        handlers = Handlers()
        kinds[kind](handlers)
        server = Server(network, handlers)
        await server.start(Address("127.0.0.1", 0))
        port, stop = server.address.port, server.stop
    else:
        listener = await network.listen(lambda: Bare(answer), Address("127.0.0.1", 0))
        listener_close = listener.wait_closed
        port, stop = listener.address.port, listener_close
    context = multiprocessing.get_context("spawn")
    out: Queue[int] = context.Queue()
    batch, answer_bytes = frame * arguments.batch, len(answer) * arguments.batch
    job = (port, batch, answer_bytes, arguments.connections, arguments.seconds, out)
    process = context.Process(target=load, args=job)
    process.start()
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, partial(out.get, timeout=20))
    cpu, began = cpu_seconds(), time.perf_counter()
    batches = await loop.run_in_executor(None, partial(out.get, timeout=arguments.seconds + 20))
    cpu, took = cpu_seconds() - cpu, time.perf_counter() - began
    process.join()
    await stop()
    requests = batches * arguments.batch
    return requests / took, cpu / requests * 1e6


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="requests in one write of the load")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    for encoding in Encoding:
        for kind in ("bare loop", "answered at once", "answered later"):
            profile = cProfile.Profile()
            if arguments.profile:
                profile.enable()
            rate, micros = uvloop.run(measure(encoding, kind, arguments))
            profile.disable()
            print(f"{encoding.name:8} {kind:18} {rate:10,.0f} requests/s  {micros:6.2f} us of server CPU a request")
            if arguments.profile and kind != "bare loop":
                pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()

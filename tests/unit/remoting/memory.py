"""Transports without a network, and virtual time, for tests of one end of a connection."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from firearrow.protocol.connection import AnswerArrived, Connection, Event
from firearrow.protocol.conversation import Request
from firearrow.protocol.frame import FrameSplitter
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer
from firearrow.protocol.serialize import encode_request
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.remoting.limits import Limits
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address, Listener, ProtocolFactory
from firearrow.testing.sim.loop import SimLoop
from tests.unit.protocol.commands import decode_answer

HERE = Address("127.0.0.1", 9876)


class MemoryTransport(asyncio.Transport):
    """Remembers every write by itself; the peer reads only when the test says so."""

    def __init__(self, port: int = 5000) -> None:
        super().__init__({"peername": ("10.0.0.1", port), "sockname": tuple(HERE)})
        self.writes: list[bytes] = []
        self.unread = 0
        self.is_stuck = False
        self.ended = ""
        self.reads = True
        self.high = 0
        self.protocol: asyncio.Protocol | None = None

    def arrive(self, protocol: asyncio.Protocol) -> "MemoryTransport":
        self.protocol = protocol
        protocol.connection_made(self)
        return self

    def hear(self, data: bytes) -> None:
        assert self.protocol is not None
        assert self.reads, "data for an end that does not read"
        self.protocol.data_received(data)

    def lose(self, error: Exception | None = None) -> None:
        assert self.protocol is not None
        self.protocol.connection_lost(error)

    def said(self) -> bytes:
        """Take everything written so far."""
        writes, self.writes = self.writes, []
        return b"".join(writes)

    def catch_up(self) -> None:
        """Let the peer read what was written."""
        assert self.protocol is not None
        self.unread, self.is_stuck = 0, False
        self.protocol.resume_writing()

    # -- asyncio's side

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended, "a write after the end"
        self.writes.append(bytes(data))
        if self.is_stuck:
            was, self.unread = self.unread, self.unread + len(data)
            if was <= self.high < self.unread:
                assert self.protocol is not None
                self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        self.high = high

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def pause_reading(self) -> None:
        assert self.reads
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads
        self.reads = True

    def is_reading(self) -> bool:
        return self.reads

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        if not self.ended:
            self.ended = how
            asyncio.get_running_loop().call_soon(self.lose)


class MemoryListener:
    address = HERE

    def close(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass


class MemoryNetwork:
    """A network whose connections the test makes by hand."""

    def __init__(self) -> None:
        self.factory: ProtocolFactory | None = None
        self.arrivals = 0

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        raise NotImplementedError

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:  # noqa: ARG002
        self.factory = factory
        return MemoryListener()

    def arrive(self) -> MemoryTransport:
        assert self.factory is not None
        self.arrivals += 1
        return MemoryTransport(5000 + self.arrivals).arrive(self.factory())


def virtually(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario under virtual time; an error that the loop would only log fails it."""
    loop = SimLoop()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    try:
        loop.run_until_complete(scenario)
    finally:
        loop.close()
    assert not errors


async def until(condition: Callable[[], object], seconds: float = 1000.0) -> None:
    """Wait in virtual time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)


async def turns(count: int = 3) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


def echo(request: GetKvConfig, call: Call) -> Answer:
    """Answer with the key that was asked for and the body that came."""
    return Answer(GetKvConfigAnswer(value=request.key), call.body)


def echoing() -> Handlers:
    handlers = Handlers()
    handlers.on(GetKvConfig, echo)
    return handlers


def frame(
    request: Request[Any], opaque: int = 1, body: bytes = b"", *, encoding: int = 0, oneway: bool = False
) -> bytes:
    return encode_request(encoding, request, opaque, body_size=len(body), oneway=oneway) + body


def ask(opaque: int = 1, body: bytes = b"", *, oneway: bool = False, encoding: int = 0) -> bytes:
    """Return a request whose answer repeats ``k<opaque>``."""
    return frame(GetKvConfig(namespace="n", key=f"k{opaque}"), opaque, body, oneway=oneway, encoding=encoding)


class Told:
    """An answer as a stock client would read it."""

    def __init__(self, encoding: int, header: bytes, body: bytes) -> None:
        heading = decode_answer(encoding, header, GetKvConfigAnswer)
        assert heading.is_answer
        self.encoding, self.opaque, self.code, self.remark = encoding, heading.opaque, heading.code, heading.remark
        self.value = heading.request.value if heading.request else None
        self.body = body


def told(data: bytes) -> list[Told]:
    """Read answers."""
    splitter = FrameSplitter()
    answers = [Told(*one) for one in splitter.feed(data)]
    assert not splitter.kept
    return answers


class Client:
    """The peer's end of a connection to a server under test: a state machine over a ``MemoryTransport``.

    It speaks first, because a server says nothing before it knows whether its peer speaks TLS.
    """

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        transport.hear(ask())
        assert len(told(transport.said())) == 1
        self.talk = Connection()

    def asks(self, request: Request[Any], body: bytes = b"") -> None:
        self.talk.call(request, body, deadline=1e9)
        self.transport.hear(b"".join(self.talk.data_to_send()))

    def hears(self) -> list[Event]:
        return self.talk.receive_data(self.transport.said())

    def hears_answers(self) -> list[AnswerArrived]:
        return [event for event in self.hears() if isinstance(event, AnswerArrived)]

    def replies(self) -> None:
        self.transport.hear(b"".join(self.talk.data_to_send()))


async def serving(handlers: Handlers | None = None, **limits: Any) -> tuple[Server, MemoryNetwork]:
    network = MemoryNetwork()
    server = Server(network, handlers or echoing(), Limits(**limits))
    await server.start(HERE)
    return server, network

"""One simulated connection: two endpoints, each an ``asyncio.Transport`` for its protocol.

An endpoint behaves as asyncio's own transports do, and where stock asyncio and uvloop differ as the stricter
of the two. Protocols are called in the context of the process they belong to; a frozen process's bytes wait
in the inbox.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from firearrow.runtime.network import Address, ProtocolFactory
from firearrow.testing.sim.process import Process
from firearrow.testing.sim.transport import OUTSIDE, Cables, Signal, Stream

HIGH_WATER_BYTES: Final = 64 * 1024


class Wiring(Cables, Protocol):
    """The network of an endpoint, as the endpoint needs it."""

    def forget(self, connection: "SimConnection") -> None:
        """Drop a connection of which both ends are gone."""
        ...


class SimConnection:
    """A pair of endpoints."""

    __slots__ = ("far", "near", "number")

    def __init__(self, number: int, near: "SimEndpoint", far: "SimEndpoint") -> None:
        self.number = number
        self.near = near
        self.far = far
        for end, peer in ((near, far), (far, near)):
            end.join(self, peer)

    @property
    def ends(self) -> tuple["SimEndpoint", "SimEndpoint"]:
        """The two endpoints, the one that connected first."""
        return self.near, self.far


class SimEndpoint(asyncio.Transport):
    """One end of a connection, as its protocol sees it."""

    _stream: Stream
    _peer: "SimEndpoint"
    _connection: SimConnection
    _protocol: asyncio.BaseProtocol

    def __init__(
        self, cables: Wiring, process: Process, factory: ProtocolFactory, here: Address, there: Address
    ) -> None:
        super().__init__({"sockname": tuple(here), "peername": tuple(there)})
        self.node = process.name
        self.process = process
        self.context = process.context()
        self.gone = False  # the kernel's half is gone: nothing is sent or accepted any more
        self._cables = cables
        self._factory = factory
        self._inbox: deque[bytearray | Signal] = deque()
        self._made = False
        self._told_lost = False
        self._closing = False
        self._eof_sent = False
        self._reading = True
        self._writing_paused = False
        self._draining_inbox = False
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4

    def join(self, connection: SimConnection, peer: "SimEndpoint") -> None:
        """Tie this end to the other."""
        self._connection = connection
        self._peer = peer
        self._stream = Stream(self._cables, self, peer)

    @property
    def stream(self) -> Stream:
        """The stream that this end sends."""
        return self._stream

    def made(self) -> None:
        """Build the protocol and tell it that the connection stands; what arrived before comes next."""
        if self.gone:
            return
        self._protocol = self.context.run(self._factory)
        self._made = True
        self._call(self._protocol.connection_made, self)
        self._schedule_inbox()

    # -- the transport's surface

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
        if self._eof_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._told_lost:
            raise RuntimeError("write() after connection_lost(): uvloop refuses it too")
        if self._closing or not data:
            return
        self._stream.send(bytes(data))
        self._maybe_pause()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several pieces."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """End this direction after what was written; the other goes on."""
        if self._eof_sent or self._closing:
            return
        self._eof_sent = True
        if not self._stream.outgoing:
            self._stream.signal(Signal.FIN)

    def can_write_eof(self) -> bool:
        """Streams can be half-closed."""
        return True

    def close(self) -> None:
        """Flush, then end the connection."""
        if self._closing:
            return
        self._closing = True
        if not self._stream.outgoing:
            self._end(None)

    def abort(self) -> None:
        """End the connection now; what was not on the cable yet is dropped."""
        if not self.gone:
            self._closing = True
            self._stream.outgoing.clear()
            self._end(None)

    def is_closing(self) -> bool:
        """Whether it is closing or closed."""
        return self._closing

    def pause_reading(self) -> None:
        """Leave what arrives in the inbox."""
        self._reading = False

    def resume_reading(self) -> None:
        """Take from the inbox again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._schedule_inbox()

    def is_reading(self) -> bool:
        """Whether data is handed to the protocol."""
        return self._reading and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand over to another protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol in charge."""
        return self._protocol

    def get_write_buffer_size(self) -> int:
        """Return the bytes not on the cable yet."""
        return len(self._stream.outgoing)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the marks of back-pressure, low and high."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the marks of back-pressure, with asyncio's defaults."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._maybe_pause()

    # -- back-pressure

    def _maybe_pause(self) -> None:
        if not self._writing_paused and len(self._stream.outgoing) > self._high:
            self._writing_paused = True
            self._protocol.pause_writing()

    def drained(self) -> None:
        """Some of the outgoing bytes went out."""
        if not self._stream.outgoing:
            if self._eof_sent:
                self._stream.signal(Signal.FIN)
            if self._closing and not self.gone:
                self._end(None)
        if self._writing_paused and len(self._stream.outgoing) <= self._low:
            self._cables.loop.call_soon(self._resume_writing, context=self.context)

    def _resume_writing(self) -> None:
        if self._writing_paused and not self.gone and len(self._stream.outgoing) <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()

    # -- arrivals

    def arrived(self, packet: bytearray | Signal) -> None:
        """A packet came off the cable."""
        if self.gone:
            if packet is not Signal.RST and not self._peer.gone:
                self._stream.signal(Signal.RST)
        elif packet is Signal.RST:
            self.broken(ConnectionResetError(104, "connection reset by peer"))
        elif self._inbox or not self._takes():
            self._inbox.append(packet)
            self._schedule_inbox()
        else:
            self._take(packet)

    def _takes(self) -> bool:
        return self._made and self._reading and not self._closing and not self.process.frozen

    def _schedule_inbox(self) -> None:
        if self._draining_inbox or not (self._inbox and self._made and self._reading) or self._closing:
            return
        self._draining_inbox = True
        loop = self._cables.loop
        if self.process.frozen:
            loop.call_soon(self._thawed, context=self.context)  # the loop keeps it until the process thaws
        else:
            loop.call_soon(self._drain_inbox, context=OUTSIDE)

    def _thawed(self) -> None:
        self._draining_inbox = False
        self._schedule_inbox()

    def _drain_inbox(self) -> None:
        self._draining_inbox = False
        while self._inbox and self._takes():
            self._take(self._inbox.popleft())
        self._schedule_inbox()

    def _take(self, packet: bytearray | Signal) -> None:
        where = f"{self._connection.number} {self._peer.node}>{self.node}"
        if isinstance(packet, Signal):
            self._cables.trace.add("fin", where)
            self._take_eof()
            return
        data = bytes(packet)
        contents = f"{zlib.crc32(data):08x}" if self._cables.profile.trace_contents else "-"
        self._cables.trace.add("data", f"{where} {len(data)} {contents}")
        self._peer.stream.taken(len(data))
        self._call(self._protocol.data_received, data)  # type: ignore[attr-defined]

    def _take_eof(self) -> None:
        keep_open = self._call(self._protocol.eof_received)  # type: ignore[attr-defined]
        if not keep_open:
            self.close()

    def _call(self, callback: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401
        try:
            return self.context.run(callback, *args)
        except Exception as error:  # noqa: BLE001 - reported to the loop, as asyncio's own transports do
            loop = self._cables.loop
            report = {"message": "a protocol callback failed", "exception": error, "owner": self.process}
            loop.call_exception_handler(report)
            self.broken(error)
            return None

    # -- endings

    def _end(self, error: Exception | None) -> None:
        if self._unread():
            self._stream.signal(Signal.RST)
        elif not self._eof_sent:
            self._stream.signal(Signal.FIN)
        self._leave(error)

    def _unread(self) -> bool:
        return any(not isinstance(packet, Signal) for packet in self._inbox)

    def broken(self, error: Exception) -> None:
        """The connection ended under this end's feet: a reset, a timeout, a failed protocol."""
        if not self.gone:
            self._cables.trace.add("broken", f"{self._connection.number} {self.node} {type(error).__name__}")
            self._leave(error)

    def killed(self, *, power: bool) -> None:
        """The process died: its kernel says goodbye, unless the power went with it."""
        if self.gone:
            return
        self._stream.outgoing.clear()
        if not power:
            reset = self._unread() or self._cables.rng.random() < self._cables.profile.reset_on_crash_chance
            self._stream.signal(Signal.RST if reset else Signal.FIN)
        self._leave(ConnectionResetError(104, "the process is dead"))

    def _leave(self, error: Exception | None) -> None:
        self.gone = True
        self._closing = True
        self._inbox.clear()
        self._stream.outgoing.clear()
        self._cables.loop.call_soon(self._lost, error, context=self.context)
        if self._peer.gone:
            self._cables.forget(self._connection)

    def _lost(self, error: Exception | None) -> None:
        self._told_lost = True
        if self._made:
            self._protocol.connection_lost(error)

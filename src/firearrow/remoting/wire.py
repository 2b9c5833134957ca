"""The transport side of a connection: when to write, when to read, and when to end.

Frames that are queued within one turn of the loop are gathered and leave in one write. A server does not read from a
peer that does not read (``write_high_water_bytes``), nor from a peer that is owed too much (``max_connection_bytes``),
nor from a peer whose requests wait for room (``room``). A caller always reads: else both ends could wait for ever.

Invariants: nothing is written after ``close``; reading is paused exactly while there is a reason for it.
"""

import asyncio
import logging
import math
from collections import deque
from typing import Final, cast

from firearrow.errors import BadFrame, ConnectionLost, Overloaded
from firearrow.protocol.connection import Buffer, Event
from firearrow.protocol.connection import Connection as Talk
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import ALL_REQUESTS, UNCOUNTED_BYTES, WRITE_BUFFER
from firearrow.remoting.write_line import WriteLine
from firearrow.runtime.certificates import common_name
from firearrow.runtime.network import Address
from firearrow.runtime.turn import Share, soon

log: Final = logging.getLogger(__name__)

JOIN_BELOW_BYTES: Final = 64 * 1024
"""Frames up to this many bytes in all are copied into one buffer; above it the copy would cost more than it saves."""

CLOSING_S: Final = 5.0
"""The time that a closed connection has to send its queued bytes before it is cut."""


class Wire(asyncio.Protocol):
    """A transport with flow control, under the state machine of one connection."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        limits = endpoint.limits
        self._endpoint = endpoint
        shapes = endpoint.handlers.send_shapes
        learns = not endpoint.handlers.asks_who
        self._talk = Talk(limits=endpoint.frame_limits, outstanding_max=limits.max_calls, shapes=shapes, learns=learns)
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._holds = 0
        self._is_gathering = False
        self._awaits_greeting = False
        self._opened_at = self._last_received = self._last_sent = 0.0
        self._frame_began: float | None = None
        self._frames_received = 0
        self._closing_at: float | None = None
        self._line = WriteLine()
        self._is_admitting = False
        self._gathered = 0
        self._most_gathered = limits.write_high_water_bytes
        self._aside: deque[Event] = deque()
        self._written = 0
        self._large_writes: deque[tuple[int, int]] = deque()  # where each begins and ends in what was written
        self.is_open = False
        self.is_writable = True
        self.certificate_name = ""
        self.is_forwarded = False

    @property
    def address(self) -> Address:
        """The peer's address."""
        assert self._address is not None
        return self._address

    # -- callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the new transport."""
        self._transport = cast("asyncio.Transport", transport)
        endpoint = self._endpoint
        if self._address is None:
            self._address = Address(*transport.get_extra_info("peername")[:2])
        limits = endpoint.limits
        self._transport.set_write_buffer_limits(limits.write_high_water_bytes, limits.write_high_water_bytes // 4)
        self._opened_at = self._last_received = self._last_sent = endpoint.loop.time()
        self.is_open = True
        if endpoint.budget.is_exhausted:
            self.hold(ALL_REQUESTS)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection: the transport is gone."""
        self._transport = None
        self._end("the connection was lost" if exc is None else f"the connection was lost: {exc}")

    def pause_writing(self) -> None:
        """Note that the peer does not keep up with reading."""
        self.is_writable = False
        self.hold(WRITE_BUFFER)

    def resume_writing(self) -> None:
        """Note that the peer has caught up with reading."""
        self.is_writable = True
        self._endpoint.unsent.update(self, self.unsent, self.unfreed)
        self.unhold(WRITE_BUFFER)
        self._admit()

    def wait_for_greeting(self) -> None:
        """Write nothing until ``continue_over``: it is not known yet whether the peer uses TLS."""
        self._awaits_greeting = True

    def continue_over(self, transport: asyncio.Transport, source: Address | None) -> None:
        """Use this transport, perhaps a TLS layer over the first; ``source`` is the address from a load balancer."""
        self._transport = transport
        self.certificate_name = common_name(transport.get_extra_info("peercert"))
        self.is_forwarded = source is not None
        if source is not None:
            self._address = source
        self._awaits_greeting = False
        self._gather()

    def _note_partial(self, has_ended_frames: bool) -> None:
        kept = self._talk.kept
        if not kept:
            self._frame_began = None
        elif has_ended_frames or self._frame_began is None:
            self._frame_began = self._last_received
        self._endpoint.partials.update(self, kept, is_new=has_ended_frames)

    # -- writing

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def unfreed(self) -> int:
        """Bytes of the writes that are not sent completely: a transport may free a write when all of it is sent."""
        unsent, large = self.unsent, self._large_writes
        sent = self._written - unsent
        while large and large[0][1] <= sent:
            large.popleft()
        return unsent + max(sent - large[0][0], 0) if large else unsent

    @property
    def may_send(self) -> bool:
        """Whether a call may be sent now: the peer keeps up with reading, and no other call waits."""
        return self.is_writable and self._gathered < self._most_gathered and not self._line

    async def wait_to_send(self, timeout_ms: float, size: int) -> float:
        """Wait for the turn of a call of ``size`` bytes; return the seconds that took, or raise ``Overloaded``."""
        loop = self._endpoint.loop
        began = loop.time()
        if self.is_open:
            turn = self._line.join(size)
            self._admit_soon()
            try:
                async with asyncio.timeout_at(began + timeout_ms / 1000):
                    await turn
            except TimeoutError:
                message = f"{self.address} has read nothing for {timeout_ms:.0f} ms; the request was not sent"
                raise Overloaded(message) from None
            finally:
                self._line.leave(turn)
        return loop.time() - began

    def _admit_soon(self) -> None:
        if self.is_writable and not self._is_admitting:
            self._is_admitting = True
            soon(Share.CONNECTION, self._admit)

    def _admit(self) -> None:
        self._is_admitting = False
        if self.is_writable and self._line.admit(self._most_gathered - self._gathered):
            self._admit_soon()

    def _check_room(self, body: Buffer) -> None:
        limits = self._endpoint.limits
        if not self.is_open or self._transport is None or self._talk.is_ended:
            raise ConnectionLost(f"the connection to {self._address} has ended", sent=False)
        if len(body) > limits.max_frame_bytes:  # the peer would end the connection with all calls on it
            raise BadFrame(f"a body of {len(body)} bytes does not fit into a frame of max_frame_bytes")
        if not self.is_writable and self._transport.get_write_buffer_size() > limits.max_unsent_bytes:
            raise Overloaded(f"{self.address} does not read: max_unsent_bytes is reached")

    def _gather(self) -> None:
        if not self._is_gathering:
            self._is_gathering = True
            self._endpoint.flush_this_turn(self)

    def flush(self) -> None:
        """Write everything that was gathered."""
        self._is_gathering = False
        self._gathered = 0
        if self._aside:
            self.look_for_room()
        if self._awaits_greeting:
            return
        talk, transport = self._talk, self._transport
        if not talk.to_send:
            return
        data, talk.to_send = talk.to_send, []  # what `data_to_send` does, without the call
        if transport is None or self._closing_at is not None:
            return
        self._last_sent = self._endpoint.loop.time()
        if len(data) == 1:
            size = len(data[0])
            transport.write(data[0])
        else:
            size = sum(map(len, data))
            if size <= JOIN_BELOW_BYTES:
                transport.write(b"".join(data))
            else:
                transport.writelines(data)
        self._written += size
        unsent = transport.get_write_buffer_size()
        if unsent > UNCOUNTED_BYTES:
            if size > UNCOUNTED_BYTES:
                self._large_writes.append((self._written - size, self._written))
            self._endpoint.unsent.update(self, unsent, self.unfreed)
            if not self.is_writable and unsent > self._endpoint.limits.max_unsent_bytes:
                self.cut("max_unsent_bytes is reached: the peer does not read")

    def look_for_room(self) -> None:
        """Handle requests that were set aside, if there is room for their answers."""
        raise NotImplementedError

    # -- pausing and resuming reads

    def hold(self, reason: int) -> None:
        """Stop reading for this reason, besides others; a no-op at a caller, which must always read."""
        if not self._endpoint.is_server:
            return
        transport = self._transport
        # uvloop begins to read after `connection_made`, also a transport that was paused there.
        if transport is not None and not transport.is_closing() and (not self._holds or transport.is_reading()):
            transport.pause_reading()
        self._holds |= reason

    def unhold(self, reason: int) -> None:
        """Read again if this was the last reason not to."""
        if not self._holds & reason:
            return
        self._holds &= ~reason
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- the end

    def check_silence(self, now: float) -> None:
        """End the connection if it has been idle, or slow with a frame, for too long."""
        limits = self._endpoint.limits
        if self._closing_at is not None:
            if now - self._closing_at >= CLOSING_S and self._transport is not None:
                self._transport.abort()
        elif now - max(self._last_received, self._last_sent) >= limits.idle_s:
            log.info("idle connection closed", extra={"peer": str(self.address), "idle_s": limits.idle_s})
            self.close()
        elif limits.frame_s and self._frame_began is not None and now - self._frame_began >= limits.frame_s:
            self.cut("a frame was not complete within frame_s")
        elif limits.first_frame_s and not self._frames_received and now - self._opened_at >= limits.first_frame_s:
            self.cut("no whole frame came within first_frame_s")

    def close(self, reason: str = "the connection was closed here") -> None:
        """End the connection after everything that is queued has been written."""
        if self._transport is None or self._closing_at is not None:
            return
        self.flush()
        self._closing_at = self._endpoint.loop.time()
        self._transport.close()
        self._end(reason)

    def cut(self, reason: str) -> None:
        """End the connection at once."""
        number = self._endpoint.cuts.count(self._endpoint.loop.time())
        if number:
            extra = {"peer": str(self.address), "reason": reason, "cut": number, "total": self._endpoint.cuts.total}
            log.warning("connection of %s cut: %s", self.address, reason, extra=extra)
        self._closing_at = self._endpoint.loop.time()
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:  # noqa: ARG002 - subclasses use the reason
        """Release everything that waits for this peer. May be called more than once."""
        self.is_open = False
        self._line.admit(math.inf)

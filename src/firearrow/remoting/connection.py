"""One connection: the state machine of ``protocol.connection`` with a transport under it.

Both ends are the same class, because both ends may ask and answer. What arrives in one read is decoded, handled and
answered before anything else happens, and all of its answers leave in one write; whatever is said outside a read
(parked answers, pushes, calls) is gathered and leaves in one write at the end of the turn of the loop.

A server does not read from a peer that does not read (``write_high_water_bytes``), nor from one that is owed too much
(``max_connection_bytes``). A caller always reads: if neither end did, both would wait for ever.

Invariants: ``on_outcome`` of a call runs exactly once unless the call was forgotten; nothing is written after
``close``; what is parked is counted in the endpoint's budget exactly while it is owed and the connection is open.
"""

import asyncio
import logging
from functools import partial
from typing import Any, Final, cast

import msgspec

from firearrow.errors import (
    BrokenInvariant,
    ConnectionLost,
    FireArrowError,
    Overloaded,
    RequestRefused,
    RequestTimedOut,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.connection import (
    AnswerArrived,
    Buffer,
    Event,
    RequestArrived,
    RequestDeclined,
    StreamBroken,
)
from firearrow.protocol.connection import Connection as Talk
from firearrow.protocol.conversation import A, Request
from firearrow.protocol.refusal import Refused, unsupported
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import ALL_REQUESTS, OWN_REQUESTS, WRITE_BUFFER
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Later
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, OnOutcome, Reply
from firearrow.runtime.network import Address

log: Final = logging.getLogger(__name__)

JOIN_BELOW_BYTES: Final = 64 * 1024
"""Answers up to this many bytes in all are copied into one buffer; above it the copy would cost more than it saves."""

SILENT_S: Final = 1.0
"""A server that has not sent a byte for this long, and lets a call time out, is taken for gone."""

CLOSING_S: Final = 5.0
"""How long a closed connection may take to send what was queued before it is cut."""


class _Asker(msgspec.Struct, gc=False):
    on_outcome: OnOutcome[Any]
    accept: frozenset[int]
    asked_at: float


class Connection(asyncio.Protocol):
    """The driver of one connection, and the ``Peer`` that handlers see."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        limits = endpoint.limits
        self._endpoint = endpoint
        self._talk = Talk(limits=endpoint.frame_limits, outstanding_max=limits.max_calls)
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._by_code = endpoint.handlers.by_code
        self._holds = 0
        self._in_flight = 0
        self._is_gathering = False
        self._opened_at = self._last_heard = self._last_said = self._frame_began = 0.0
        self._frames_heard = 0
        self._closing_at: float | None = None
        self._writable: list[asyncio.Future[None]] = []
        self.is_open = False
        self.is_writable = True
        self.is_leaving = False
        self.slots: dict[object, Any] = {}

    @property
    def address(self) -> Address:
        """Where the peer is."""
        assert self._address is not None
        return self._address

    @property
    def outstanding(self) -> int:
        """Calls of ours that wait for an answer."""
        return self._talk.outstanding

    # -- what the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        endpoint = self._endpoint
        if self._address is None:
            self._address = Address(*transport.get_extra_info("peername")[:2])
        limits = endpoint.limits
        self._transport.set_write_buffer_limits(limits.write_high_water_bytes, limits.write_high_water_bytes // 4)
        self._opened_at = self._last_heard = self._last_said = endpoint.loop.time()
        self.is_open = True
        if endpoint.budget.is_exhausted:
            self.hold(ALL_REQUESTS)
        endpoint.opened(self)

    def data_received(self, data: bytes) -> None:
        """Take what one read brought: handle every request in it and write all answers at once."""
        endpoint, talk, by_code = self._endpoint, self._talk, self._by_code
        self._last_heard = endpoint.loop.time()
        self._is_gathering = True
        events = talk.receive_data(data)
        self._frames_heard += len(events)
        if talk.kept or self._frame_began:
            self._note_partial(bool(events))
        if endpoint.handlers.urgent and len(events) > 1:
            events = self._urgent_first(events)
        for event in events:
            if event.__class__ is not RequestArrived:
                self._take(event)
                continue
            handler = by_code.get(event.heading.code)
            if handler is None:
                talk.refuse(event, unsupported(event.heading.code))
                continue
            call = Call(event, self)
            try:
                answer = handler(event.heading.request, call)
            except Exception as error:  # noqa: BLE001 - a handler's bug must not end the connection
                self._failed(call, error)
                continue
            if not isinstance(answer, Later):
                answer = answer or SUCCESS
                talk.answer(event, answer.fields, answer.body, code=answer.code, remark=answer.remark)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: nobody waits for this peer any more."""
        if self._transport is None:
            return
        self._transport = None
        self._end("the connection was lost" if exc is None else f"the connection was lost: {exc}")
        self._endpoint.ended(self)

    def pause_writing(self) -> None:
        """Note that the peer does not keep up with reading."""
        self.is_writable = False
        if self._endpoint.is_server:
            self.hold(WRITE_BUFFER)

    def resume_writing(self) -> None:
        """Note that the peer has caught up."""
        self.is_writable = True
        self.unhold(WRITE_BUFFER)
        self._wake_writers()

    def speak_through(self, transport: asyncio.Transport, source: Address | None) -> None:
        """Take a layer over the transport, or the address that a load balancer vouched for."""
        self._transport = transport
        if source is not None:
            self._address = source

    # -- what arrived

    def _note_partial(self, has_ended_frames: bool) -> None:
        kept = self._talk.kept
        if not kept:
            self._frame_began = 0.0
        elif has_ended_frames or not self._frame_began:
            self._frame_began = self._last_heard
        self._endpoint.partials.update(self, kept, is_new=has_ended_frames)

    def _urgent_first(self, events: list[Event]) -> list[Event]:
        urgent = self._endpoint.handlers.urgent
        first = [e for e in events if isinstance(e, RequestArrived) and e.heading.code in urgent]
        if not first:
            return events
        return first + [e for e in events if not (isinstance(e, RequestArrived) and e.heading.code in urgent)]

    def _take(self, event: Event) -> None:
        if isinstance(event, AnswerArrived):
            self._take_answer(event)
        elif isinstance(event, RequestDeclined):
            extra = {"peer": str(self.address), "code": event.heading.code, "reason": event.refusal.remark}
            log.info("request declined", extra=extra)
        elif isinstance(event, StreamBroken):
            log.warning("stream broken", extra={"peer": str(self.address), "reason": str(event.reason)})
            self.close()

    def _take_answer(self, event: AnswerArrived) -> None:
        asker: _Asker = event.asked.context
        if event.code == ResponseCode.GO_AWAY:
            self.is_leaving = True
        outcome: Reply[Any] | FireArrowError
        if event.fault is not None:
            outcome = event.fault
        elif event.code in asker.accept and event.answer is not None:
            outcome = Reply(event.answer, event.body, event.code, event.heading.remark, event.heading.version)
        else:
            asked = type(event.asked.request).__name__
            outcome = RequestRefused(event.code, event.remark, asked=asked, address=str(self.address))
        self._report(asker, outcome)
        if self.is_leaving and not self._talk.outstanding:
            self.close()

    def _report(self, asker: _Asker, outcome: "Reply[Any] | FireArrowError") -> None:
        try:
            asker.on_outcome(outcome)
        except BrokenInvariant:
            raise
        except Exception:  # a bug of one asker must not reach the others
            log.exception("on_outcome failed", extra={"peer": str(self.address)})

    def _failed(self, call: Call, error: Exception) -> None:
        """Answer a request whose handler raised. This is the one place where refusals become bytes."""
        if isinstance(error, BrokenInvariant):
            raise error
        if isinstance(error, Refused):
            answer = Answer(code=error.code, remark=error.remark)
        else:
            asked = type(call.asked.heading.request).__name__
            log.error("handler failed", exc_info=error, extra={"peer": str(self.address), "request": asked})
            answer = Answer(code=ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
        if call.parked is not None:
            call.parked.answer(answer)
        else:
            self._talk.answer(call.asked, code=answer.code, remark=answer.remark)

    # -- answers that are owed

    def park(self, size: int) -> None:
        """Count a request whose answer is owed."""
        self._in_flight += size
        self._endpoint.budget.take(size)
        if self._in_flight >= self._endpoint.limits.max_connection_bytes:
            self.hold(OWN_REQUESTS)

    def pay(self, asked: RequestArrived, answer: Answer, size: int) -> None:
        """Queue an answer that was owed."""
        self._in_flight -= size
        self._endpoint.budget.give(size)
        if self._holds & OWN_REQUESTS and self._in_flight <= self._endpoint.limits.max_connection_bytes // 4 * 3:
            self.unhold(OWN_REQUESTS)
        self._talk.answer(asked, answer.fields, answer.body, code=answer.code, remark=answer.remark)
        self._gather()

    # -- what we say

    def push(self, request: Request[Any], body: Buffer = b"") -> None:
        """Send a one-way request."""
        self._check_room()
        self._talk.tell(request, body)
        self._gather()

    def begin(
        self,
        request: Request[A],
        body: Buffer,
        on_outcome: OnOutcome[A],
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> int:
        """Send a request; return its opaque. ``on_outcome`` runs once, with the reply or the error, after this returns.

        Codes in ``accept`` are replies, all others are ``RequestRefused``.
        """
        self._check_room()
        now = self._endpoint.loop.time()
        asker = _Asker(on_outcome, accept, now)
        opaque = self._talk.call(request, body, deadline=now + timeout_ms / 1000, context=asker)
        self._endpoint.watch_deadlines(self)
        self._gather()
        return opaque

    async def call(
        self,
        request: Request[A],
        body: Buffer = b"",
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> Reply[A]:
        """Send a request and wait for its answer."""
        if not self.is_writable:
            timeout_ms -= await self.wait_writable(timeout_ms) * 1000
        future: asyncio.Future[Reply[A]] = self._endpoint.loop.create_future()
        opaque = self.begin(request, body, partial(settle, future), timeout_ms=timeout_ms, accept=accept)
        try:
            return await future
        finally:
            self._talk.forget(opaque)

    async def wait_writable(self, timeout_ms: float) -> float:
        """Wait until the peer keeps up with reading; return the seconds that took, or raise ``Overloaded``."""
        loop = self._endpoint.loop
        began = loop.time()
        while self.is_open and not self.is_writable:
            future: asyncio.Future[None] = loop.create_future()
            self._writable.append(future)
            try:
                async with asyncio.timeout_at(began + timeout_ms / 1000):
                    await future
            except TimeoutError:
                message = f"{self.address} has not read what it was sent for {timeout_ms:.0f} ms; nothing more was sent"
                raise Overloaded(message) from None
        return loop.time() - began

    def _check_room(self) -> None:
        if not self.is_open or self._transport is None:
            raise ConnectionLost(f"the connection to {self._address} has ended")
        if not self.is_writable and self._transport.get_write_buffer_size() > self._endpoint.limits.max_unsent_bytes:
            raise Overloaded(f"{self.address} does not read: max_unsent_bytes is reached")

    def _gather(self) -> None:
        if not self._is_gathering:
            self._is_gathering = True
            self._endpoint.speak_this_turn(self)

    def flush(self) -> None:
        """Write everything that was gathered, at once."""
        self._is_gathering = False
        data = self._talk.data_to_send()
        transport = self._transport
        if not data or transport is None or self._closing_at is not None:
            return
        self._last_said = self._endpoint.loop.time()
        if len(data) == 1:
            transport.write(data[0])
        elif sum(map(len, data)) <= JOIN_BELOW_BYTES:
            transport.write(b"".join(data))
        else:
            transport.writelines(data)
        if not self.is_writable and transport.get_write_buffer_size() > self._endpoint.limits.max_unsent_bytes:
            self.cut("max_unsent_bytes is reached: the peer does not read")

    # -- reading or not

    def hold(self, reason: int) -> None:
        """Stop reading, for this reason too."""
        if not self._holds and self.is_open and self._transport is not None:
            self._transport.pause_reading()
        self._holds |= reason

    def unhold(self, reason: int) -> None:
        """Read again if this was the last reason not to."""
        if not self._holds & reason:
            return
        self._holds &= ~reason
        if not self._holds and self.is_open and self._transport is not None:
            self._transport.resume_reading()

    # -- time

    def expire(self, now: float) -> None:
        """Report the calls whose deadline has passed."""
        for asked in self._talk.expire(now):
            asker: _Asker = asked.context
            what, waited = type(asked.request).__name__, (now - asker.asked_at) * 1000
            self._report(asker, RequestTimedOut(f"{self.address} did not answer {what} within {waited:.0f} ms"))
            is_silent = self._last_heard <= asker.asked_at and now - asker.asked_at >= SILENT_S
            if is_silent and not self._endpoint.is_server and self.is_open:
                self.cut("a call timed out and nothing at all came from the server meanwhile")

    def check_silence(self, now: float) -> None:
        """End the connection if it has been silent, or slow, for too long."""
        limits = self._endpoint.limits
        if self._closing_at is not None:
            if now - self._closing_at >= CLOSING_S and self._transport is not None:
                self._transport.abort()
        elif now - max(self._last_heard, self._last_said) >= limits.idle_s:
            log.info("idle connection closed", extra={"peer": str(self.address), "idle_s": limits.idle_s})
            self.close()
        elif limits.frame_s and self._frame_began and now - self._frame_began >= limits.frame_s:
            self.cut("frame_s is over and the frame is not whole")
        elif limits.first_frame_s and not self._frames_heard and now - self._opened_at >= limits.first_frame_s:
            self.cut("first_frame_s is over and nothing whole was said")

    # -- the end

    def close(self) -> None:
        """End the connection after what was already said has left."""
        if self._transport is None or self._closing_at is not None:
            return
        self.flush()
        self._closing_at = self._endpoint.loop.time()
        self._transport.close()
        self._end("the connection was closed here")

    def cut(self, reason: str) -> None:
        """End the connection at once."""
        log.warning("connection cut", extra={"peer": str(self.address), "reason": reason})
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        """Let go of everything that waits for this peer."""
        self.is_open = False
        self._endpoint.budget.give(self._in_flight)
        self._in_flight = 0
        self._wake_writers()
        for asked in self._talk.closed():
            what = type(asked.request).__name__
            self._report(asked.context, ConnectionLost(f"{what} to {self.address} has no answer: {reason}"))

    def _wake_writers(self) -> None:
        writable, self._writable = self._writable, []
        for future in writable:
            if not future.done():
                future.set_result(None)


def settle(future: "asyncio.Future[Reply[A]]", outcome: "Reply[A] | FireArrowError") -> None:
    """Hand an outcome to whoever awaits the future, if anybody still does."""
    if future.done():
        return
    if isinstance(outcome, FireArrowError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)

"""One connection: the state machine of ``protocol.connection`` with a transport under it.

Both ends are the same class, because both ends may ask and answer. What arrives in one read is decoded, handled and
answered before anything else happens, and all of its answers leave in one write; at a server what takes longer than a
part of a turn goes on in the next one (`Pieces`, `Room`). Whatever is said outside a read (parked answers, pushes,
calls) is gathered and leaves in one write at the end of the turn of the loop.

Invariants: ``on_outcome`` of a call runs exactly once unless the call was forgotten; what is parked is counted in the
endpoint's budget exactly while it is owed and the connection is open.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from firearrow.errors import (
    BrokenInvariant,
    ConnectionLost,
    FireArrowError,
    RequestTimedOut,
)
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.connection import (
    AnswerArrived,
    Buffer,
    Event,
    RequestArrived,
    RequestDeclined,
    StreamBroken,
)
from firearrow.protocol.conversation import A, Fields, Request
from firearrow.protocol.frame import PREFIX_SIZE
from firearrow.protocol.refusal import Refused, refusal_of, unsupported
from firearrow.protocol.shedding import Refusals
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import OWN_REQUESTS
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Gate, Later
from firearrow.remoting.pieces import TURN_S, Pieces
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, OnOutcome, Reply
from firearrow.runtime.network import Address

log: Final = logging.getLogger(__name__)

SILENT_S: Final = 1.0
"""A server that has not sent a byte for this long, and lets a call time out, is taken for gone."""

SMALL_READ_BYTES: Final = 16 * 1024
"""A read of fewer bytes is worth waiting for more while a server has too much to do."""


HANDLED_AT_ONCE: Final = 64
"""Requests that are handled before a look at the time."""

MOST_IN_A_TURN: Final = 512
"""Requests of one connection that are handled in a turn, however fast that is."""


class _Asker(msgspec.Struct, gc=False):
    on_outcome: OnOutcome[Any]
    accept: frozenset[int]
    asked_at: float


class Connection(Pieces):
    """The driver of one connection, and the ``Peer`` that handlers see."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._by_code = endpoint.handlers.by_code
        self._gate = endpoint.handlers.gate
        self._budget = endpoint.budget
        self._own_limit = endpoint.limits.max_connection_bytes
        self._in_flight = 0
        self._has_rested = False
        self._whole_below = min(endpoint.limits.max_frame_bytes, endpoint.limits.max_header_bytes)
        self.is_leaving = False
        self.slots: dict[object, Any] = {}

    @property
    def outstanding(self) -> int:
        """Calls of ours that wait for an answer."""
        return self._talk.outstanding

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        super().connection_made(transport)
        self._endpoint.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._endpoint.ended(self)

    # -- what arrived

    def receive(self, data: bytes) -> None:
        """Handle every request in some bytes and write all answers at once."""
        endpoint, talk = self._endpoint, self._talk
        self._last_heard = endpoint.loop.time()
        self._is_gathering = True
        if self._gate is not None and not self._aside and data.startswith(self._gate.beginnings, PREFIX_SIZE):
            data = self._past(self._gate, data)
        events = talk.receive_data(data)
        self._frames_heard += len(events)
        if talk.kept or self._frame_began is not None:
            self._note_partial(bool(events))
        if endpoint.handlers.urgent and len(events) > 1:
            events = self._urgent_first(events)
        if self._aside:
            self.set_aside(iter(events))
        else:
            self.handle(events)
        self.flush()

    def handle(self, events: Collection[Event]) -> None:
        """Handle what arrived while there are time in this turn and room for answers, and set the rest aside."""
        left = iter(events)
        if len(events) <= HANDLED_AT_ONCE or not self._is_server:
            self._handle(left)
            return
        loop = self._endpoint.loop
        until = loop.time() + TURN_S
        for _ in range(MOST_IN_A_TURN // HANDLED_AT_ONCE):
            self._handle(islice(left, HANDLED_AT_ONCE))
            if self._aside or loop.time() >= until:
                break
        self.set_aside(left)

    def _handle(self, left: Iterator[Event]) -> None:
        talk, by_code, most = self._talk, self._by_code, self._most_gathered
        for event in left:
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
            if isinstance(answer, Later):
                if self._promised and not self.has_room and self._endpoint.is_server:
                    self.set_aside(left)
                continue
            answer = answer or SUCCESS
            talk.answer(event, answer.fields, answer.body, code=answer.code, remark=answer.remark)
            if answer.body:
                self._gathered += len(answer.body)
                if self._gathered >= most and self._is_full():
                    self.set_aside(left)

    def _is_full(self) -> bool:
        """Whether there is no room for more answers when those that were gathered are written."""
        if not self._endpoint.is_server:
            return False
        self.flush()
        self._is_gathering = True
        return not self.has_room

    def _past(self, gate: Gate, data: bytes) -> bytes:
        """Have the gate refuse or take what it knows of; return what is to be read.

        Who is served while others are refused rests for a moment, so that the next read brings more.
        """
        has_rested, self._has_rested = self._has_rested, False
        refusals = gate.refusals(has_rested=has_rested)
        if self._talk.kept or self._talk.is_ended:
            return data
        if refusals is not None:
            data = self._shed(gate, refusals, data, has_rested=has_rested)
        elif gate.pacing.pace_s and len(data) < SMALL_READ_BYTES:
            self._endpoint.rest(self, gate.pacing.pace_s)
        if len(data) > self._whole_below:
            return data
        rest = gate.take(self, data)
        self._frames_heard += rest is not data
        return rest

    def _shed(self, gate: Gate, refusals: Refusals, data: bytes, *, has_rested: bool) -> bytes:
        """Refuse what is to be refused unread; return what is to be read.

        Who was refused rests, and is refused once more if that is still necessary: what came meanwhile is late. Then it
        is as good as the others, so that nobody is shut out for ever.
        """
        answers, count, rest = refusals.shed(data)
        gate.refused(count)
        self._frames_heard += count
        self._talk.answer_encoded(answers)
        if count and not has_rested:
            self._has_rested = True
            self._endpoint.rest(self, gate.pacing.rest_s)
        return rest

    def _urgent_first(self, events: list[Event]) -> list[Event]:
        urgent = self._endpoint.handlers.urgent
        for event in events:
            if event.__class__ is RequestArrived and event.heading.code in urgent:
                break
        else:
            return events
        first = [e for e in events if isinstance(e, RequestArrived) and e.heading.code in urgent]
        return first + [e for e in events if not (isinstance(e, RequestArrived) and e.heading.code in urgent)]

    def _take(self, event: Event) -> None:
        if isinstance(event, AnswerArrived):
            self._take_answer(event)
        elif isinstance(event, RequestDeclined):
            extra = {"peer": str(self.address), "code": event.heading.code, "reason": event.refusal.remark}
            log.info("request declined", extra=extra)
        elif isinstance(event, StreamBroken):
            what, reason = "the connection of %s ends: %s", str(event.reason)
            log.warning(what, self.address, reason, extra={"peer": str(self.address), "reason": reason})
            self.close(reason)

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
            outcome = refusal_of(event.code, event.remark, asked=asked, address=str(self.address))
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

    def explain(self, asked: RequestArrived, error: Exception) -> Answer:
        """The answer that an exception leads to. This is the one place where refusals become bytes."""
        if isinstance(error, BrokenInvariant):
            raise error
        if isinstance(error, Refused):
            return Answer(code=error.code, remark=error.remark)
        what, reason = RequestCode(asked.heading.code).name, f"{type(error).__name__}: {error}"
        self._endpoint.handlers.failures.count += 1
        extra = {"peer": str(self.address), "request": what, "reason": reason}
        log.error("handler failed: %s of %s: %s", what, self.address, reason, exc_info=error, extra=extra)
        return Answer(code=ResponseCode.SYSTEM_ERROR, remark=reason)

    def _failed(self, call: Call, error: Exception) -> None:
        """Answer a request whose handler raised."""
        answer = self.explain(call.asked, error)
        if call.parked is not None:
            call.parked.answer(answer)
        else:
            self._talk.answer(call.asked, code=answer.code, remark=answer.remark)

    # -- answers that are owed

    def park(self, size: int) -> None:
        """Count a request whose answer is owed."""
        budget = self._budget
        self._in_flight += size
        budget.held += size
        if self._in_flight >= self._own_limit or budget.held >= budget.limit:
            self._owed_too_much(size)

    def unpark(self, size: int) -> None:
        """Count it no more."""
        if self.is_open:
            self._owe_less(size)

    def _owed_too_much(self, size: int) -> None:
        if not self._endpoint.is_server:  # an end that must read on can only decline
            self._in_flight -= size
            self._budget.held -= size
            raise Refused(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
        if self._in_flight >= self._own_limit:
            self.hold(OWN_REQUESTS)
        self._budget.check()

    def pay(self, asked: RequestArrived, answer: Answer, size: int) -> None:
        """Give an answer that was owed: at once if it is the last, else with the others of this turn."""
        self._owe_less(size)
        self._talk.answer(asked, answer.fields, answer.body, code=answer.code, remark=answer.remark)
        self._gathered += len(answer.body)
        if self._is_gathering:
            return
        if self._in_flight or not size:
            self._is_gathering = True
            self._endpoint.speak_this_turn(self)
        else:
            self.flush()

    def pay_together(self, encoding: int, owed: Sequence[tuple[int, Fields]], answer: Answer, size: int) -> None:
        """Queue answers that were owed, each with its opaque."""
        self._owe_less(size)
        self._talk.answer_together(encoding, owed, answer.fields, answer.code, answer.remark)
        self._gather()

    def _owe_less(self, size: int) -> None:
        budget = self._budget
        self._in_flight -= size
        budget.held -= size
        if self._holds:
            if self._in_flight <= self._own_limit // 4 * 3:
                self.unhold(OWN_REQUESTS)
            budget.check()

    # -- what we say

    def push(self, request: Request[Any], body: Buffer = b"") -> None:
        """Send a one-way request."""
        self._check_room(body)
        sign = self._endpoint.sign
        self._talk.tell(request, body, extra=None if sign is None else sign(request, body))
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
        self._check_room(body)
        now = self._endpoint.loop.time()
        asker = _Asker(on_outcome, accept, now)
        sign = self._endpoint.sign
        extra = None if sign is None else sign(request, body)
        opaque = self._talk.call(request, body, deadline=now + timeout_ms / 1000, context=asker, extra=extra)
        self._endpoint.watch_deadlines(self)
        if self._talk.outstanding == 1 and not self._is_gathering:
            self.flush()  # nobody else waits here, so nobody else is likely to speak this turn: do not wait for its end
        else:
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

    def ask(
        self, request: Request[A], body: Buffer, *, timeout_ms: float, accept: frozenset[int]
    ) -> "asyncio.Future[Reply[A]]":
        """Send a request; the future is its answer. Whoever gives up waiting leaves an answer that counts as late.

        It asks again, over a new connection, for nobody: a server that is leaving refuses with GO_AWAY.
        """
        future: asyncio.Future[Reply[A]] = self._endpoint.loop.create_future()
        self.begin(request, body, partial(settle, future), timeout_ms=timeout_ms, accept=accept)
        return future

    # -- time

    def expire(self, now: float) -> None:
        """Report the calls whose deadline has passed."""
        for asked in self._talk.expire(now):
            asker: _Asker = asked.context
            what, waited = type(asked.request).__name__, (now - asker.asked_at) * 1000
            said = f"{self.address} did not answer {what} within {waited:.0f} ms{self._never_heard()}"
            self._report(asker, RequestTimedOut(said))
            is_silent = self._last_heard <= asker.asked_at and now - asker.asked_at >= SILENT_S
            if is_silent and not self._endpoint.is_server and self.is_open:
                self.cut("a call timed out and nothing at all came from the server meanwhile")

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._budget.held -= self._in_flight
        self._in_flight = 0
        self._budget.check()
        for asked in self._talk.closed():
            what = type(asked.request).__name__
            said = f"{what} to {self.address} has no answer: {reason}{self._never_heard()}"
            self._report(asked.context, ConnectionLost(said))

    def _never_heard(self) -> str:
        """What to make of a server that has sent nothing at all."""
        if self._frames_heard or self._endpoint.is_server:
            return ""
        advice = "check that it is a name server or broker, and whether it wants TLS (tls, --tls)"
        return f"; nothing has come from there: {advice}"


def settle(future: "asyncio.Future[Reply[A]]", outcome: "Reply[A] | FireArrowError") -> None:
    """Hand an outcome to whoever awaits the future, if anybody still does."""
    if future.done():
        return
    if isinstance(outcome, FireArrowError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)

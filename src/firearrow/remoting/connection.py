"""One connection: the state machine of ``protocol.connection`` with a transport under it.

Client and server use the same class, because both send requests and answers. The requests of one read are decoded,
handled and answered before anything else happens, and all of their answers leave in one write. A server spends a part
of a turn on one connection and handles the rest in later turns (`Pieces`, `Room`). Frames that are queued outside
a read (answers that were owed, pushes, calls) are gathered and leave in one write at the end of the turn of the loop.

Invariant: ``on_outcome`` of a call runs exactly once unless the call was forgotten.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from firearrow.errors import BrokenInvariant, ConnectionLost, FireArrowError, RequestTimedOut
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.connection import AnswerArrived, Buffer, Event, RequestArrived, RequestDeclined, StreamBroken
from firearrow.protocol.conversation import A, Request
from firearrow.protocol.frame import PREFIX_SIZE
from firearrow.protocol.refusal import Refused, refusal_of, unsupported
from firearrow.protocol.sends import SendsArrived
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Later
from firearrow.remoting.load_shedding import shed_load
from firearrow.remoting.owed_answers import OwingConnection
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, OnOutcome, Reply
from firearrow.runtime.network import Address

log: Final = logging.getLogger(__name__)

SILENT_S: Final = 1.0
"""The silence of the server after which a call that times out cuts the connection."""


class _Asker(msgspec.Struct, gc=False):
    on_outcome: OnOutcome[Any]
    accept: frozenset[int]
    asked_at: float


class ConnectionDriver(OwingConnection):
    """The driver of one connection, and the ``Peer`` that handlers see."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._by_code = endpoint.handlers.by_code
        self._shedding = endpoint.handlers.shedding
        self._many_sends = endpoint.handlers.many_sends
        self.has_rested = False
        self.is_leaving = False
        self.slots: dict[object, Any] = {}

    @property
    def outstanding(self) -> int:
        """The number of our calls on this connection that wait for an answer."""
        return self._talk.outstanding

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the new connection with its endpoint."""
        super().connection_made(transport)
        self._endpoint.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the ended connection from its endpoint."""
        super().connection_lost(exc)
        self._endpoint.ended(self)

    # -- receiving

    def receive(self, data: bytes) -> None:
        """Handle every request in these bytes and write all answers at once."""
        endpoint, talk = self._endpoint, self._talk
        self._last_received = endpoint.loop.time()
        self._is_gathering = True
        shedding = self._shedding
        if shedding is not None and not self._aside and data.startswith(shedding.beginnings, PREFIX_SIZE):
            is_shut = shedding.is_shut()
            if is_shut or self.has_rested or shedding.pace_s:
                data = shed_load(shedding, self, data, is_shut=is_shut)
        events = talk.receive_data(data)
        self._frames_received += len(events)
        if self._half_frame_ns and events:
            self.mark, self._half_frame_ns = self.mark - self._half_frame_ns, 0
        if talk.kept or self._frame_began is not None:
            self._note_partial(bool(events))
        if endpoint.handlers.urgent and len(events) > 1:
            events = self._urgent_first(events)
        if self._aside:
            self.set_aside(iter(events))
        elif len(events) <= self.at_once:  # what `handle` does, without the call: most reads bring few events
            self._handle(iter(events))
        else:
            self.handle(events)
        if talk.to_send or self._aside:
            self.flush()
        else:
            self._is_gathering = False
        if self._has_refused_stranger or not talk.learns:
            self._charge_stranger(self._last_received)

    def handle(self, events: Collection[Event]) -> None:
        """Handle events until this turn or the room for answers is used up, and set the rest aside."""
        left, turns, handled = iter(events), self._turns, 0
        if not self._is_server:
            self._handle(left)
            return
        most = min(len(events), self._left)
        while handled < most and not self._aside:
            at_once = min(self.at_once, most - handled)
            self._handle(islice(left, at_once))
            handled += at_once
            if turns.is_over(self, at_once):
                break
        self.set_aside(left)

    def _handle(self, left: Iterator[Event]) -> None:
        talk, by_code, most = self._talk, self._by_code, self._most_gathered
        for event in left:
            if event.__class__ is not RequestArrived:
                if event.__class__ is not SendsArrived:
                    self._take(event)
                elif not self._take_sends(event):
                    self.set_aside(left)
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

    def _take_sends(self, sends: SendsArrived) -> bool:
        """Handle many sends at once, or one by one; return whether the events behind them may be handled now."""
        if self._many_sends is not None and self._many_sends(sends, self):
            return True
        self.handle(self._talk.one_by_one(sends))
        return not self._aside

    def _is_full(self) -> bool:
        """Write the gathered answers; return whether there is still no room for more."""
        if not self._endpoint.is_server:
            return False
        self.flush()
        self._is_gathering = True
        return not self.has_room

    # -- load shedding

    @property
    def is_between_frames(self) -> bool:
        """Whether the next byte begins a frame."""
        return not (self._talk.kept or self._talk.is_ended)

    def give_encoded(self, answers: list[bytes], requests: int) -> None:
        """Queue encoded answers to this number of requests."""
        self._frames_received += requests
        self._talk.answer_encoded(answers)

    def rest(self, seconds: float) -> None:
        """Read nothing from this connection for ``seconds`` plus jitter."""
        self._endpoint.rest(self, seconds)

    # -- events

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
            peer, reason, endpoint = self.address, str(event.reason), self._endpoint
            if times := endpoint.broken_streams.count(endpoint.loop.time()):
                extra = {"peer": str(peer), "reason": reason, "times": times}
                log.warning("the connection of %s ends: %s", peer, reason, extra=extra)
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
            outcome = refusal_of(
                event.code, event.remark, asked=asked, address=str(self.address), retry_after_ms=event.retry_after_ms
            )
        self._report(asker, outcome)
        if self.is_leaving and not self._talk.outstanding:
            self.close()

    def _report(self, asker: _Asker, outcome: "Reply[Any] | FireArrowError") -> None:
        try:
            asker.on_outcome(outcome)
        except BrokenInvariant:
            raise
        except Exception:  # a bug in one callback must not keep other calls from their outcomes
            log.exception("on_outcome failed", extra={"peer": str(self.address)})

    def explain(self, asked: RequestArrived, error: Exception) -> Answer:
        """The answer that stands for an exception. This is the one place where refusals become answers."""
        if isinstance(error, BrokenInvariant):
            raise error
        if isinstance(error, Refused):
            return Answer(error.fields, code=error.code, remark=error.remark)
        what, reason = RequestCode(asked.heading.code).name, f"{type(error).__name__}: {error}"
        self._endpoint.handlers.failures.count += 1
        extra = {"peer": str(self.address), "request": what, "reason": reason}
        log.error("handler failed: %s of %s: %s", what, self.address, reason, exc_info=error, extra=extra)
        return Answer(code=ResponseCode.SYSTEM_ERROR, remark=reason)

    def _failed(self, call: Call, error: Exception) -> None:
        """Answer a request whose handler raised."""
        answer = self.explain(call.asked, error)
        if call.owed is not None:
            call.owed.answer(answer)
        else:
            self._talk.answer(call.asked, answer.fields, code=answer.code, remark=answer.remark)

    # -- sending

    def push(self, request: Request[Any], body: Buffer = b"") -> None:
        """Send a one-way request."""
        self._check_room(body)
        sign = self._endpoint.sign
        self._talk.tell(request, body, extra=None if sign is None else sign(request, body))
        self._gathered += len(body)
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
        self._gathered += len(body)
        self._endpoint.watch_deadlines(self)
        if self._talk.outstanding == 1 and not self._is_gathering:
            self.flush()  # the only call in flight: another one in this turn is unlikely, so write now, not at its end
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
        if not self.may_send:
            timeout_ms -= await self.wait_to_send(timeout_ms, len(body)) * 1000
        future: asyncio.Future[Reply[A]] = self._endpoint.loop.create_future()
        opaque = self.begin(request, body, partial(settle, future), timeout_ms=timeout_ms, accept=accept)
        try:
            return await future
        finally:
            self._talk.forget(opaque)

    def ask(
        self, request: Request[A], body: Buffer, *, timeout_ms: float, accept: frozenset[int]
    ) -> "asyncio.Future[Reply[A]]":
        """Send a request; return the future of its answer. After a cancelled wait the answer counts as late.

        A request that a leaving server refuses with GO_AWAY is not sent again over a new connection.
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
            said = f"{self.address} did not answer {what} within {waited:.0f} ms{self._advice_if_silent()}"
            self._report(asker, RequestTimedOut(said))
            is_silent = self._last_received <= asker.asked_at and now - asker.asked_at >= SILENT_S
            if is_silent and not self._endpoint.is_server and self.is_open:
                self.cut("a call timed out and the server sent nothing in that time")

    def _end(self, reason: str) -> None:
        super()._end(reason)
        for asked in self._talk.closed():
            what = type(asked.request).__name__
            said = f"{what} to {self.address} has no answer: {reason}{self._advice_if_silent()}"
            self._report(asked.context, ConnectionLost(said))

    def _advice_if_silent(self) -> str:
        """Advice for an error text when the server has never sent a frame; else an empty text."""
        if self._frames_received or self._endpoint.is_server:
            return ""
        advice = "check that it is a name server or broker, and whether it wants TLS (tls, --tls)"
        return f"; nothing has come from there: {advice}"


def settle(future: "asyncio.Future[Reply[A]]", outcome: "Reply[A] | FireArrowError") -> None:
    """Resolve the future with the outcome, unless the wait was cancelled."""
    if future.done():
        return
    if isinstance(outcome, FireArrowError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)

"""One connection as a state machine: bytes in, events out; method calls in, bytes out. No sockets, clock or waiting.

Theory
------
Both ends of a connection send requests, independently of each other. Each end numbers its requests with an *opaque* of
its own and recognises answers by the answer bit, so equal opaques of the two directions do not collide.

Our requests are kept in one table, ``opaque -> Outstanding``, until exactly one of four things happens:

    an answer arrives          -> an ``AnswerArrived`` event from ``receive_data``
    the deadline passes        -> a member of the list that ``expire(now)`` returns
    the caller gives up        -> ``forget(opaque)``
    the connection ends        -> a member of the list that ``closed()`` returns

An answer without an entry in the table came too late or was never asked for: it is counted and dropped.

Requests of the peer are not kept here. A ``RequestArrived`` holds all that an answer needs, and its holder may answer
at any time; ``answer`` is a no-op for a one-way request. Requests that no handler can be given are answered here: a
code without a conversation with code 3, fields that do not parse with code 1.

The states are *open*, *broken* and *closed*. The stream breaks when it can no longer be split into frames, or when a
heading cannot be read (``StreamBroken`` is the last event): nothing is received any more and no request is sent, but
the requests before the break are still answered. The driver calls ``closed()`` at the end: then nothing is sent.

Driving it::

    for event in connection.receive_data(data): ...
    transport.writelines(connection.data_to_send())          # once for all answers to these events

The bytes of all method calls are collected until ``data_to_send`` returns them, so many answers leave in one write.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from firearrow.errors import BadHeader, BrokenInvariant, Overloaded, ProtocolError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import ANSWER_FLAG, ONEWAY_FLAG, BadFields, Encoding, Heading, LenientHeading
from firearrow.protocol.conversation import EmptyAnswer, Fields, Request
from firearrow.protocol.frame import PREFIX_SIZE, FrameLimits, FrameSplitter
from firearrow.protocol.header_json import REFUSALS
from firearrow.protocol.refusal import Refused, unsupported
from firearrow.protocol.sends import BEGINNINGS, WORTH_IT, SendReader, SendsArrived, SendShapes
from firearrow.protocol.serialize import (
    ENCODERS,
    Catalogue,
    catalogue,
    encode_answer,
    encode_request,
    encoder,
    ext_fields,
    json_decoder,
    read_fields,
    read_heading,
)

OUTSTANDING_MAX: Final = 65_535
"""The most calls in flight on one connection (Apache permits 65,535)."""

_OPAQUE_MASK: Final = 0x7FFF_FFFF
_COMPACT_CODE_MAX: Final = 0x7FFF
_NEVER: Final = float("inf")
_BUSY: Final = frozenset({int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.FLOW_CONTROL)})
_LONGEST_WAIT_MS: Final = 3_600_000

Buffer = bytes | bytearray | memoryview


class RequestArrived(msgspec.Struct, gc=False):
    """The peer sent a request. ``heading.request`` is the typed request."""

    heading: Heading[Any]
    body: bytes
    encoding: int
    header: bytes

    def __repr__(self) -> str:
        """Say which request it is: header and body can hold secrets."""
        return f"RequestArrived(code={self.heading.code}, opaque={self.heading.opaque})"

    @property
    def request(self) -> Request[Any]:
        """The typed request."""
        request = self.heading.request
        assert isinstance(request, Request)
        return request

    @property
    def is_oneway(self) -> bool:
        """Whether the peer wants no answer."""
        return bool(self.heading.flag & ONEWAY_FLAG)

    @property
    def ext_fields(self) -> dict[str, str]:
        """All header fields as text, unknown ones included: for signatures and for forwarding."""
        if isinstance(self.heading, LenientHeading):
            return self.heading.texts.copy()
        return ext_fields(self.encoding, self.header)


class RequestDeclined(msgspec.Struct):
    """The peer sent a request that no handler can be given. The request has been refused, unless it was one-way."""

    heading: Heading[Any]
    refusal: Refused


class OutstandingRequest(msgspec.Struct):
    """A request of ours that waits for its answer. ``context`` is returned to the caller unchanged."""

    opaque: int
    request: Request[Any]
    deadline: float
    context: Any


class AnswerArrived(msgspec.Struct):
    """The peer answered. ``answer`` is None when the code is an error and no fields of the expected type came along.

    ``fault`` is set when the peer claims success but its fields are not those of the expected answer.
    """

    asked: OutstandingRequest
    heading: Heading[Any]
    answer: Fields | None
    body: bytes
    fault: BadHeader | None = None
    retry_after_ms: int | None = None
    """The wait before the next attempt, if the peer refuses and names one."""

    @property
    def code(self) -> int:
        """The response code: 0 is success."""
        return self.heading.code

    @property
    def remark(self) -> str:
        """The peer's text about the answer; empty if there is none."""
        return self.heading.remark or ""


class StreamBroken(msgspec.Struct):
    """The stream cannot be read any further: send what is queued, then close."""

    reason: ProtocolError


Event = RequestArrived | SendsArrived | RequestDeclined | AnswerArrived | StreamBroken


class Connection:
    """See the module's theory. Our requests use ``encoding``; answers use the encoding of the peer's request.

    With ``shapes`` sends of one shape arrive as one event (`sends`). While ``learns`` is False no shape of a header is
    kept: a server that asks who its peers are sets it when the peer has proved that.
    """

    def __init__(
        self,
        *,
        requests: Catalogue | None = None,
        limits: FrameLimits | None = None,
        encoding: Encoding = Encoding.JSON,
        outstanding_max: int = OUTSTANDING_MAX,
        shapes: SendShapes | None = None,
        learns: bool = True,
    ) -> None:
        self._decode_request = (requests or catalogue()).decode_request
        limits = limits or FrameLimits()
        self._splitter = FrameSplitter(limits)
        self.kept = 0
        """Bytes held for a frame that is not complete yet."""
        self._sends = None if shapes is None else SendReader(shapes)
        self.learns = learns
        # A read up to this size holds no frame that is above a limit, so `SendReader` need not check.
        self._whole_below = min(limits.frame_max, limits.header_max)
        self._encoding = encoding
        self._outstanding_max = outstanding_max
        self._outstanding: dict[int, OutstandingRequest] = {}
        self._earliest = _NEVER
        self._next_opaque = 0
        self.to_send: list[Buffer] = []
        """The bytes to write next, in order."""
        self.is_ended = self._is_closed = False
        self.late_answers = 0
        self._likely: type[Fields] = EmptyAnswer

    @property
    def outstanding(self) -> int:
        """The number of our requests that wait for an answer."""
        return len(self._outstanding)

    # Receiving

    def receive_data(self, data: bytes, splitter: FrameSplitter | None = None) -> list[Event]:
        """Take bytes from the network; return their events, in order. ``splitter`` is for whole frames of before."""
        events: list[Event] = []
        if splitter is None:
            splitter = self._splitter
            if self.is_ended:
                return events
            if (
                self._sends is not None
                and self.learns
                and data.startswith(BEGINNINGS, PREFIX_SIZE)
                and len(data) >= WORTH_IT * int.from_bytes(data[:4])
                and not self.kept
                and len(data) <= self._whole_below
            ):
                sends, data = self._sends.read(data)
                events += sends
        for encoding, header, body in splitter.feed(data):
            try:
                # With calls in flight the next frame is most likely an answer; without, it is a request.
                heading = None if self._outstanding else self._decode_request(encoding, header, self.learns)
                if heading is not None and heading.request is not None:
                    events.append(RequestArrived(heading, body, encoding, header))
                    continue
                event = (
                    self._drop_or_decline(encoding, heading) if heading else self._understand(encoding, header, body)
                )
            except BadFields as error:
                event = self._drop_or_decline(encoding, error.heading, Refused(ResponseCode.SYSTEM_ERROR, str(error)))
            except BadHeader as error:
                events.append(self._break(error))
                break
            if event is not None:
                events.append(event)
        self.kept = self._splitter.kept
        if splitter.fault is not None and not self.is_ended:
            events.append(self._break(splitter.fault))
        return events

    def one_by_one(self, sends: SendsArrived) -> list[Event]:
        """Return a `RequestArrived` for each of these sends."""
        return self.receive_data(sends.data, FrameSplitter())

    def _understand(self, encoding: int, header: bytes, body: bytes) -> Event | None:
        if self._outstanding:
            event = None if encoding else self._answered_as_before(header, body)
            if event is not None:
                return event
            heading, rest = read_heading(encoding, header)
            if heading.flag & ANSWER_FLAG:
                return self._answered(encoding, header, heading, rest, body)
        heading = self._decode_request(encoding, header, self.learns)
        if heading.request is not None:
            return RequestArrived(heading, body, encoding, header)
        return self._drop_or_decline(encoding, heading)

    def _answered_as_before(self, header: bytes, body: bytes) -> AnswerArrived | None:
        """The answer in a header if its type is that of the last answer: one pass instead of two; else None."""
        try:
            heading = json_decoder(self._likely).decode_at_once(header)
        except REFUSALS:
            return None
        if heading is None or not heading.flag & ANSWER_FLAG:
            return None
        asked = self._outstanding.get(heading.opaque)
        if asked is None or type(asked.request).answer is not self._likely:
            return None
        del self._outstanding[heading.opaque]
        answer, heading.request = heading.request, None
        after = _retry_after_ms(Encoding.JSON, header) if heading.code in _BUSY else None
        return AnswerArrived(asked, heading, answer, body, retry_after_ms=after)

    def _answered(
        self,
        encoding: int,
        header: bytes,
        heading: Heading[Any],
        rest: Any,  # noqa: ANN401 - read_heading's second value
        body: bytes,
    ) -> AnswerArrived | None:
        asked = self._outstanding.pop(heading.opaque, None)
        if asked is None:
            self.late_answers += 1
            return None
        kind = type(asked.request).answer
        after = _retry_after_ms(encoding, header) if heading.code in _BUSY else None
        try:
            answer = read_fields(encoding, heading, header, rest, kind)
        except BadFields as error:
            return AnswerArrived(asked, heading, None, body, None if heading.code else error, after)
        self._likely = kind
        return AnswerArrived(asked, heading, answer, body, retry_after_ms=after)

    def _drop_or_decline(
        self, encoding: int, heading: Heading[Any], refusal: Refused | None = None
    ) -> RequestDeclined | None:
        """Drop an answer that nobody waits for; decline a request, as one of an unknown code without a refusal."""
        if heading.flag & ANSWER_FLAG:
            self.late_answers += 1
            return None
        refusal = refusal or unsupported(heading.code)
        if not heading.flag & ONEWAY_FLAG:
            self.to_send.append(encode_answer(encoding, heading.opaque, code=refusal.code, remark=refusal.remark))
        return RequestDeclined(heading, refusal)

    def _break(self, reason: ProtocolError) -> StreamBroken:
        self.is_ended = True
        return StreamBroken(reason)

    # Sending

    def answer(
        self,
        asked: RequestArrived,
        fields: Fields | None = None,
        body: Buffer = b"",
        code: int = 0,
        remark: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Answer a request of the peer, in the request's encoding; a no-op for a one-way request."""
        heading = asked.heading
        if heading.flag & ONEWAY_FLAG or self._is_closed:
            return
        encoding = asked.encoding
        if fields is None or extra:
            head = encode_answer(encoding, heading.opaque, fields, code, remark, len(body), extra)
        else:
            try:
                encode = ENCODERS[encoding][fields.__class__]
            except KeyError:
                encode = encoder(encoding, type(fields))
            head = encode(fields, code, ANSWER_FLAG, heading.opaque, remark, len(body))
        self.to_send.append(head)
        if body:
            self.to_send.append(body)

    def answer_many(
        self,
        encoding: int,
        owed: Sequence[tuple[int, Fields]],
        fields: Fields | None = None,
        code: int = 0,
        remark: str | None = None,
    ) -> None:
        """Answer requests that came in one encoding, each by its opaque, with its own fields or with ``fields``."""
        if self._is_closed or not owed:
            return
        if fields is None:
            encode = encoder(encoding, type(owed[0][1]))
            self.to_send += [encode(own, code, ANSWER_FLAG, opaque, remark, 0) for opaque, own in owed]
        else:
            self.to_send += [encode_answer(encoding, opaque, fields, code, remark) for opaque, _ in owed]

    def answer_encoded(self, answers: list[bytes]) -> None:
        """Queue answers that are encoded already (``protocol.shedding``)."""
        if not self._is_closed:
            self.to_send += answers

    def refuse(self, asked: RequestArrived, refusal: Refused) -> None:
        """Answer a request of the peer with an error code and a reason."""
        self.answer(asked, code=refusal.code, remark=refusal.remark)

    def call(
        self,
        request: Request[Any],
        body: Buffer = b"",
        *,
        deadline: float,
        context: object = None,
        extra: Mapping[str, str] | None = None,
    ) -> int:
        """Send a request; return the opaque by which the answer will be recognised."""
        if len(self._outstanding) >= self._outstanding_max:
            raise Overloaded(f"{self._outstanding_max} requests already wait for an answer on this connection")
        opaque = self._take_opaque()
        self._send_request(request, opaque, body, extra, oneway=False)
        self._outstanding[opaque] = OutstandingRequest(opaque, request, deadline, context)
        self._earliest = min(self._earliest, deadline)
        return opaque

    def tell(self, request: Request[Any], body: Buffer = b"", *, extra: Mapping[str, str] | None = None) -> None:
        """Send a request that wants no answer."""
        self._send_request(request, self._take_opaque(), body, extra, oneway=True)

    def _send_request(
        self,
        request: Request[Any],
        opaque: int,
        body: Buffer,
        extra: Mapping[str, str] | None,
        *,
        oneway: bool,
    ) -> None:
        if self.is_ended:
            raise BrokenInvariant("a request was sent on a connection that has ended")
        if body.__class__ is not bytes and not isinstance(body, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"the body of {type(request).__name__} is bytes, not {type(body).__name__}; nothing was sent"
            )
        code = int(request.code)
        encoding = Encoding.JSON if code > _COMPACT_CODE_MAX else self._encoding
        if extra:
            head = encode_request(encoding, request, opaque, body_size=len(body), oneway=oneway, extra=extra)
        else:
            try:
                encode = ENCODERS[encoding][request.__class__]
            except KeyError:
                encode = encoder(encoding, type(request))
            head = encode(request, code, ONEWAY_FLAG if oneway else 0, opaque, None, len(body))
        self.to_send.append(head)
        if body:
            self.to_send.append(body)

    def _take_opaque(self) -> int:
        opaque = self._next_opaque
        while opaque in self._outstanding:
            opaque = opaque + 1 & _OPAQUE_MASK
        self._next_opaque = opaque + 1 & _OPAQUE_MASK
        return opaque

    def data_to_send(self) -> list[Buffer]:
        """Return everything that is to be written now, in order, and keep none of it."""
        data, self.to_send = self.to_send, []
        return data

    # Ending our requests without an answer

    def forget(self, opaque: int) -> None:
        """Stop waiting for an answer; if it still comes, it counts as late."""
        self._outstanding.pop(opaque, None)

    def expire(self, now: float) -> list[OutstandingRequest]:
        """Remove and return the requests whose deadline has passed. Cheap while there is none."""
        if now < self._earliest:
            return []
        expired = [asked for asked in self._outstanding.values() if asked.deadline <= now]
        for asked in expired:
            del self._outstanding[asked.opaque]
        self._earliest = min((asked.deadline for asked in self._outstanding.values()), default=_NEVER)
        return expired

    def closed(self) -> list[OutstandingRequest]:
        """Note that the stream has ended; remove and return every request that still waited."""
        self.is_ended = self._is_closed = True
        self.to_send.clear()
        self._earliest = _NEVER
        unanswered = list(self._outstanding.values())
        self._outstanding.clear()
        return unanswered


def _retry_after_ms(encoding: int, header: bytes) -> int | None:
    """Return how long a refused request should wait, as the peer says; None if it does not."""
    text = ext_fields(encoding, header).get("retryAfterMs", "")
    return min(int(text[:18]), _LONGEST_WAIT_MS) if text.isascii() and text.isdigit() else None

"""Handlers: the functions that answer requests.

A handler is a plain function ``(request, call) -> Answer | Later | None``, registered by the type of its request. It
runs inside ``data_received``, so it must not block; None means success with nothing to add. When the answer has to
wait (a flush, a replica) the handler returns ``call.later()`` and keeps that `Later` in a list of its own; answering
any number of them in one turn of the loop costs one write for each connection. For a long wait (for a message that has
not come yet) it returns ``call.hold()`` instead: only what an answer needs is kept of the request, and the holder must
bound the number of such requests.

Answers are made only while there is room for them (``room``). A handler that will give a large answer later announces
its size (``Later.promise``); before a held request is answered, ``Peer.is_writable`` says whether the peer reads.

To decline, a handler raises ``Refused(ResponseCode.X, "why")``. Any other exception is a bug: it is logged as "handler
failed", counted in ``Handlers.failures``, and the peer reads its text under SYSTEM_ERROR, as Apache's peers do
(``NettyRemotingAbstract.buildProcessRequestHandler``). Code that answers later passes an exception to ``Later.fail``,
which does the same. ``BrokenInvariant`` is not answered: it reaches the loop's exception handler, which ends the
process.

Invariants: a request is answered at most once; a one-way request never; an answer to a connection that has ended is
dropped, and ``Later.answer`` returns False.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from sys import getsizeof
from typing import Any, Final, Protocol, TypeVar

import msgspec

from firearrow.protocol.command import Heading
from firearrow.protocol.connection import RequestArrived
from firearrow.protocol.conversation import A, Fields, Request
from firearrow.protocol.requests.message.send import Send, ShortSend
from firearrow.protocol.sends import SEND_CODES, SendsArrived, SendShapes
from firearrow.remoting.load_shedding import SheddingPolicy
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, OnOutcome, Reply
from firearrow.runtime.network import Address

Buffer = bytes | bytearray | memoryview
Charge = Callable[[int], None]
"""Takes the number of bytes in the body of an answer, when it is sent."""

OWED_OVERHEAD_BYTES: Final = 512
"""The cost of a request whose answer is owed, beside its own bytes, as the in-flight limits count it."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer: the header's fields, a body, a response code (default: success) and a remark."""

    fields: Fields | None = None
    body: Buffer = b""
    code: int = 0
    remark: str | None = None


SUCCESS: Final = Answer()


class Peer(Protocol):
    """The other end of a connection, as a handler sees it. Compared and hashed by identity."""

    @property
    def address(self) -> Address:
        """The peer's address: from a trusted load balancer's PROXY preamble if there was one, else from the socket."""
        ...

    @property
    def is_forwarded(self) -> bool:
        """Whether the address is what a load balancer's preamble says: who can reach the port can write one."""
        ...

    @property
    def certificate_name(self) -> str:
        """The common name in the peer's certificate, if that was asked for and checked; else empty."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether frames can still be sent to the peer."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the peer keeps up with reading: False from the high-water mark of unsent bytes to the low one."""
        ...

    @property
    def slots(self) -> dict[object, Any]:
        """Values that handlers keep for this connection, by a key of their own."""
        ...

    def push(self, request: Request[Any], body: Buffer = b"") -> None:
        """Send a one-way request; raise ``ConnectionLost`` or ``Overloaded`` when it cannot be sent."""
        ...

    async def call(
        self,
        request: Request[A],
        body: Buffer = b"",
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> Reply[A]:
        """Send a request and wait for its answer. Codes in ``accept`` are replies, others ``RequestRefused``."""
        ...

    def begin(
        self,
        request: Request[A],
        body: Buffer,
        on_outcome: OnOutcome[A],
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> int:
        """Send a request; ``on_outcome`` runs once, with the reply or the error, after this returns."""
        ...

    def prove(self) -> None:
        """Note that the peer has proved who it is: from now on its requests may be learned from."""
        ...

    def stay_stranger(self) -> None:
        """Note that a request was refused because its sender has not proved who it is: the peer pays for its time."""
        ...

    def close(self) -> None:
        """End the connection after everything that is queued has been written."""
        ...


class Creditor(Peer, Protocol):
    """A peer that is owed answers, as ``Call`` and ``Later`` use it."""

    def owe(self, size: int) -> None:
        """Count a request whose answer is owed."""
        ...

    def owe_no_more(self, size: int) -> None:
        """Count a request no more: it is held instead, and its holder counts it."""
        ...

    def promise(self, size: int) -> None:
        """Count an answer of up to ``size`` bytes that is being made; a negative size takes it back."""
        ...

    def explain(self, asked: RequestArrived, error: Exception) -> Answer:
        """The answer that stands for an exception; an exception that is not a refusal is logged and counted."""
        ...

    def pay(self, asked: RequestArrived, answer: Answer, size: int) -> None:
        """Send an answer that was owed: at once if it is the last one owed, else at the end of this turn."""
        ...

    def pay_many(self, encoding: int, owed: Sequence[tuple[int, Fields]], answer: Answer, size: int) -> None:
        """Queue answers that were owed, by opaque, with the fields of ``answer`` or, if it has none, with their own."""
        ...


class Later(msgspec.Struct, eq=False, gc=False):
    """An answer that is owed. Only the first of ``answer`` and ``refuse`` counts."""

    _peer: Creditor
    _asked: RequestArrived
    _size: int
    _is_open: bool = True
    _promised: int = 0
    _charge: Charge | None = None

    @property
    def peer(self) -> Creditor:
        """The peer that waits for the answer."""
        return self._peer

    @property
    def is_owed(self) -> bool:
        """Whether the peer still waits: the request is not answered and the connection is open."""
        return self._is_open and self._peer.is_open

    @property
    def is_oneway(self) -> bool:
        """Whether the peer wants no answer."""
        return self._asked.is_oneway

    def answer(self, answer: Answer | None = None) -> bool:
        """Send the answer (None is plain success); return whether the peer still waited for it."""
        if not self._is_open:
            return False
        self._is_open = False
        if self._promised:
            self._peer.promise(-self._promised)
        if not self._peer.is_open:
            return False
        self._peer.pay(self._asked, answer or SUCCESS, self._size)
        if self._charge is not None and answer is not None:
            self._charge(len(answer.body))
        return True

    def promise(self, size: int) -> None:
        """Reserve room for an answer of up to ``size`` bytes, which will come without another request of the peer."""
        self._peer.promise(size - self._promised)
        self._promised = size

    def let_go(self) -> None:
        """Keep only what an answer needs of the request, and count the request no more."""
        self._peer.owe_no_more(self._size)
        self._size = 0
        if self._promised:
            self.promise(0)
        self._asked = _bare(self._asked)

    def let_body_go(self) -> None:
        """Keep what an answer needs of the request; count that, and the texts of its fields, which a job may keep."""
        texts = (text for text in msgspec.structs.astuple(self._asked.request) if isinstance(text, str))
        kept = min(self._size, OWED_OVERHEAD_BYTES + sum(map(getsizeof, texts)))
        self._peer.owe_no_more(self._size - kept)
        self._size = kept
        self._asked = _bare(self._asked)

    def refuse(self, code: int, remark: str) -> bool:
        """Refuse the request; return whether the peer still waited for an answer."""
        return self.answer(Answer(code=code, remark=remark))

    def fail(self, error: Exception) -> bool:
        """Send the answer that stands for an exception; a ``BrokenInvariant`` is raised instead."""
        return self.answer(self._peer.explain(self._asked, error))


def _bare(asked: RequestArrived) -> RequestArrived:
    """A request without its fields, header and body."""
    heading = asked.heading
    return RequestArrived(Heading(heading.code, heading.flag, heading.opaque), b"", asked.encoding, b"")


class ManyLater(msgspec.Struct, eq=False, gc=False):
    """Answers owed to requests of one peer that came in one read: fields for each request, one outcome for all."""

    _peer: Creditor
    _encoding: int
    _owed: Sequence[tuple[int, Fields]]
    _size: int
    _is_open: bool = True

    def answer(self, answer: Answer | None = None) -> bool:
        """Answer all requests, with their own fields or those of ``answer``; return whether the peer still waited."""
        if not self._is_open:
            return False
        self._is_open = False
        if not self._peer.is_open:
            return False
        self._peer.pay_many(self._encoding, self._owed, answer or SUCCESS, self._size)
        return True


class Call(msgspec.Struct, eq=False, gc=False):
    """One request as it arrived, and the peer that sent it."""

    asked: RequestArrived
    peer: Creditor
    owed: Later | None = None
    charge: Charge | None = None
    """Takes the size of an answer that comes later."""

    @property
    def body(self) -> bytes:
        """The bytes after the header."""
        return self.asked.body

    @property
    def version(self) -> int:
        """The peer's version, as the ordinal of Apache's ``MQVersion``."""
        return self.asked.heading.version

    @property
    def language(self) -> str:
        """The peer's language, by its name in Apache's ``LanguageCode``."""
        return self.asked.heading.language

    @property
    def encoding(self) -> int:
        """The encoding of the header: ``protocol.command.Encoding``. The answer has the same one."""
        return self.asked.encoding

    @property
    def ext_fields(self) -> dict[str, str]:
        """All header fields as text, unknown ones included. Parsed anew at every access."""
        return self.asked.ext_fields

    def later(self) -> Later:
        """Return a `Later` to answer with afterwards. Until then the request counts as in flight."""
        if self.owed is None:
            size = len(self.asked.body) + len(self.asked.header) + OWED_OVERHEAD_BYTES
            self.peer.owe(size)
            self.owed = Later(self.peer, self.asked, size, _charge=self.charge)
        return self.owed

    def hold(self) -> Later:
        """Return a `Later` for a long wait. The request does not count as in flight; its holder bounds the number."""
        if self.owed is None:
            self.owed = Later(self.peer, _bare(self.asked), 0, _charge=self.charge)
        else:
            self.owed.let_go()
        return self.owed


Handler = Callable[[Any, Call], Answer | Later | None]
ManySends = Callable[[SendsArrived, Creditor], bool]
"""Handles sends that arrived as one event; returns False if it handled none, and they are handled one by one."""
PassesSends = Callable[[SendsArrived, Creditor], bool]
"""Returns whether a guard lets sends that arrived as one event pass unasked, because it remembers their like."""
R = TypeVar("R", bound=Request[Any])
Guard = Callable[[Any, Call, Handler], Answer | Later | None]
"""Takes a request and calls its handler, at once or later; raises ``Refused`` if the request must not reach it."""


class Failures:
    """The number of requests that failed by a bug: an exception that is not a refusal."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Handlers:
    """The functions that answer requests, by request code."""

    def __init__(self) -> None:
        self.failures = Failures()
        self.shedding: SheddingPolicy | None = None
        self.send_shapes: SendShapes | None = None
        self.many_sends: ManySends | None = None
        self.asks_who = False
        """Whether a guard asks who sends a request before its handler is called."""
        self.by_code: Final[dict[int, Handler]] = {}
        self.urgent: Final[set[int]] = set()
        self._copies: list[tuple[Handlers, Callable[[Handler], Handler]]] = []

    def on(
        self, request: type[R], function: Callable[[R, Call], Answer | Later | None], *, urgent: bool = False
    ) -> None:
        """Answer requests of this type with ``function``.

        Of the requests that arrive in one read, urgent ones are handled first (heartbeats and administration, so that
        a server busy with sends does not look dead). Among themselves they keep their order.
        """
        if request.code in self.by_code:
            raise ValueError(f"{request.code.name} already has a handler")
        self.by_code[int(request.code)] = function
        if urgent:
            self.urgent.add(int(request.code))

    def on_many_sends(self, function: ManySends, is_wanted: Callable[[Send | ShortSend], bool]) -> None:
        """Answer sends that arrive as one event with ``function``, if ``is_wanted`` accepts the first of them."""
        self.many_sends = function
        self.send_shapes = SendShapes(is_wanted)

    def without(self, codes: Collection[int]) -> "Handlers":
        """A copy without the handlers of these codes, which are then not supported."""
        left = Handlers()
        left.by_code.update({code: handler for code, handler in self.by_code.items() if code not in codes})
        left.urgent.update(self.urgent)
        if SEND_CODES.isdisjoint(codes):
            left.shedding, left.send_shapes, left.many_sends = self.shedding, self.send_shapes, self.many_sends
        left.failures, left.asks_who = self.failures, self.asks_who
        self._copies.append((left, _same))
        return left

    def swap(self, code: int, before: Handler, after: Handler) -> None:
        """Answer requests of a code with another function from now on, in copies too, where ``before`` did."""
        if self.by_code.get(code) is not before:
            return
        self.by_code[code] = after
        for copy, as_copied in self._copies:
            copy.swap(code, as_copied(before), as_copied(after))

    def guarded(self, guard: Guard, passes: PassesSends | None = None) -> "Handlers":
        """A copy in which every request passes the guard before its handler.

        Sends that arrive as one event are handled as one if ``passes`` says so, else one by one.
        """
        behind, put_behind = Handlers(), cache(partial(_behind, guard))
        behind.by_code.update({code: put_behind(handler) for code, handler in self.by_code.items()})
        self._copies.append((behind, put_behind))
        behind.urgent.update(self.urgent)
        behind.asks_who = True
        behind.shedding, behind.failures = self.shedding, self.failures
        if passes is not None and self.many_sends is not None:
            behind.send_shapes, behind.many_sends = self.send_shapes, _if_passing(passes, self.many_sends)
        return behind


def _if_passing(passes: PassesSends, function: ManySends) -> ManySends:
    def handle(sends: SendsArrived, peer: Creditor) -> bool:
        return passes(sends, peer) and function(sends, peer)

    return handle


def _same(handler: Handler) -> Handler:
    return handler


def _behind(guard: Guard, handler: Handler) -> Handler:
    def handle(request: Request[Any], call: Call) -> Answer | Later | None:
        return guard(request, call, handler)

    return handle

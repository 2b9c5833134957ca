"""What a server is made of: functions that answer requests.

A handler is a plain function ``(request, call) -> Answer | Later | None``, registered by the type of its request. It
runs inside ``data_received``, so it must not block; None means success with nothing to add. When the answer has to
wait (a flush, a replica) the handler returns ``call.later()`` and keeps it in a list of its own; answering any number
of them in one turn of the loop costs one write for each connection. What may wait for long (a message that has not
come yet) is ``call.hold()`` instead: nothing of the request is kept but what an answer needs, and whoever holds it
counts it.

Answers are made only while there is room for them (``room``). A handler that will give a large one later says so
beforehand (``Later.promise``); one that answers what it held looks first whether the peer reads (``Peer.is_writable``).

To decline, a handler raises ``Refused(ResponseCode.X, "why")``. Any other exception is a bug: it is logged as "handler
failed", counted in ``Handlers.failures``, and the peer reads its text under SYSTEM_ERROR, as Apache's peers do
(``NettyRemotingAbstract.buildProcessRequestHandler``). Whoever answers later gives what it caught to ``Later.fail``,
which does the same. ``BrokenInvariant`` is not answered at all: it goes on to the loop's exception handler, which ends
the process.

Invariants: a request is answered at most once; a one-way request never; an answer to a connection that has ended is
dropped, and ``Later.answer`` says so.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from firearrow.protocol.command import Heading
from firearrow.protocol.connection import RequestArrived
from firearrow.protocol.conversation import A, Fields, Request
from firearrow.protocol.shedding import Refusals
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, OnOutcome, Reply
from firearrow.runtime.network import Address

Buffer = bytes | bytearray | memoryview

PARKED_OVERHEAD_BYTES: Final = 512
"""What one parked request costs beside its own bytes, as the in-flight limits count it."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What goes back: the header's fields, a body, and a code other than success where there is one to give."""

    fields: Fields | None = None
    body: Buffer = b""
    code: int = 0
    remark: str | None = None


SUCCESS: Final = Answer()


class Peer(Protocol):
    """The other end of a connection, as a handler sees it. Compared and hashed by identity."""

    @property
    def address(self) -> Address:
        """Where the peer is: what a trusted load balancer said, else the socket's own view."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether anything can still reach it."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether it keeps up with reading: False from the high water mark of unsent bytes down to the low one."""
        ...

    @property
    def slots(self) -> dict[object, Any]:
        """A place for what the owners of handlers want to remember about this connection."""
        ...

    def push(self, request: Request[Any], body: Buffer = b"") -> None:
        """Send a one-way request; raise ``ConnectionLost`` or ``Overloaded`` when it cannot leave."""
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

    def close(self) -> None:
        """End the connection after what was already said has left."""
        ...


class Debtor(Peer, Protocol):
    """A peer as ``Call`` and ``Later`` need it: somebody who is owed answers."""

    def park(self, size: int) -> None:
        """Count a request whose answer is owed."""
        ...

    def unpark(self, size: int) -> None:
        """Count it no more: it is held instead, and somebody else counts it."""
        ...

    def promise(self, size: int) -> None:
        """Count an answer of up to so many bytes that is being made; a negative number takes it back."""
        ...

    def explain(self, asked: RequestArrived, error: Exception) -> Answer:
        """The answer that an exception leads to; one that is not a refusal is logged and counted."""
        ...

    def pay(self, asked: RequestArrived, answer: Answer, size: int) -> None:
        """Give an answer that was owed. It leaves at once if it is the last, else at the end of this turn."""
        ...

    def pay_together(self, encoding: int, owed: Sequence[tuple[int, Fields]], answer: Answer, size: int) -> None:
        """Queue answers that were owed, each with its opaque and, unless the answer has fields, with its own."""
        ...


class Later(msgspec.Struct, eq=False, gc=False):
    """An answer that is owed. Only the first of ``answer`` and ``refuse`` counts."""

    _peer: Debtor
    _asked: RequestArrived
    _size: int
    _is_open: bool = True
    _promised: int = 0

    @property
    def is_owed(self) -> bool:
        """Whether somebody still waits: nothing was answered and the connection is open."""
        return self._is_open and self._peer.is_open

    def answer(self, answer: Answer | None = None) -> bool:
        """Answer (None is success with nothing to add); return whether anybody could still be told."""
        if not self._is_open:
            return False
        self._is_open = False
        if self._promised:
            self._peer.promise(-self._promised)
        if not self._peer.is_open:
            return False
        self._peer.pay(self._asked, answer or SUCCESS, self._size)
        return True

    def promise(self, size: int) -> None:
        """Say that the answer will come of itself and may have so many bytes: until then it takes their room."""
        self._peer.promise(size - self._promised)
        self._promised = size

    def let_go(self) -> None:
        """Keep nothing of the request but what an answer needs, and count it no more."""
        self._peer.unpark(self._size)
        self._size = 0
        if self._promised:
            self.promise(0)
        self._asked = _bare(self._asked)

    def refuse(self, code: int, remark: str) -> bool:
        """Decline; return whether anybody could still be told."""
        return self.answer(Answer(code=code, remark=remark))

    def fail(self, error: Exception) -> bool:
        """Answer with what an exception means; raise a ``BrokenInvariant``."""
        return self.answer(self._peer.explain(self._asked, error))


def _bare(asked: RequestArrived) -> RequestArrived:
    """A request without its fields, header and body."""
    heading = asked.heading
    return RequestArrived(Heading(heading.code, heading.flag, heading.opaque), b"", asked.encoding, b"")


class LaterTogether(msgspec.Struct, eq=False, gc=False):
    """Answers that are owed to requests of one peer that came together: each has its fields, all have one outcome."""

    _peer: Debtor
    _encoding: int
    _owed: Sequence[tuple[int, Fields]]
    _size: int
    _is_open: bool = True

    def answer(self, answer: Answer | None = None) -> bool:
        """Answer everybody with the fields that are owed, or with those of ``answer``; say if anybody could be told."""
        if not self._is_open:
            return False
        self._is_open = False
        if not self._peer.is_open:
            return False
        self._peer.pay_together(self._encoding, self._owed, answer or SUCCESS, self._size)
        return True


class Call(msgspec.Struct, eq=False, gc=False):
    """One request as it arrived, with whoever sent it."""

    asked: RequestArrived
    peer: Debtor
    parked: Later | None = None

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
        """How the header was written: ``protocol.command.Encoding``. The answer is written the same way."""
        return self.asked.encoding

    @property
    def is_oneway(self) -> bool:
        """Whether nobody waits for an answer."""
        return self.asked.is_oneway

    @property
    def ext_fields(self) -> dict[str, str]:
        """All header fields as text, unknown ones included. Parsed anew at every reading."""
        return self.asked.ext_fields

    def later(self) -> Later:
        """Return the answer as something to give later. Until then the request counts as in flight."""
        if self.parked is None:
            size = len(self.asked.body) + len(self.asked.header) + PARKED_OVERHEAD_BYTES
            self.peer.park(size)
            self.parked = Later(self.peer, self.asked, size)
        return self.parked

    def hold(self) -> Later:
        """Return the answer as something to give much later. It is for whoever holds it to count it."""
        if self.parked is None:
            self.parked = Later(self.peer, _bare(self.asked), 0)
        else:
            self.parked.let_go()
        return self.parked


Handler = Callable[[Any, Call], Answer | Later | None]
R = TypeVar("R", bound=Request[Any])


class Pacing(Protocol):
    """Says how long connections are left alone while there are too many requests."""

    @property
    def rest_s(self) -> float:
        """How long after its requests were refused unread."""
        ...

    @property
    def pace_s(self) -> float:
        """How long after a small read that is served; 0 while there is time for all."""
        ...


class Gate(Protocol):
    """Somebody who may want requests refused unread, because there are too many."""

    @property
    def beginnings(self) -> tuple[bytes, ...]:
        """What follows the prefix of the first frame in reads that it wants to see; others are read as they come."""
        ...

    def refusals(self, *, has_rested: bool) -> Refusals | None:
        """What to refuse, and how, in this turn of the loop; None while everything is to be read.

        What comes from a connection that ``has_rested`` was not looked at for ``pacing.rest_s``.
        """
        ...

    def refused(self, count: int) -> None:
        """So many were refused unread."""
        ...

    @property
    def pacing(self) -> Pacing:
        """How often connections are read."""
        ...

    def take(self, peer: Debtor, data: bytes) -> bytes:
        """Take requests that ``data`` begins with, as handlers would have, and return the rest of it."""
        ...


class Failures:
    """How many requests met a bug: an exception that is not a refusal."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Handlers:
    """Which function answers which request."""

    def __init__(self) -> None:
        self.failures = Failures()
        self.gate: Gate | None = None
        self.by_code: Final[dict[int, Handler]] = {}
        self.urgent: Final[set[int]] = set()

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

"""Answers that are owed: counted from the request on, so that a server does not read more than it can answer.

A request whose answer comes later counts with its bytes, for its connection (``max_connection_bytes``) and for all
(``max_in_flight_bytes``). A server that owes too much stops reading; a caller must read on, and refuses instead.

Invariant: an owed answer counts in the endpoint's budget exactly while it is owed and the connection is open.
"""

from collections.abc import Sequence

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.connection import RequestArrived
from firearrow.protocol.conversation import Fields
from firearrow.protocol.refusal import Refused
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import OWN_REQUESTS
from firearrow.remoting.handlers import Answer
from firearrow.remoting.pieces import Pieces
from firearrow.runtime.network import Address


class Owing(Pieces):
    """A connection that counts the answers it owes."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._budget = endpoint.budget
        self._own_limit = endpoint.limits.max_connection_bytes
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Bytes of the requests whose answers are owed to this peer."""
        return self._in_flight

    def owe(self, size: int) -> None:
        """Count a request whose answer is owed."""
        budget = self._budget
        self._in_flight += size
        budget.held += size
        if self._in_flight >= self._own_limit or budget.held >= budget.limit:
            self._owed_too_much(size)

    def owe_no_more(self, size: int) -> None:
        """Count a request no more."""
        if self.is_open:
            self._owe_less(size)

    def _owed_too_much(self, size: int) -> None:
        if not self._endpoint.is_server:  # a caller must read on, so it can only refuse
            self._in_flight -= size
            self._budget.held -= size
            raise Refused(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
        if self._in_flight >= self._own_limit:
            self.hold(OWN_REQUESTS)
        self._budget.check()

    def pay(self, asked: RequestArrived, answer: Answer, size: int) -> None:
        """Send an answer that was owed: at once if it is the last one owed, else at the end of this turn."""
        if self._holds:
            self._owe_less(size)
        else:  # `_owe_less` inlined: most answers come while nothing is held, and a call costs more than the two lines
            self._in_flight -= size
            self._budget.held -= size
        self._talk.answer(asked, answer.fields, answer.body, code=answer.code, remark=answer.remark)
        self._gathered += len(answer.body)
        if self._is_gathering:
            return
        if self._in_flight or not size:
            self._is_gathering = True
            self._endpoint.flush_this_turn(self)
        else:
            self.flush()

    def pay_many(self, encoding: int, owed: Sequence[tuple[int, Fields]], answer: Answer, size: int) -> None:
        """Queue answers that were owed, each with its opaque."""
        self._owe_less(size)
        self._talk.answer_many(encoding, owed, answer.fields, answer.code, answer.remark)
        self._gather()

    def _owe_less(self, size: int) -> None:
        budget = self._budget
        self._in_flight -= size
        budget.held -= size
        if self._holds:
            if self._in_flight <= self._own_limit // 4 * 3:
                self.unhold(OWN_REQUESTS)
            budget.check()

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._budget.held -= self._in_flight
        self._in_flight = 0
        self._budget.check()

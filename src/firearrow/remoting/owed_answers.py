"""The cost of a connection to its server: the time of refused strangers, and answers that are owed.

The time of a read is charged (`strangers`) if its peer has not proved who it is, whatever the read held, and if it
held a request that was refused because its sender had not.

Answers that are owed are counted from the request on, so that a server does not read more than it can answer. A request
whose answer comes later counts with its bytes, for its connection (``max_connection_bytes``) and for all
(``max_in_flight_bytes``). A server that owes too much stops reading; a caller must read on, and refuses instead.

Invariant: an owed answer counts in the endpoint's budget exactly while it is owed and the connection is open.
"""

import logging
from collections.abc import Sequence
from typing import Final

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.connection import RequestArrived
from firearrow.protocol.conversation import Fields
from firearrow.protocol.refusal import Refused
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.flow import ALL_REQUESTS, OWN_REQUESTS, STRANGER
from firearrow.remoting.handlers import Answer
from firearrow.remoting.room import Pieces
from firearrow.remoting.strangers import (
    CONNECTION_BURST_S,
    CONNECTION_SHARE,
    DENIALS_MAX,
    PAUSE_MIN_S,
    TimeBudget,
)
from firearrow.runtime.network import Address

log: Final = logging.getLogger(__name__)


class ChargedConnection(Pieces):
    """A connection that is not read for a while when strangers have taken too much time."""

    def __init__(self, endpoint: Endpoint, address: Address | None = None) -> None:
        super().__init__(endpoint, address)
        self._has_refused_stranger = False
        self._stranger_budget: TimeBudget | None = None
        self._opening_s = 0.0
        self._denials = 0

    def _go_on(self) -> None:
        if not self._has_time():
            return
        began = self._endpoint.loop.time()
        super()._go_on()
        if self._has_refused_stranger or not self._talk.learns:
            self._charge_stranger(began)

    def stay_stranger(self) -> None:
        """Note that a request was refused because its sender has not proved who it is: the peer pays for its time."""
        self._has_refused_stranger = True

    def _charge_stranger(self, began: float) -> None:
        """Charge the time since ``began``, and read nothing for a while if a budget is used up."""
        endpoint, self._has_refused_stranger = self._endpoint, False
        now = endpoint.loop.time()
        if self._stranger_budget is None:
            self._stranger_budget = TimeBudget(CONNECTION_BURST_S, CONNECTION_SHARE, began)
        pause = endpoint.strangers.spend(self._stranger_budget, self.address.host, now - began, now)
        if pause and self.is_open and (times := endpoint.strangers.pauses.count(now)):
            extra = {"peer": str(self.address), "pause_s": round(pause, 1), "times": times}
            said = "connection of %s is not read for %.1f s: its requests prove nobody, and took too much time"
            log.warning(said, self.address, pause, extra=extra)
        self.pause_stranger(pause)

    def _has_time(self) -> bool:
        if self._talk.learns or self._holds & STRANGER:
            return not self._holds & STRANGER
        self.pause_stranger(self.wait_for_time(self.address.host))
        return not self._holds & STRANGER

    def wait_for_time(self, host: str) -> float:
        """Return the seconds for which a stranger of this address waits; 0 if it has time now.

        A connection that is told to wait again waits twice as long: many that wait must not wake up for one's time.
        """
        endpoint = self._endpoint
        pause = endpoint.strangers.pause_of(host, endpoint.loop.time())
        if not pause:
            self._denials = 0
            return 0.0
        pause = max(pause, PAUSE_MIN_S * (1 << self._denials))
        self._denials = min(self._denials + 1, DENIALS_MAX)
        return pause

    def charge_opening(self, host: str, seconds: float) -> None:
        """Charge the address for accepting this connection, or for its handshake, until the peer proves who it is."""
        endpoint = self._endpoint
        if not self._talk.learns:
            self._opening_s += seconds
            self.pause_stranger(endpoint.strangers.charge(host, seconds, endpoint.loop.time()))

    def prove(self) -> None:
        """Note that the peer has proved who it is: from now on its requests may be learned from."""
        if not self._talk.learns:
            self._talk.learns = True
            self._endpoint.strangers.charge(self.address.host, -self._opening_s, self._endpoint.loop.time())

    def pause_stranger(self, seconds: float) -> None:
        """Read nothing, and handle nothing that was set aside, for ``seconds``."""
        if seconds > 0 and self.is_open:
            self.hold(STRANGER)
            self._endpoint.loop.call_later(seconds, self._hear_stranger)

    def _hear_stranger(self) -> None:
        if self.is_open:
            self.unhold(STRANGER)
            if self._unread and self._holds & ALL_REQUESTS:
                return  # they are handled when those requests are answered, and count as half a frame until then
            if self._unread:
                self._endpoint.partials.update(self, self._talk.kept, is_new=True)
            self.look_for_room()


class OwingConnection(ChargedConnection):
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

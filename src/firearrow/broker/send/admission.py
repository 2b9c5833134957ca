"""Admission: refuses a send that cannot be answered in time at once, so that overload stays cheap.

A turn of the loop reads every connection once and answers the requests at its end. So a request that is read now has
waited since the previous turn read its connection: at most that whole turn and the part of this turn that is over. When
that is longer than ``waitTimeMillsInSendQueue``, the sender has probably timed out or soon will, and storing the
message would delay the sends behind it as well. A refusal costs a fraction of a send, so the turn gets shorter. Other
requests are always served, before the sends of the same read, so that a busy broker does not look dead.

The broker is *pressed* when its loop has not been idle for as long as a send may wait, and stays pressed until there
was time for every send for `CALM_PARTS` times as long: while connections rest, the loop is idle without being less
loaded, and these connections resume all at once. A turn of a pressed broker takes sends for `TURN_PART` of the time
that a send may wait, because the previous turn, this turn and the sender's reading of the answer must all fit into that
time. A burst between idle times of the loop is taken as far as the waiting time allows.

Where many connections send, a read brings few sends, and reading and answering the connection costs more than the sends
do. So while a pressed broker refuses sends, a connection whose sends are taken pauses for `pace_s`, and its next read
brings more. A connection whose sends were refused unread rests for as long as a send may wait. While the broker is
behind, the sends that arrived during the rest are refused together; then the connection is treated like any other.

A turn lasts until the next turn begins: writing and answering follow the last read and take a good part of the turn.
When the loop then finds nothing to read, the loop is idle and no request has waited. Work is counted in sends: a read
and a refusal count as the parts of a send below. The cost of a send until it is read is measured during the turn, the
cost of writing and answering is learned from earlier turns, and their sum says for how many sends there is time.
Java: ``BrokerFastFailure``.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from firearrow.broker.settings.live import LiveSettings
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Fields
from firearrow.protocol.refusal import Refused
from firearrow.protocol.sends import SEND_BEGINNINGS, SEND_CODES
from firearrow.protocol.shedding import Refusals
from firearrow.runtime.turn import TurnBudgets
from firearrow.telemetry.metrics import Histogram

BURST_PART: Final = 0.5
"""The part of a send's longest wait for which a turn takes sends: later sends must wait for the end of the turn."""
TURN_PART: Final = 0.25
"""Takes the place of `BURST_PART` while the broker is pressed."""
CALM_PARTS: Final = 5
"""The broker stays pressed until there was time for every send for this multiple of a send's longest wait."""
PACE_PART: Final = 0.25
"""The part of a send's longest wait for which a served connection pauses while the broker refuses other sends."""
FIRST_GUESS_S: Final = 15e-6
MOST_S: Final = 200e-6
"""Upper bound of the estimated cost of a send: a turn that other work made long must not shut out all sends."""
LEARNED_OVER_S: Final = 0.1
LEARNED_OVER: Final = 1000
"""The least time and the least number of sends over which the cost of a send is learned from earlier turns."""
LOOK_EVERY: Final = 256
"""After so much work, counted in sends, a turn measures how long it has taken."""
READ_PART: Final = 2.5
"""The cost of reading a connection and writing its answers, in sends."""
REFUSAL_PART: Final = 0.5
UNREAD_PART: Final = 0.1
"""The cost of a refusal, in sends: of a send that was read, and of a send that was refused unread."""
TURN_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_NEVER: Final = float("inf")


def no_fields() -> None:
    """Return no fields for a refusal."""


class Admission:
    """Decides whether this turn has time for another send. The policy by which a server sheds sends unread.

    ``fields`` returns the header fields of a refusal.
    """

    beginnings: Final = SEND_BEGINNINGS

    def __init__(
        self, settings: LiveSettings, budgets: TurnBudgets, fields: Callable[[], Fields | None] = no_fields
    ) -> None:
        self._settings = settings
        self._fields = fields
        self._budgets = budgets
        budgets.on_turn.append(self._end_turn)
        self._loop = asyncio.get_running_loop()
        self._in_turn = self._is_busy = self._had_no_rest = self._is_pressed = False
        self._began = self._busy_since = self._shut_at = -_NEVER
        self._waited_s = 0.0
        self._taken = 0.0
        self._read_s = 0.0
        self._next_look = 0.0
        self._cost_s = FIRST_GUESS_S
        self._after_s = 0.0
        self._seen_s = self._seen_after_s = self._seen = 0.0
        self._refusal: Refused | None = None
        self._refusals: Refusals | None = None
        self.turns: Final = Histogram(TURN_BOUNDS)
        """The durations of turns with sends, in seconds."""
        self.refused = 0
        """Number of sends refused since the start."""
        self.pace_s = 0.0
        """The pause of a connection whose sends are taken, so that its next read brings more; 0: no pause."""
        self._configure()
        settings.on_change.append(self._configure)

    def _configure(self) -> None:
        broker = self._settings.broker
        self.limit_s = broker.wait_time_mills_in_send_queue / 1000 if broker.broker_fast_failure_enable else _NEVER
        self._reckon()

    def is_late(self) -> bool:
        """Whether the send that is being read may have waited too long. Ask once for each send: the call counts it."""
        if not self._in_turn:
            self._begin_turn()
        self._taken += 1
        return self._taken > self._room

    def lets_in(self, count: int) -> bool:
        """Whether this turn has time for ``count`` sends of one read; if so, count them."""
        if not self._in_turn:
            self._begin_turn()
        if self._taken + count > self._room:
            return False
        self._taken += count
        return True

    def is_shut(self) -> bool:
        """Whether this turn has no time for another send. Ask once for each read: the call counts the read."""
        if not self._in_turn:
            self._begin_turn()
        self._taken += READ_PART
        if self._taken >= self._next_look:
            self._look()
        if self._taken < self._room:
            return False
        self._shut_at = self._began
        self._set_pace()
        return True

    def is_behind(self) -> bool:
        """Whether sends that were not read for `limit_s` are late: since then the loop was never idle, or was shut."""
        if not self._in_turn:
            self._begin_turn()
        return self._had_no_rest or self._was_shut

    def _set_pace(self) -> None:
        self.pace_s = self.limit_s * PACE_PART if self._is_pressed and self._was_shut else 0.0

    @property
    def _was_shut(self) -> bool:
        return self._began - self._shut_at < self.limit_s

    def refused_some(self, count: int, *, were_asked: bool = False) -> None:
        """Count refused sends: refused unread, or, with ``were_asked``, after `is_late` had counted them as sends."""
        self.refused += count
        self._taken += count * (REFUSAL_PART - 1 if were_asked else UNREAD_PART)

    @property
    def refusal(self) -> Refused:
        """The refusal of a late send, in Apache's words. The same object within a turn."""
        if self._refusal is None:
            waited_ms = int((self._waited_s + self._taken * self._cost_s) * 1000)
            remark = (
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                f"period in queue: {waited_ms}ms, size of queue: 0"
            )
            self._refusal = Refused(ResponseCode.SYSTEM_BUSY, remark)
        return self._refusal

    def refusals(self) -> Refusals:
        """Return `refusal` for sends that were not read. The same object within a turn."""
        reason = self.refusal
        if self._refusals is None:
            self._refusals = Refusals(SEND_CODES, self._fields(), int(reason.code), reason.remark)
        return self._refusals

    @property
    def rest_s(self) -> float:
        """The time that a connection rests after its sends were refused unread."""
        return self.limit_s

    def _begin_turn(self) -> None:
        loop = self._loop
        now = loop.time()
        is_calm = not (self._is_busy or self._is_pressed or self._waited_s or self.pace_s)
        self._waited_s = 0.0
        if self._is_busy:
            self._waited_s = now - self._began
            self._end_turn()
        else:
            self._busy_since = now
        self._in_turn = self._is_busy = True
        self._began = now
        self._taken = 0.0
        self._refusal = self._refusals = None
        self._next_look = LOOK_EVERY
        if not is_calm:  # a calm turn has as much time as the turn before
            self._judge(now)
        if not self._budgets.is_used:
            self._budgets.enter()

    def _judge(self, now: float) -> None:
        """Decide whether the broker is pressed, and how much time this turn has for sends."""
        self._had_no_rest = now - self._busy_since >= self.limit_s
        self._is_pressed = self._had_no_rest or (self._is_pressed and now - self._shut_at < CALM_PARTS * self.limit_s)
        if self._is_pressed or self.pace_s:
            self._set_pace()
        self._reckon()

    def _look(self) -> None:
        """Estimate the cost of a send anew, from the time of this turn so far and the cost of writing and answering."""
        self._next_look = self._taken + LOOK_EVERY
        read_s = self._loop.time() - self._began
        if read_s:
            self._cost_s = min(read_s / self._taken + self._after_s, MOST_S)
            self._reckon()

    def _reckon(self) -> None:
        """Compute for how many sends this turn has time."""
        most = self.limit_s * (TURN_PART if self._is_pressed else BURST_PART)
        self._room = min(self.limit_s - self._waited_s, most) / self._cost_s

    def _end_turn(self) -> None:
        """End the reads of a turn. The loop writes and answers next, then looks for more to read: if it finds no send,
        this is called again, learns the cost of a send, and nobody has waited.
        """
        took_s = self._loop.time() - self._began
        if self._in_turn:
            self._in_turn = False
            self._read_s = took_s
            return
        if not self._is_busy:
            return
        self._is_busy = False
        self.turns.counts[bisect_left(TURN_BOUNDS, took_s)] += 1  # what `observe` does, without the call
        self.turns.total += took_s
        self._seen_s += took_s
        self._seen_after_s += took_s - self._read_s
        self._seen += self._taken
        if self._seen_s >= LEARNED_OVER_S and self._seen >= LEARNED_OVER:
            self._cost_s = min((self._cost_s + self._seen_s / self._seen) / 2, MOST_S)
            self._after_s = (self._after_s + self._seen_after_s / self._seen) / 2
            self._seen_s = self._seen_after_s = self._seen = 0.0
            self._reckon()

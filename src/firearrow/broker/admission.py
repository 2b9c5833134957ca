"""Whether a send can still be answered in time; one that cannot is refused at once, so that overload stays cheap.

Every connection is read once in a turn of the loop, and what was read is answered at the end of the turn. So what is
read now has waited since the last turn read its connection, at most that whole turn and this one so far. When that is
longer than ``waitTimeMillsInSendQueue``, the sender has probably given up or soon will, and storing the message would
only make those behind it late as well. A refusal costs a fraction of a send, and the turn gets shorter. Everything that
is not a send is served all the same, and before the sends of its read, so a busy broker does not look dead.

A broker is pressed when its loop has had no rest for as long as a send may wait, and stays so until there was time for
everybody for several times as long: those who are left alone give the loop rests that mean nothing, and come back all
at once. Then a turn takes sends for a part of that time only: the turn before, this one, and the sender's own reading
of the answer must all fit into it. What comes in a burst, with rests of the loop in between, is taken as long as there
is time at all.

Where many connections send, a read brings few sends, and reading and answering it costs more than they do. So while a
pressed broker refuses some, a connection that is served is left alone for a moment, and its next read brings more. A
connection whose sends were refused unread is not read for as long as a send may wait; what came meanwhile is refused in
one go while the broker is behind, and then the connection is as good as any other.

A turn lasts until the next begins: what was read is written and answered after the last read, and that takes a good
part of it. When the loop finds nothing more to read after that, it rests, and nobody has waited. Work is counted in
sends: a read and a refusal are parts of one. What one costs until it is read is measured as the turn goes on, what the
writing and answering will add is learned from turns that are over, and both together say how many there is time for.
Java: ``BrokerFastFailure``.
"""

import asyncio
from typing import Final

from firearrow.broker.live import LiveSettings
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused

BURST_PART: Final = 0.5
"""The part of the time a send may wait for which a turn takes sends: what comes meanwhile must wait for its end."""
TURN_PART: Final = 0.25
"""The same while the broker is pressed."""
CALM_PARTS: Final = 5
"""A broker is pressed no more after so many times the time a send may wait, when there was time for everybody."""
PACE_PART: Final = 0.25
"""The part of that time for which a connection is left alone while others are refused."""
FIRST_GUESS_S: Final = 15e-6
MOST_S: Final = 200e-6
"""What a send is believed to cost at most: a turn that something else made long must not shut senders out."""
LEARNED_OVER_S: Final = 0.1
LEARNED_OVER: Final = 1000
"""Time that turns must have taken, and sends they must have had, before they tell what a send costs."""
LOOK_EVERY: Final = 256
"""After so much work a turn looks how long it has taken."""
READ_PART: Final = 2.5
"""What it costs to read a connection and to write its answers, as a part of a send."""
REFUSAL_PART: Final = 0.5
UNREAD_PART: Final = 0.1
"""What a refusal costs, as a part of a send: of one that was read, and of one that was not."""
_NEVER: Final = float("inf")


class Admission:
    """Lets sends in, or not."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings
        self._in_turn = self._is_busy = self._had_no_rest = self._is_pressed = False
        self._turn = 0
        self._began = self._busy_since = self._shut_at = -_NEVER
        self._waited_s = 0.0
        self._taken = 0.0
        self._read_s = 0.0
        self._next_look = 0.0
        self._cost_s = FIRST_GUESS_S
        self._after_s = 0.0
        self._seen_s = self._seen_after_s = self._seen = 0.0
        self._refusal: Refused | None = None
        self.refused = 0
        """How many were not let in."""
        self.pace_s = 0.0
        """How long to leave a connection alone whose sends are taken, so that its next read brings more of them."""
        self._configure()
        settings.on_change.append(self._configure)

    def _configure(self) -> None:
        broker = self._settings.broker
        self.limit_s = broker.wait_time_mills_in_send_queue / 1000 if broker.broker_fast_failure_enable else _NEVER
        self._reckon()

    def is_late(self) -> bool:
        """Whether what is being read may have waited for too long. Ask once for each send: it is counted."""
        if not self._in_turn:
            self._begin_turn()
        self._taken += 1
        return self._taken > self._room

    def lets_in(self, count: int) -> bool:
        """Whether none of so many sends that came together has waited for too long; then they are counted."""
        if not self._in_turn:
            self._begin_turn()
        if self._taken + count > self._room:
            return False
        self._taken += count
        return True

    def is_shut(self) -> bool:
        """Whether there is no time for another send in this turn. Ask once for each read: it is counted."""
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
        """Whether what was not looked at for `limit_s` is late: the loop had no rest since, or no time for some."""
        if not self._in_turn:
            self._begin_turn()
        return self._had_no_rest or self._was_shut

    @property
    def rest_s(self) -> float:
        """How long to leave a connection alone whose sends were refused unread."""
        return self.limit_s

    def _set_pace(self) -> None:
        self.pace_s = self.limit_s * PACE_PART if self._is_pressed and self._was_shut else 0.0

    @property
    def _was_shut(self) -> bool:
        return self._began - self._shut_at < self.limit_s

    def refused_some(self, count: int, *, were_asked: bool = False) -> None:
        """So many sends were refused: unread, or after all when they ``were_asked`` about one by one."""
        self.refused += count
        self._taken += count * (REFUSAL_PART - 1 if were_asked else UNREAD_PART)

    @property
    def refusal(self) -> Refused:
        """What late senders are told, in Apache's words. The same object within a turn."""
        if self._refusal is None:
            waited_ms = int((self._waited_s + self._taken * self._cost_s) * 1000)
            remark = (
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                f"period in queue: {waited_ms}ms, size of queue: 0"
            )
            self._refusal = Refused(ResponseCode.SYSTEM_BUSY, remark)
        return self._refusal

    def _begin_turn(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._waited_s = 0.0
        if self._is_busy:
            self._waited_s = now - self._began
            self._learn(now)
        else:
            self._busy_since = now
        self._in_turn = self._is_busy = True
        self._turn += 1
        self._began = now
        self._had_no_rest = now - self._busy_since >= self.limit_s
        self._is_pressed = self._had_no_rest or (self._is_pressed and now - self._shut_at < CALM_PARTS * self.limit_s)
        self._taken = 0.0
        self._refusal = None
        self._next_look = LOOK_EVERY
        if self._is_pressed or self.pace_s:
            self._set_pace()
        self._reckon()
        loop.call_soon(self._end_turn)

    def _look(self) -> None:
        """Reckon anew, by what this turn has taken so far and what it will take to write and to answer that."""
        self._next_look = self._taken + LOOK_EVERY
        read_s = asyncio.get_running_loop().time() - self._began
        if read_s:
            self._cost_s = min(read_s / self._taken + self._after_s, MOST_S)
            self._reckon()

    def _reckon(self) -> None:
        """How many sends there is time for in this turn."""
        most = self.limit_s * (TURN_PART if self._is_pressed else BURST_PART)
        self._room = min(self.limit_s - self._waited_s, most) / self._cost_s

    def _end_turn(self) -> None:
        """Everything is read. It is written and answered next; then the loop looks whether there is more to read."""
        self._in_turn = False
        loop = asyncio.get_running_loop()
        self._read_s = loop.time() - self._began
        loop.call_soon(self._found_nothing, self._turn)

    def _found_nothing(self, after: int) -> None:
        if after == self._turn:
            self._is_busy = False
            self._learn(asyncio.get_running_loop().time())

    def _learn(self, now: float) -> None:
        took_s = now - self._began
        self._seen_s += took_s
        self._seen_after_s += took_s - self._read_s
        self._seen += self._taken
        if self._seen_s >= LEARNED_OVER_S and self._seen >= LEARNED_OVER:
            self._cost_s = min((self._cost_s + self._seen_s / self._seen) / 2, MOST_S)
            self._after_s = (self._after_s + self._seen_after_s / self._seen) / 2
            self._seen_s = self._seen_after_s = self._seen = 0.0

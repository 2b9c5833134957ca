"""The endpoint: state that the connections of one server, or of one caller, share.

One endpoint has one timer for the deadlines of its outstanding calls (running only while there are any), one for idle
connections, and one list of connections with gathered frames, which are written at the end of a turn of the loop. So a
request needs no timer, no task and no future of its own.

Invariants: every open connection is in ``connections``, in order of arrival; a connection that has ended is in none of
the tables; after ``close`` no timer is left.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count, islice
from sys import maxsize
from typing import Any, Final, Protocol

from firearrow.protocol.connection import Buffer
from firearrow.protocol.conversation import Request
from firearrow.protocol.frame import FrameLimits
from firearrow.remoting.flow import (
    HUSHED,
    RESTING,
    Budget,
    Dribbler,
    Partials,
    PausableReader,
    Promises,
    RoomWaiter,
    SlowPeer,
    UnsentBytes,
)
from firearrow.remoting.handlers import Handlers, Peer
from firearrow.remoting.limits import Limits
from firearrow.remoting.strangers import Strangers
from firearrow.remoting.turns import Turns
from firearrow.runtime.process import give_back_memory
from firearrow.runtime.turn import Share, TurnBudgets, soon
from firearrow.telemetry.damped import DampedEvents

DEADLINE_SWEEP_S: Final = 0.1
"""Seconds between two checks of the deadlines: a timeout is noticed at most this late."""

_SILENCE_SWEEPS: Final = 12
"""Checks for idle and slow connections within the shortest time limit: a limit is exceeded by a tenth at most."""

SPREAD: Final = 0.25
"""Jitter: a rest is longer than asked by up to this part. It is never shorter: requests would be refused once more."""
CHECKED_AT_ONCE: Final = 200
"""Connections whose silence is checked in one turn."""
WOKEN_AT_ONCE: Final = 16
"""Connections whose rest ends in one turn; others that are due are read from the next turn on."""
_GOLDEN: Final = 0.618034
"""The golden ratio: the fractional parts of its multiples fill 0 to 1 evenly, however few they are."""

MUCH_BYTES: Final = 16 << 20
"""After connections with so many half-received or unsent bytes have ended, their memory is returned to the system."""

CLOSING_S: Final = 1.0
"""The time that peers have to read bytes already sent to them when an endpoint closes."""

PeerHook = Callable[[Peer], None]
Sign = Callable[[Request[Any], Buffer], Mapping[str, str]]
"""Returns the fields that authenticate a request."""


class AddressCounts:
    """Counts the connections of each host, over all ports that share it, and says whether one more may open."""

    def __init__(self) -> None:
        self.limit = 0
        """The most connections of one host; 0: no limit. Connections that are open stay when it is lowered."""
        self.refused: Final = DampedEvents()
        self._hosts: dict[object, str] = {}
        self._counts: dict[str, int] = {}

    def enter(self, connection: object, host: str) -> bool:
        """Count a connection; return False, without counting it, when its host has enough."""
        count = self._counts.get(host, 0)
        if self.limit and count >= self.limit:
            return False
        self._counts[host] = count + 1
        self._hosts[connection] = host
        return True

    def leave(self, connection: object) -> None:
        """Count a connection no more; a no-op for one that was not counted."""
        host = self._hosts.pop(connection, None)
        if host is None:
            return
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]


class Flushable(Protocol):
    """A connection with gathered frames to write at the end of a turn."""

    def flush(self) -> None:
        """Write the gathered frames."""
        ...


class EndpointConnection(Peer, PausableReader, Dribbler, Flushable, RoomWaiter, SlowPeer, Protocol):
    """A connection as its endpoint sees it."""

    @property
    def outstanding(self) -> int:
        """The number of our calls on this connection that wait for an answer."""
        ...

    @property
    def in_flight(self) -> int:
        """Bytes of the requests whose answers are owed to this peer."""
        ...

    def expire(self, now: float) -> None:
        """Report the calls whose deadline has passed."""
        ...

    def check_silence(self, now: float) -> None:
        """End the connection if it has been idle, or slow with a frame, for too long."""
        ...


class Endpoint:
    """The tables, timers and hooks that connections share."""

    def __init__(
        self,
        limits: Limits,
        handlers: Handlers,
        *,
        on_connect: PeerHook | None = None,
        on_disconnect: PeerHook | None = None,
        sign: Sign | None = None,
        per_address: AddressCounts | None = None,
        turns: Turns | None = None,
        is_server: bool,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.frame_limits = FrameLimits(limits.max_frame_bytes, limits.max_header_bytes)
        self.handlers = handlers
        self.is_server = is_server
        self.per_address: Final = per_address or AddressCounts()
        self.turns: Final = Turns(TurnBudgets()) if turns is None else turns  # an empty line is false
        self.sign = sign
        self.on_connect = on_connect
        self.on_disconnect = on_disconnect
        self.connections: dict[EndpointConnection, None] = {}
        self.budget = Budget(limits.max_in_flight_bytes, self.connections)
        self.partials = Partials(limits.max_partial_bytes)
        self.promises = Promises(limits.max_answer_bytes)
        # A caller waits until its peer reads (`Wire.wait_to_send`); `max_unsent_bytes` alone bounds what it sends.
        self.unsent = UnsentBytes(limits.max_all_unsent_bytes if is_server else maxsize, self.loop.time)
        self._unflushed: list[Flushable] = []
        self._waiting: dict[EndpointConnection, None] = {}
        self._resting: list[tuple[float, int, PausableReader]] = []  # a heap: end, number, connection
        self._rests = count()
        self._rest_timer: asyncio.TimerHandle | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._silence_timer: asyncio.Handle | None = None
        self._gone: asyncio.Future[None] | None = None
        self.refused: Final = DampedEvents()
        """Connections that were refused because ``max_connections`` was reached."""
        self.cuts: Final = DampedEvents()
        """Connections that were ended at once, for a limit they reached or for bad data."""
        self.failed_handshakes: Final = DampedEvents()
        self.broken_streams: Final = DampedEvents()
        """Connections that ended because their bytes could not be read."""
        self.strangers: Final = Strangers()
        self.is_closing = False
        self._is_hushed = False

    def flush_this_turn(self, connection: Flushable) -> None:
        """Call ``connection.flush`` when everything else of this turn has run."""
        self._unflushed.append(connection)
        if len(self._unflushed) == 1:
            soon(Share.ANSWER, self._flush_all)

    def _flush_all(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            connection.flush()

    def opened(self, connection: EndpointConnection) -> None:
        """Add a new connection to the tables."""
        self.connections[connection] = None
        if self._is_hushed:
            connection.hold(HUSHED)
        if self._silence_timer is None:
            self._watch_silence()
        if self.on_connect is not None:
            self.on_connect(connection)

    def ended(self, connection: EndpointConnection) -> None:
        """Remove an ended connection from all tables."""
        del self.connections[connection]
        self.per_address.leave(connection)
        self._waiting.pop(connection, None)
        self.partials.forget(connection)
        self.unsent.forget(connection)
        for held in (self.partials, self.unsent):
            if held.most >= MUCH_BYTES and held.held <= held.most // 4:
                held.most = 0
                self.loop.call_later(1.0, give_back_memory)
        if self._gone is not None and not self.connections and not self._gone.done():
            self._gone.set_result(None)
        if self.on_disconnect is not None:
            self.on_disconnect(connection)

    def rest(self, connection: PausableReader, seconds: float) -> None:
        """Read nothing from a connection for ``seconds`` plus jitter, so that connections resume in different turns."""
        connection.hold(RESTING)
        number = next(self._rests)
        rested_at = self.loop.time() + seconds * (1 + SPREAD * (number * _GOLDEN % 1))
        heappush(self._resting, (rested_at, number, connection))
        if self._resting[0][0] == rested_at:
            self._wake_at(rested_at)

    def _wake(self) -> None:
        now, resting = self.loop.time(), self._resting
        for _ in range(WOKEN_AT_ONCE):
            if not resting or resting[0][0] > now:
                break
            heappop(resting)[2].unhold(RESTING)
        if resting:
            self._wake_at(resting[0][0])

    def _wake_at(self, when: float) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        self._rest_timer = self.loop.call_at(when, self._wake)

    def watch_deadlines(self, connection: EndpointConnection) -> None:
        """Check the deadlines of this connection, which has calls outstanding."""
        self._waiting[connection] = None
        if self._deadline_timer is None:
            self._deadline_timer = self.loop.call_later(DEADLINE_SWEEP_S, self._sweep_deadlines)

    def _sweep_deadlines(self) -> None:
        now = self.loop.time()
        for connection in tuple(self._waiting):
            connection.expire(now)
            if not connection.outstanding:
                self._waiting.pop(connection, None)
        self._deadline_timer = None
        if self._waiting:
            self._deadline_timer = self.loop.call_later(DEADLINE_SWEEP_S, self._sweep_deadlines)

    def _watch_silence(self) -> None:
        limits = self.limits
        shortest = min(limit for limit in (limits.idle_s, limits.first_frame_s, limits.frame_s) if limit)
        self._silence_timer = self.loop.call_later(max(shortest / _SILENCE_SWEEPS, 0.01), self._sweep_silence)

    def _sweep_silence(self) -> None:
        """Check every connection, some in a turn; those that open meanwhile wait for the next sweep."""
        self._check_silence(iter(tuple(self.connections)))

    def _check_silence(self, left: Iterator[EndpointConnection]) -> None:
        now = self.loop.time()
        some = tuple(islice(left, CHECKED_AT_ONCE))
        for connection in some:
            if connection in self.connections:
                connection.check_silence(now)
        self._silence_timer = None
        if len(some) == CHECKED_AT_ONCE:
            self._silence_timer = soon(Share.CONNECTION, self._check_silence, left)
        elif self.connections:
            self._watch_silence()

    def hush(self) -> None:
        """Read and handle nothing any more of any connection; answers that are owed still leave."""
        self._is_hushed = True
        for connection in tuple(self.connections):
            connection.hold(HUSHED)

    async def close(self) -> None:
        """Write what every connection has gathered, end all of them, stop the timers; return when all have ended."""
        self.is_closing = True
        for connection in tuple(self.connections):
            connection.close()
        if self.connections:
            self._gone = self.loop.create_future()
            _, late = await asyncio.wait([self._gone], timeout=CLOSING_S)
            if late:
                for connection in tuple(self.connections):
                    connection.cut("the endpoint is closed and the peer has not read what it was sent")
                await self._gone
        for timer in (self._rest_timer, self._deadline_timer, self._silence_timer):
            if timer is not None:
                timer.cancel()

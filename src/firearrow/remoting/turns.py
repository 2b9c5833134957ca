"""Turns: connections share the CPU of a server's loop, and a connection that asks little is not kept waiting by others.

All connections together take `TURN_NS` of CPU when a turn of the loop reads them, `LONG_TURN_NS` while all of them ask
much. A read that comes after that, and a read that is not handled completely, waits in a line; its connection is not
read meanwhile. After its reads a turn takes as much again for the line. Nothing is refused: a connection that waits is
read later, and further bytes of its peer stay in the peer's memory.

The line is served by fair queueing (start-time fair queueing, with CPU instead of bytes). Each connection has a mark:
where it began, plus the CPU that it took. The connection with the lowest mark is first. A connection that took less
than its share while others waited has a lower mark than they, but by no more than `CREDIT_NS`: so much it can take at
once before it waits like them. A new connection has no credit. A tiny read that ends no frame is charged
`DRIBBLE_NS` on top: its price is the reading, which a peer can ask for with every byte. A read that waits is charged
to its own connection, too, and not to the next that is served.

Invariants: a connection is in the line at most once; a mark in the line is at most `CREDIT_NS` below the highest mark
at which a connection has begun; while the line is not empty, a turn is scheduled.
"""

from heapq import heappop, heappush, heapreplace
from typing import Final, Protocol

from firearrow.runtime.turn import Share, TurnBudgets

TURN_NS: Final = 500_000
"""CPU that the reads of a turn take before further ones wait; the line takes as much in a turn."""
LONG_TURN_NS: Final = 4_000_000
"""Takes the place of `TURN_NS` while no served connection has saved half of its credit: cheaper for each request."""
SHORT_TURNS: Final = 200
"""Turns that are short after such a connection was served."""
CREDIT_NS: Final = 10_000_000
"""CPU that a connection can have saved by asking little."""
DRIBBLE_NS: Final = 5_000_000
"""The surcharge of a tiny read that ends no frame."""
BYTES_A_NS: Final = 3
"""Bytes that the system and the loop copy in a nanosecond as they are read, which is not a part of a turn."""
AT_ONCE_FIRST: Final = 8
AT_ONCE_MAX: Final = 64
"""Requests that are handled between two looks at the clock: fewer where they take long."""
WAITING_BYTES_MAX: Final = 32 << 20
"""Bytes of reads that wait in the line; beyond that a read is handled as it comes."""


class TurnTaker(Protocol):
    """A connection whose reads are handled in turns. Its marks are attributes: an object for them would be a cycle."""

    mark: int
    """The CPU that it took, from the mark at which it began; `Turns.mark` at first."""
    is_in_line: bool
    at_once: int
    """Requests that are handled between two looks at the clock; `AT_ONCE_FIRST` at first."""

    def take_turn(self) -> None:
        """Handle bytes and requests that wait, until there are no more or the turn is over."""
        ...


class Turns:
    """The line of the connections of one server, and the CPU of the turn that is under way."""

    def __init__(self, budgets: TurnBudgets) -> None:
        self._budgets = budgets
        self._turn = budgets.watched
        self._cpu_ns = budgets.turn.cpu_ns
        self._line: list[tuple[int, int, TurnTaker]] = []  # a heap: mark, number, connection
        self._number = 0
        self.mark = 0
        """The highest mark at which a connection has begun: that of a new connection."""
        self._began = self._charged_at = self._looked_at = 0
        self._read_ns = self._charged_ns = 0
        self._read_in = 0
        self._is_over = False
        self._length = LONG_TURN_NS
        self._short_turns = 0
        self.waiting_bytes = 0
        """Bytes of reads that wait; connections change it themselves."""

    def __len__(self) -> int:
        return len(self._line)

    @property
    def is_full(self) -> bool:
        """Whether so many bytes wait that further ones are handled as they come."""
        return self.waiting_bytes >= WAITING_BYTES_MAX

    def lets(self, connection: TurnTaker) -> bool:
        """Whether a read of this connection is handled at once; if not, the connection has to `wait`."""
        budgets = self._budgets
        if not budgets.is_used:
            budgets.enter()
        if self._read_in != budgets.number:
            self._read_in = budgets.number
            self._begin()
        if (self._is_over or (self._line and connection.mark > self._lowest_mark())) and not self.is_full:
            now = self._cpu_ns()
            connection.mark += now - self._charged_at
            self._charged_at = self._looked_at = now
            return False
        self._start(connection)
        return True

    def is_over(self, connection: TurnTaker, handled: int) -> bool:
        """Whether this turn has taken its CPU, now that so many requests were handled since the last look."""
        now = self._cpu_ns()
        self._pace(connection, handled, now - self._looked_at)
        self._looked_at = now
        self._is_over = now - self._began >= self._length
        return self._is_over

    def charge(self, connection: TurnTaker, handled: int, surcharge_ns: int = 0, size: int = 0) -> bool:
        """Charge the CPU since the last charge to a connection; return whether the turn is over.

        ``handled``: the requests of this time. They count if nobody has looked at the clock meanwhile. ``size``: the
        bytes that were handled; a turn that takes many is over sooner, because as many are read after it.
        """
        now = self._cpu_ns()
        took = now - self._charged_at
        if self._looked_at == self._charged_at and (took * 2 > TURN_NS or connection.at_once < AT_ONCE_MAX):
            self._pace(connection, handled, took)
        self._looked_at = self._charged_at = now
        connection.mark += took + surcharge_ns
        if self._turn is None:
            self._budgets.priced_ns += took
        else:
            self._turn.charge_step(Share.READ, now - self._read_ns, self._charged_ns, connection)
            self._read_ns, self._charged_ns = now, self._turn.charged_ns
        self._began -= size // BYTES_A_NS
        self._is_over = now - self._began >= self._length
        return self._is_over

    def _pace(self, connection: TurnTaker, handled: int, took: int) -> None:
        """Look at the clock more often where requests take long, and less often where they do not."""
        if took * 2 > TURN_NS:
            connection.at_once = max(handled * TURN_NS // (took * 4), 1)
        elif connection.at_once < AT_ONCE_MAX:
            connection.at_once *= 2

    def wait(self, connection: TurnTaker) -> None:
        """Put a connection into the line, if it is not there."""
        if connection.is_in_line:
            return
        connection.is_in_line = True
        self._number += 1
        heappush(self._line, (max(connection.mark, self.mark - CREDIT_NS), self._number, connection))
        self._budgets.due[self] = None
        self._budgets.enter()

    def _begin(self) -> None:
        self._is_over = False
        self._began = self._charged_at = self._looked_at = self._cpu_ns()
        self._length = TURN_NS if self._short_turns else LONG_TURN_NS

    def serve(self) -> None:
        """Serve the line, before the reads of the turn."""
        self._short_turns = max(self._short_turns - 1, 0)
        self._begin()
        try:
            for _ in range(len(self._line)):  # bounded, because CPU stands still in a simulation
                if self._is_over:
                    break
                self._serve_first()
        finally:
            if not self._line:
                del self._budgets.due[self]

    def _serve_first(self) -> None:
        self._lowest_mark()
        connection = heappop(self._line)[2]
        connection.is_in_line = False
        self._start(connection)
        connection.take_turn()

    def _lowest_mark(self) -> int:
        """The mark of the first in the line, which is not empty."""
        line = self._line
        while line[0][0] < line[0][2].mark:  # it came into the line before it was charged
            heapreplace(line, (line[0][2].mark, *line[0][1:]))
        return line[0][0]

    def _start(self, connection: TurnTaker) -> None:
        if self._turn is not None:
            self._read_ns, self._charged_ns = self._cpu_ns(), self._turn.charged_ns
        saved = self.mark - connection.mark
        if saved <= 0:
            self.mark = connection.mark
        elif saved * 2 >= CREDIT_NS:
            connection.mark = max(connection.mark, self.mark - CREDIT_NS)
            if self._line:
                self._short_turns, self._length = SHORT_TURNS, TURN_NS

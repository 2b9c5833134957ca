"""Whether the log here is the beginning of the master's, as the present connection to that master found.

Tables belong to a log. A master that lost its disk comes back with an empty log and empty tables, and a slave that took
them would lose the last copy of everything. So a slave takes tables only while it copies the log that they belong to.
"""

import asyncio
from collections.abc import Callable

from firearrow.runtime.network import Address


class Agreement:
    """The findings of a slave's connections to its master."""

    def __init__(self, end: Callable[[], int]) -> None:
        """``end`` returns the end of the log here."""
        self.end = end
        self.followed: Address | None = None
        """The address at which the master is said to be."""
        self.is_compared = False
        """Whether the records were compared, and not only the lengths of the logs."""
        self.on_reached: Callable[[], None] = lambda: None
        """Called when a connection has found that the master goes on with the log here."""
        self._address: Address | None = None
        self._connections = 0
        self._is_reached = False
        self._heard = asyncio.Event()

    @property
    def connection(self) -> int | None:
        """The number of the connection whose master goes on with the log here; None while there is none."""
        return self._connections if self._is_reached and self._address == self.followed else None

    def begun(self, address: Address) -> None:
        """Note that a connection to a master at this address has begun."""
        self._connections += 1
        self._address = address

    def reached(self, *, is_compared: bool) -> None:
        """Note that the master at the other end goes on with the log here."""
        self._is_reached = True
        self.is_compared = is_compared
        self.on_reached()

    def over(self) -> None:
        """Note that the connection has ended."""
        self._is_reached = False
        self._heard.set()

    def heard(self) -> None:
        """Note that something came over the connection."""
        self._heard.set()

    async def lasts(self, connection: int) -> bool:
        """Wait until something comes over a connection, which proves that the same master is there; False if it ended.

        A master that was started again may answer requests before the slave notices that the connection is dead.
        """
        if self.connection == connection:
            self._heard.clear()
            await self._heard.wait()
        return self.connection == connection

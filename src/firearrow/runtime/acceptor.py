"""Accepts connections, a few in a turn of the loop, and only while enough descriptors are free.

A flood of connections must neither hold the loop nor use up the descriptors that files need. The system gives a new
descriptor the lowest free number, so the number of an accepted socket shows how many are in use: above a limit
connections are closed as they arrive. If the system has no descriptor at all, the listener pauses for a moment; asyncio
and uvloop by themselves would log a traceback a second, or end.

Invariant: an accepted connection is given to a protocol or closed.
"""

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable
from typing import Final

from firearrow.runtime.disk.real_disk import DESCRIPTORS_MAX
from firearrow.telemetry.damped import DampedEvents

AT_ONCE: Final = 4
"""Connections accepted in one turn of the loop."""
REST_S: Final = 0.02
"""Pause of a listener after it refused a connection."""
OTHERS: Final = 64
"""Descriptors reserved for other uses than connections and store files."""
BACKLOG: Final = 1024
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log: Final = logging.getLogger(__name__)


def raise_descriptor_limit() -> int:
    """Allow this process as many descriptors as the system lets it have; return their number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # the real limit of this system is below the one it reports
            return soft
    return hard


def descriptors_for_connections() -> int:
    """Return how many descriptors may be in use before connections are refused; store files need the rest."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(limit - min(DESCRIPTORS_MAX, limit // 2) - OTHERS, OTHERS)


class Acceptor:
    """Accepts connections on bound sockets, one protocol for each."""

    def __init__(
        self, sockets: list[socket.socket], factory: Callable[[], asyncio.Protocol], descriptors: int | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._factory = factory
        self._most = self._given = descriptors
        self._tasks: set[asyncio.Task[None]] = set()
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}
        self.refused: Final = DampedEvents()
        """Connections that were closed as they arrived."""
        self.exhausted: Final = DampedEvents()
        """The times that the system had no free descriptor."""
        for listener in sockets:
            listener.listen(BACKLOG)
            self._loop.add_reader(listener, self._accept, listener)

    def close(self) -> None:
        """Stop accepting. Accepted connections go on."""
        sockets, self._sockets = self._sockets, []
        for listener in sockets:
            timer = self._resting.pop(listener, None)
            if timer is not None:
                timer.cancel()
            self._loop.remove_reader(listener)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        refused = self.refused.total
        most = self._most = descriptors_for_connections() if self._given is None else self._given
        for _ in range(AT_ONCE):
            try:
                connection, _ = listener.accept()
            except ConnectionAbortedError:
                continue
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._exhaust(error)
                self._rest(listener)
                return
            if connection.fileno() >= most:
                self._refuse(connection)
            else:
                self._take(connection)
        if self.refused.total > refused:
            self._rest(listener)

    def _take(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        task = self._loop.create_task(self._hand_over(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hand_over(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._factory, connection)
        except OSError:  # the connection is closed already
            connection.close()

    def _refuse(self, connection: socket.socket) -> None:
        connection.close()
        number = self.refused.count(self._loop.time())
        if number:
            log.warning(
                "connections refused: %d descriptors are in use and the rest is kept for files; raise the limit of "
                "open files (ulimit -n)",
                self._most,
                extra={"refused": number, "total": self.refused.total},
            )

    def _exhaust(self, error: OSError) -> None:
        number = self.exhausted.count(self._loop.time())
        if number:
            log.error(
                "connections wait: the system has no descriptor or memory for them: %s",
                error.strerror,
                extra={"times": number, "total": self.exhausted.total},
            )

    def _rest(self, listener: socket.socket) -> None:
        self._loop.remove_reader(listener)
        self._resting[listener] = self._loop.call_later(REST_S, self._go_on, listener)

    def _go_on(self, listener: socket.socket) -> None:
        del self._resting[listener]
        self._loop.add_reader(listener, self._accept, listener)


async def bind(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to every address of a host name; raise ``OSError`` if one is in use."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, where in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(where)
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets

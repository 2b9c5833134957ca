"""Dialling and listening, in asyncio's own vocabulary.

A connection is an ``asyncio.Transport`` that feeds an ``asyncio.Protocol``: an ordered stream of bytes, cut
into arbitrary pieces, with ``pause_writing`` / ``resume_writing`` as back-pressure. The door keeps six
promises:

* ``connect`` returns after ``connection_made``, or raises ``ConnectionFailed`` within the connect timeout;
* bytes leave at once (``TCP_NODELAY``, which both loops set on every TCP connection);
* a connection that we opened ends within seconds when the other machine is not there any more (the system probes it,
  where the system can), so that nobody waits for an answer that cannot come;
* a ``Listener`` accepts a few connections in a turn of the loop, and none that would take the last descriptors;
* a ``Listener`` that was closed accepts nobody any more, and leaves the connections it accepted alone;
* ``get_extra_info("peername")`` and ``("sockname")`` are ``(host, port, ...)`` tuples.

TLS is a layer above this door (``runtime.tls``), so that it also runs over simulated transports.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from firearrow.errors import ConnectionFailed, ListenFailed, SettingsError

CONNECT_TIMEOUT_S: Final = 3.0
SILENT_FOR_S: Final = 3
PROBES: Final = 3
"""A peer from which nothing came for that long is probed once a second; after so many probes it is taken for gone."""

ProtocolFactory = Callable[[], asyncio.Protocol]


class Address(NamedTuple):
    """Where a server listens. IPv6 hosts are kept without brackets and printed with them."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``host:port``, ``[v6]:port``, or ``v6:port`` as Java prints it (the last colon divides)."""
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
            fault = "is not an address" if colon else "has no port"
            raise SettingsError(f"{text!r} {fault}: write host:port, or [host]:port for IPv6")
        return cls(host, int(port))

    def __str__(self) -> str:
        """Return the form that ``parse`` reads."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(Protocol):
    """An endpoint that accepts connections."""

    @property
    def address(self) -> Address:
        """Where it really listens: the port is known even when 0 was asked for."""
        ...

    def close(self) -> None:
        """Stop accepting. Connections already accepted go on."""
        ...

    async def wait_closed(self) -> None:
        """Return once nobody can connect any more and the port is free."""
        ...


class Network(Protocol):
    """How one node reaches the others."""

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        """Open a connection; raise ``ConnectionFailed`` when nobody answers in time."""
        ...

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        """Accept connections, one protocol for each; raise ``ListenFailed`` when the port is taken."""
        ...


class SystemNetwork:
    """TCP, on the running loop (stock asyncio or uvloop)."""

    def __init__(self, *, connect_timeout_s: float = CONNECT_TIMEOUT_S, descriptors: int | None = None) -> None:
        """``descriptors`` may be in use before connections are refused; if none is said, what the system allows."""
        self._connect_timeout_s = connect_timeout_s
        self._descriptors = descriptors

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        """Open a TCP connection."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                transport, _ = await loop.create_connection(factory, address.host, address.port)
        except TimeoutError as error:
            reason = f"no answer within {self._connect_timeout_s:g} s"
            raise ConnectionFailed(f"cannot connect to {address}: {reason}; {_ON_THE_WAY}") from error
        except (OSError, UnicodeError) as error:
            raise ConnectionFailed(f"cannot connect to {address}: {_reason(error)}; {_advice(error)}") from error
        _notice_silence(transport)
        return transport

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        """Listen on a TCP port; ``0.0.0.0`` is every IPv4 interface and ``::`` every IPv6 one."""
        try:
            from firearrow.runtime.accepting import bind  # a client does without it, and without Unix

            sockets = await bind(address.host, address.port)
        except (OSError, UnicodeError, OverflowError) as error:
            advice = "end what listens there, or choose another port or address"
            raise ListenFailed(f"cannot listen on {address}: {_reason(error)}; {advice}") from error
        return _SystemListener(sockets, factory, self._descriptors)


class _SystemListener:
    def __init__(self, sockets: list[socket.socket], factory: ProtocolFactory, descriptors: int | None) -> None:
        host, port = sockets[0].getsockname()[:2]
        self._address = Address(host, port)
        from firearrow.runtime.accepting import Acceptor

        self._acceptor = Acceptor(sockets, factory, descriptors)

    @property
    def address(self) -> Address:
        return self._address

    def close(self) -> None:
        self._acceptor.close()

    async def wait_closed(self) -> None:
        # The sockets are closed by close() itself; one turn of the loop lets uvloop finish with its handles.
        self._acceptor.close()
        await asyncio.sleep(0)


def _notice_silence(transport: asyncio.Transport) -> None:
    peer = transport.get_extra_info("socket")
    options = {"TCP_KEEPIDLE": SILENT_FOR_S, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": PROBES}
    options["TCP_USER_TIMEOUT"] = (SILENT_FOR_S + PROBES) * 1000  # the same for bytes that were sent and not received
    try:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    except OSError:  # a system that does not offer it, or a connection that has ended already
        return


_ON_THE_WAY: Final = "check the address, and what may block the way there"


def _advice(error: Exception) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return "check the name of the host"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there: check the address, and whether the server runs"
    return _ON_THE_WAY


def _reason(error: Exception) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    # asyncio puts a text of its own for the system's, with the address once more.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror

"""Connecting and listening, in terms of asyncio's transports and protocols.

A connection is an ``asyncio.Transport`` that feeds an ``asyncio.Protocol``: an ordered stream of bytes, cut
into arbitrary pieces, with ``pause_writing`` / ``resume_writing`` as back-pressure. The door keeps six
promises:

* ``connect`` returns after ``connection_made``, or raises ``ConnectionFailed`` within the connect timeout;
* bytes leave at once (``TCP_NODELAY``, which both loops set on every TCP connection);
* a connection that we opened ends within seconds after the other machine has vanished (keep-alive probes, where the
  system has them), so that no caller waits for an answer that cannot come;
* a ``Listener`` accepts a few connections in a turn of the loop, and none that would take the last descriptors;
* a closed ``Listener`` accepts nothing and leaves accepted connections open;
* ``get_extra_info("peername")`` and ``("sockname")`` are ``(host, port, ...)`` tuples.

TLS is a layer above this door (``runtime.tls``), so that it also runs over simulated transports.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, NamedTuple, Protocol

from firearrow.errors import ConnectionFailed, ListenFailed, SettingsError
from firearrow.runtime.turn import breathe

CONNECT_TIMEOUT_S: Final = 3.0
SILENT_FOR_S: Final = 3
PROBES: Final = 3
"""Keep-alive: idle seconds before the first probe, and probes (one a second) without an answer before the end."""

ProtocolFactory = Callable[[], asyncio.Protocol]


class Address(NamedTuple):
    """The host and port of a server. IPv6 hosts are kept without brackets and printed with them."""

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
        """The bound address, with the real port if 0 was asked for."""
        ...

    def close(self) -> None:
        """Stop accepting. Connections already accepted go on."""
        ...

    async def wait_closed(self) -> None:
        """Return once no client can connect any more and the port is free."""
        ...


class Network(Protocol):
    """Connects to other nodes and listens for them."""

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        """Open a connection; raise ``ConnectionFailed`` if that fails or takes too long."""
        ...

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        """Accept connections, one protocol for each; raise ``ListenFailed`` when the port is taken."""
        ...


class SystemNetwork:
    """TCP, on the running loop (stock asyncio or uvloop)."""

    def __init__(self, *, connect_timeout_s: float = CONNECT_TIMEOUT_S, descriptors: int | None = None) -> None:
        """``descriptors`` is how many may be in use before connections are refused; by default the system's limit."""
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
            from firearrow.runtime.acceptor import (
                bind,  # clients do not need it, and may run on other systems than Unix
            )

            sockets = await bind(address.host, address.port)
        except (OSError, UnicodeError, OverflowError) as error:
            advice = "end what listens there, or choose another port or address"
            raise ListenFailed(f"cannot listen on {address}: {_reason(error)}; {advice}") from error
        return _SystemListener(sockets, factory, self._descriptors)


class _SystemListener:
    def __init__(self, sockets: list[socket.socket], factory: ProtocolFactory, descriptors: int | None) -> None:
        host, port = sockets[0].getsockname()[:2]
        self._address = Address(host, port)
        from firearrow.runtime.acceptor import Acceptor

        self._acceptor = Acceptor(sockets, factory, descriptors)

    @property
    def address(self) -> Address:
        return self._address

    def close(self) -> None:
        self._acceptor.close()

    async def wait_closed(self) -> None:
        # The sockets are closed by close() itself; one turn of the loop lets uvloop finish with its handles.
        self._acceptor.close()
        await breathe()


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
    # asyncio replaces the system's text by its own, which repeats the address.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror


def is_own_host(host: str) -> bool:
    """Whether an address is one of this host alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

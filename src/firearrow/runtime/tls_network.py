"""A network for the connections between servers: TLS where the settings ask for it.

Outgoing connections use TLS if the process has a client context. Of incoming ones the first byte tells: 0x16 begins a
TLS handshake. No stream between servers begins with it: the first byte of a slave's report is the highest of an offset
of eight bytes, or of -1.
"""

import asyncio
import logging
import ssl
from typing import Final, cast

from firearrow.runtime.certificates import Certificates
from firearrow.runtime.network import Address, Listener, Network, ProtocolFactory
from firearrow.runtime.tls import TLS_HANDSHAKE, TlsLayer, connect_tls
from firearrow.runtime.tls_settings import TlsMode
from firearrow.telemetry.damped import DampedEvents

FIRST_BYTE_S: Final = 20.0
"""The longest silence of a new connection."""
MOST_SILENT: Final = 64
"""The most silent connections at a time: past it the oldest is closed, so that they take no descriptors."""

log = logging.getLogger(__name__)


class TlsNetwork:
    """Connects and listens over another network."""

    def __init__(self, network: Network, certificates: Certificates, mode: TlsMode = TlsMode.PERMISSIVE) -> None:
        self._network = network
        self._certificates = certificates
        self._mode = mode
        self.refused: Final = DampedEvents()
        """Connections that were refused, or whose handshake failed."""
        self.silent: Final[dict[_TlsArrival, None]] = {}
        """Connections that have said nothing yet, the oldest first."""

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        """Open a connection, and finish its handshake if TLS is asked for."""
        context = self._certificates.client
        if context is None:
            return await self._network.connect(factory, address)
        return await connect_tls(self._network, factory, address, context)

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        """Accept connections of the kinds that the mode allows."""
        return await self._network.listen(lambda: _TlsArrival(factory, self), address)

    def context(self) -> ssl.SSLContext | None:
        """Return the context of a connection that begins with a handshake now; None if those are refused."""
        return None if self._mode is TlsMode.DISABLED else self._certificates.server

    @property
    def takes_plaintext(self) -> bool:
        """Whether connections without TLS are served."""
        return self._mode is not TlsMode.ENFORCING


class _TlsArrival(asyncio.Protocol):
    """Reads the first bytes of a connection, then passes the transport to the protocol of its own."""

    _transport: asyncio.Transport
    _deadline: asyncio.TimerHandle

    def __init__(self, factory: ProtocolFactory, network: TlsNetwork) -> None:
        self._factory = factory
        self._network = network
        self._host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._host = str((transport.get_extra_info("peername") or ("?",))[0])
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(FIRST_BYTE_S, self._refuse, f"it said nothing for {FIRST_BYTE_S:g} s")
        silent = self._network.silent
        silent[self] = None
        if len(silent) > MOST_SILENT:
            next(iter(silent))._refuse(f"{MOST_SILENT} others have said nothing either")  # noqa: SLF001 - of this class

    def data_received(self, data: bytes) -> None:
        self._spoken()
        if data[0] != TLS_HANDSHAKE:
            self._welcome(data)
            return
        context = self._network.context()
        if context is None:
            self._refuse("it uses TLS, which is disabled here or has no certificate (tls.certificate_path)")
            return
        layer = TlsLayer(context, self._factory(), server_side=True, on_failure=self._failed)
        self._transport.set_protocol(layer)
        layer.connection_made(self._transport)
        layer.data_received(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._spoken()

    def _spoken(self) -> None:
        self._deadline.cancel()
        self._network.silent.pop(self, None)

    def _welcome(self, data: bytes) -> None:
        if not self._network.takes_plaintext:
            self._refuse("it does not use TLS, which is enforced here (tls.mode)")
            return
        protocol = self._factory()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(data)

    def _failed(self, error: Exception) -> None:
        self._log(f"TLS: {error}")

    def _refuse(self, reason: str) -> None:
        self._spoken()
        self._log(reason)
        self._transport.abort()

    def _log(self, reason: str) -> None:
        number = self._network.refused.count(asyncio.get_running_loop().time())
        if number:
            extra = {"peer": self._host, "reason": reason, "refused": number}
            log.warning("the connection of %s is refused: %s", self._host, reason, extra=extra)

"""TLS and plaintext on one listening port, told apart by the first byte of each connection.

0x16 begins a TLS handshake, anything else is plaintext, as Apache's ``TlsModeHandler`` has it. The protocols
of the port hear ``connection_made`` when the first byte has come, or the handshake is done. For ports whose
connections begin with nothing else; a port that also takes PROXY preambles reads those first and uses
``TlsLayer`` itself.
"""

import asyncio
import logging
import ssl
from typing import Final, cast

from firearrow.runtime.network import ProtocolFactory
from firearrow.runtime.tls import TlsLayer
from firearrow.runtime.tls_settings import TlsMode

log: Final = logging.getLogger(__name__)

HANDSHAKE_BYTE: Final = 0x16


class _FirstByte(asyncio.Protocol):
    """Waits for the first byte of a connection and puts the right protocol in its own place."""

    def __init__(self, factory: ProtocolFactory, mode: TlsMode, context: ssl.SSLContext | None) -> None:
        self._factory = factory
        self._mode = mode
        self._context = context

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        is_tls = data[0] == HANDSHAKE_BYTE
        if is_tls and (self._context is None or self._mode is TlsMode.DISABLED):
            self._refuse("a client speaks TLS and TLS is disabled here")
        elif not is_tls and self._mode is TlsMode.ENFORCING:
            self._refuse("a client speaks plaintext and TLS is enforced here")
        else:
            self._hand_over(data, is_tls=is_tls)

    def _hand_over(self, data: bytes, *, is_tls: bool) -> None:
        protocol = self._factory()
        if is_tls:
            assert self._context is not None
            protocol = TlsLayer(self._context, protocol, server_side=True, on_failure=self._log_failure)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(data)

    def _refuse(self, reason: str) -> None:
        log.warning("connection refused", extra={"reason": reason, "peer": self._peer()})
        self._transport.close()

    def _log_failure(self, error: Exception) -> None:
        log.warning("TLS handshake failed", extra={"reason": str(error), "peer": self._peer()})

    def _peer(self) -> str:
        return str(self._transport.get_extra_info("peername"))


def first_byte_chooses(factory: ProtocolFactory, mode: TlsMode, context: ssl.SSLContext | None) -> ProtocolFactory:
    """Return a factory for ``Network.listen`` that takes TLS, plaintext or both on one port.

    The protocols of ``factory`` hear ``connection_made`` when the first byte has come, or the handshake is
    done.
    """
    return lambda: _FirstByte(factory, mode, context)

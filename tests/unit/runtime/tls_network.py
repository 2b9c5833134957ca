"""A network door with TLS on every connection, so that the conformance suite can be run over the TLS layer."""

import asyncio
import ssl

from firearrow.runtime.network import Address, Listener, Network, ProtocolFactory
from firearrow.runtime.tls import connect_tls
from firearrow.runtime.tls_settings import ClientTls, ServerTls, TlsMode, client_context, server_context
from firearrow.testing.certificates import CertificateFiles
from tests.unit.runtime.tls_port import first_byte_chooses


class TlsNetwork:
    def __init__(self, network: Network, files: CertificateFiles) -> None:
        self._network = network
        self._server = server_context(ServerTls(certificate_path=files.certificate_path, key_path=files.key_path))
        self._client: ssl.SSLContext = client_context(ClientTls(enabled=True))

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        return await connect_tls(self._network, factory, address, self._client)

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        return await self._network.listen(first_byte_chooses(factory, TlsMode.ENFORCING, self._server), address)

"""The listening end: accepts connections and hands their requests to handlers.

A connection opens with TLS or with plain frames, on the same port (``greeting``). Until that is known an
``_ServerArrival`` is the transport's protocol; afterwards the ``ConnectionDriver`` takes its place, so that later reads
cost nothing extra.

Agrees with Apache's ``NettyRemotingServer``: hooks run when a connection opens and ends, with TLS or without.
"""

import asyncio
import logging
import ssl
from functools import partial
from typing import Final, NamedTuple, cast

from firearrow.errors import BadFrame, SettingsError
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.endpoint import AddressCounts, Endpoint, PeerHook
from firearrow.remoting.flow import STRANGER
from firearrow.remoting.greeting import Greeting, Opening, StreamKind
from firearrow.remoting.handlers import Handlers, Peer
from firearrow.remoting.limits import Limits
from firearrow.remoting.strangers import OPENING_S, REFUSED_PAUSE_S
from firearrow.remoting.turns import Turns
from firearrow.runtime.network import Address, Listener, Network
from firearrow.runtime.tls import TlsLayer
from firearrow.runtime.tls_settings import TlsMode

log: Final = logging.getLogger(__name__)


class ServerLoad(NamedTuple):
    """The bytes that the connections of a server hold, in all."""

    connections: int = 0
    in_flight_bytes: int = 0
    """Requests whose answers are owed."""
    in_flight_bytes_max: int = 0
    """The most that one connection is owed."""
    answer_bytes: int = 0
    unsent_bytes: int = 0
    partial_bytes: int = 0
    refused: int = 0
    """Connections that were refused since the start."""
    cut: int = 0


class Server:
    """Answers requests at one address.

    ``tls`` holds the certificate for peers that open with TLS; without it such connections are cut.
    """

    def __init__(
        self,
        network: Network,
        handlers: Handlers,
        limits: Limits | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        tls_mode: TlsMode = TlsMode.PERMISSIVE,
        on_connect: PeerHook | None = None,
        on_disconnect: PeerHook | None = None,
        per_address: AddressCounts | None = None,
        turns: Turns | None = None,
    ) -> None:
        if tls is None and tls_mode is TlsMode.ENFORCING:
            raise SettingsError("TLS is enforced and there is no certificate: give a certificate, or change the mode")
        self._network = network
        self._tls = tls
        self._tls_mode = tls_mode
        self._handlers = handlers
        self._limits = limits or Limits()
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._per_address = per_address
        self._turns = turns
        self._endpoint: Endpoint | None = None
        self._listener: Listener | None = None

    @property
    def address(self) -> Address:
        """The address that the server listens at; the port is the real one, also if 0 was asked for."""
        assert self._listener is not None, "the server has not been started"
        return self._listener.address

    @property
    def failures(self) -> int:
        """The number of requests that failed by a bug of a handler since the server was made."""
        return self._handlers.failures.count

    @property
    def peers(self) -> tuple[Peer, ...]:
        """The connected peers, in order of arrival."""
        return tuple(self._endpoint.connections) if self._endpoint else ()

    @property
    def load(self) -> ServerLoad:
        """The bytes that the connections hold now."""
        endpoint = self._endpoint
        if endpoint is None:
            return ServerLoad()
        return ServerLoad(
            connections=len(endpoint.connections),
            in_flight_bytes=endpoint.budget.held,
            in_flight_bytes_max=max((each.in_flight for each in endpoint.connections), default=0),
            answer_bytes=endpoint.promises.held,
            unsent_bytes=endpoint.unsent.count(),
            partial_bytes=endpoint.partials.held,
            refused=endpoint.refused.total,
            cut=endpoint.cuts.total,
        )

    async def start(self, address: Address) -> None:
        """Listen; raise ``ListenFailed`` when the address is taken."""
        endpoint = self._endpoint = Endpoint(
            self._limits,
            self._handlers,
            on_connect=self._on_connect,
            on_disconnect=self._on_disconnect,
            per_address=self._per_address,
            turns=self._turns,
            is_server=True,
        )
        self._listener = await self._network.listen(
            lambda: _ServerArrival(endpoint, self._tls, self._tls_mode), address
        )

    def renew(self, tls: ssl.SSLContext | None) -> None:
        """Use another certificate for connections that open from now on."""
        self._tls = tls

    async def hush(self) -> None:
        """Accept no connection and read no request any more; answers that are owed still leave. `stop` follows."""
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
        if self._endpoint is not None:
            self._endpoint.hush()

    async def stop(self) -> None:
        """Stop accepting, end every connection after its queued answers, and return when all have ended."""
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
        if self._endpoint is not None:
            await self._endpoint.close()


class _ServerArrival(asyncio.Protocol):
    """Reads the first bytes of a connection, then passes the transport to its `ConnectionDriver`."""

    def __init__(self, endpoint: Endpoint, tls: ssl.SSLContext | None, mode: TlsMode) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._mode = mode
        self._greeting = Greeting(proxy_protocol=endpoint.limits.proxy_protocol)
        self._connection: ConnectionDriver | None = None
        self._transport: asyncio.Transport | None = None
        self._opening: Opening | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        endpoint = self._endpoint
        self._transport = cast("asyncio.Transport", transport)
        if endpoint.is_closing or len(endpoint.connections) >= endpoint.limits.max_connections:
            self._refuse(str(transport.get_extra_info("peername")))
            self._transport.abort()
            return
        host = "" if endpoint.limits.proxy_protocol else transport.get_extra_info("peername")[0]
        if host and self._is_in_debt(host):
            self._transport.abort()
            return
        connection = ConnectionDriver(endpoint)
        if host and not self._enters(connection, host):
            self._transport.abort()
            return
        self._connection = connection
        connection.wait_for_greeting()
        connection.connection_made(transport)
        if host:
            connection.charge_opening(host, OPENING_S)

    def _is_in_debt(self, host: str) -> bool:
        """Whether strangers of this address have taken so much time that it gets no further connection now."""
        endpoint = self._endpoint
        now = endpoint.loop.time()
        pause = endpoint.strangers.pause_of(host, now)
        if pause <= REFUSED_PAUSE_S:
            return False
        if number := endpoint.strangers.refused.count(now):
            extra = {"peer": host, "refused": number, "total": endpoint.strangers.refused.total}
            said = "connection of %s refused: connections of this address prove nobody, and took too much time"
            log.warning(said, host, extra=extra)
        return True

    def _enters(self, connection: ConnectionDriver, host: str) -> bool:
        """Whether the host has room for one more connection, which counts from now on."""
        endpoint = self._endpoint
        per_address = endpoint.per_address
        if per_address.enter(connection, host):
            return True
        number = per_address.refused.count(endpoint.loop.time())
        if number:
            limit = per_address.limit
            extra = {"peer": host, "limit": limit, "refused": number, "total": per_address.refused.total}
            log.warning("connection of %s refused: it has %d already", host, limit, extra=extra)
        return False

    def _refuse(self, peer: str) -> None:
        endpoint = self._endpoint
        number = endpoint.refused.count(endpoint.loop.time())
        if number and not endpoint.is_closing:
            limit = endpoint.limits.max_connections
            extra = {"peer": peer, "limit": limit, "refused": number, "total": endpoint.refused.total}
            log.warning("connection of %s refused: max_connections=%d is reached", peer, limit, extra=extra)

    def data_received(self, data: bytes) -> None:
        connection, transport = self._connection, self._transport
        if connection is None or transport is None:
            return
        if self._opening is not None:
            self._opening = self._opening._replace(rest=self._opening.rest + data)
            return
        try:
            opening = self._greeting.feed(data)
        except BadFrame as error:
            connection.cut(str(error))
            return
        if opening is None:
            return
        if self._endpoint.limits.proxy_protocol:
            host = (opening.source or connection.address).host
            if self._is_in_debt(host) or not self._enters(connection, host):
                connection.cut("its address has as many connections as it may, or took too much time for nobody")
                return
            connection.charge_opening(host, OPENING_S)
        if opening.kind is StreamKind.PLAIN:
            self._plain(connection, transport, opening)
        else:
            self._opening = opening
            self._open_secured()

    def _open_secured(self) -> None:
        """Begin the handshake, as soon as the address has time for it."""
        connection, transport, opening = self._connection, self._transport, self._opening
        if connection is None or transport is None or opening is None or not connection.is_open:
            return
        if pause := connection.wait_for_time((opening.source or connection.address).host):
            connection.hold(STRANGER)
            self._endpoint.loop.call_later(pause, self._open_secured)
            return
        connection.unhold(STRANGER)
        self._secure(connection, transport, opening)

    def _plain(self, connection: ConnectionDriver, transport: asyncio.Transport, opening: Opening) -> None:
        if self._mode is TlsMode.ENFORCING:
            connection.cut("the peer does not use TLS, which is enforced here")
            return
        connection.continue_over(transport, opening.source)
        transport.set_protocol(connection)
        connection.data_received(opening.rest)

    def _secure(self, connection: ConnectionDriver, transport: asyncio.Transport, opening: Opening) -> None:
        if self._tls is None or self._mode is TlsMode.DISABLED:
            connection.cut("the peer uses TLS, which is disabled here or has no certificate")
            return

        def failed(error: Exception) -> None:
            number = self._endpoint.failed_handshakes.count(self._endpoint.loop.time())
            if number:
                extra = {"peer": str(connection.address), "reason": str(error), "failed": number}
                log.warning("TLS handshake of %s failed: %s", connection.address, error, extra=extra)
            connection.connection_lost(error)

        host = (opening.source or connection.address).host
        inner = _SecuredProtocol(connection, opening.source)
        step = partial(connection.charge_opening, host)
        layer = TlsLayer(self._tls, inner, server_side=True, on_failure=failed, on_step=step)
        transport.set_protocol(layer)
        layer.connection_made(transport)
        layer.data_received(opening.rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()


class _SecuredProtocol(asyncio.Protocol):
    """Gives the TLS layer's transport to the connection once the handshake is done."""

    def __init__(self, connection: ConnectionDriver, source: Address | None) -> None:
        self._connection = connection
        self._source = source

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        secured = cast("asyncio.Transport", transport)
        secured.set_protocol(self._connection)
        self._connection.continue_over(secured, self._source)

"""The asking end: typed requests to servers, by address.

``await caller.call(address, request)`` returns the typed reply, or raises the error that says what is known:

    ConnectionFailed   no connection could be opened; nothing was sent
    Overloaded         a limit of this caller is reached; nothing was sent
    RequestRefused     the server answered with an error code
    RequestTimedOut    sent, and not answered before the deadline: the server may have handled the request
    ConnectionLost     sent, and the connection ended before the answer: the server may have handled the request

``begin`` is the same without a coroutine, a task or a future, for callers with very many requests in flight. All
requests to one address share one connection; those of one turn of the loop leave in one write. Deadlines are swept ten
times a second, so a timeout is noticed up to 100 ms late.

A server that shuts down answers GO_AWAY instead of handling a request. ``call`` then sends the request once more, over
a new connection, as Apache's ``NettyRemotingClient`` does.
"""

import ssl
from functools import partial
from typing import Any

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.connection import Buffer
from firearrow.protocol.conversation import A, Request
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.endpoint import Endpoint, PeerHook, Sign
from firearrow.remoting.handlers import Handlers
from firearrow.remoting.limits import Limits
from firearrow.remoting.pool import Pool
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, OnOutcome, Reply
from firearrow.runtime.network import Address, Network


class Caller:
    """Sends requests to servers and waits for their answers, over TLS if ``tls`` is given.

    ``handlers`` answer the requests that servers send over the same connections. ``sign`` returns the fields that
    authenticate a request; they are added to every request.
    """

    def __init__(
        self,
        network: Network,
        limits: Limits | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        handlers: Handlers | None = None,
        on_connect: PeerHook | None = None,
        on_disconnect: PeerHook | None = None,
        sign: Sign | None = None,
    ) -> None:
        self._network = network
        self._sign = sign
        self._tls = tls
        self._limits = limits or Limits()
        self._handlers = handlers or Handlers()
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._parts: tuple[Endpoint, Pool] | None = None

    async def call(
        self,
        address: Address,
        request: Request[A],
        body: Buffer = b"",
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> Reply[A]:
        """Send a request and wait for its answer. Codes in ``accept`` are replies, others ``RequestRefused``."""
        endpoint, _ = self._made()
        deadline = endpoint.loop.time() + timeout_ms / 1000
        try:
            return await self._call(address, request, body, deadline, accept)
        except RequestRefused as refusal:
            if refusal.code != ResponseCode.GO_AWAY:
                raise
            return await self._call(address, request, body, deadline, accept)

    async def _call(
        self, address: Address, request: Request[A], body: Buffer, deadline: float, accept: frozenset[int]
    ) -> Reply[A]:
        endpoint, pool = self._made()
        left_ms = (deadline - endpoint.loop.time()) * 1000
        connection = pool.ready(address)
        if connection is None:
            connection = await pool.connect(address, left_ms)
            left_ms = (deadline - endpoint.loop.time()) * 1000
        return await connection.call(request, body, timeout_ms=left_ms, accept=accept)

    def begin(
        self,
        address: Address,
        request: Request[A],
        body: Buffer,
        on_outcome: OnOutcome[A],
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> None:
        """Send a request; ``on_outcome`` runs exactly once, with the reply or the error.

        When the request cannot be sent, that happens before ``begin`` returns. The timeout begins after connecting.
        """
        _, pool = self._made()
        send = partial(_begin, request, body, on_outcome, timeout_ms, accept)
        connection = pool.ready(address)
        if connection is not None:
            send(connection)
        else:
            pool.reach(address, send)

    async def tell(
        self, address: Address, request: Request[Any], body: Buffer = b"", *, timeout_ms: float = CALL_TIMEOUT_MS
    ) -> None:
        """Send a one-way request; return when the connection has queued the request."""
        connection = await self.ready(address, timeout_ms=timeout_ms, size=len(body))
        connection.push(request, body)

    def standing(self, address: Address) -> ConnectionDriver | None:
        """The connection to ``address`` if it is open and its server keeps up with reading; else None. Never waits."""
        _, pool = self._made()
        connection = pool.ready(address)
        return connection if connection is not None and connection.may_send else None

    async def ready(self, address: Address, *, timeout_ms: float = CALL_TIMEOUT_MS, size: int = 0) -> ConnectionDriver:
        """Return a connection to ``address`` that may send ``size`` bytes: backpressure for ``begin``."""
        _, pool = self._made()
        connection = pool.ready(address) or await pool.connect(address, timeout_ms)
        if not connection.may_send:
            await connection.wait_to_send(timeout_ms, size)
        return connection

    async def close(self) -> None:
        """End every connection; calls that still wait get ``ConnectionLost``."""
        endpoint, pool = self._made()
        await pool.close()
        await endpoint.close()

    def _made(self) -> tuple[Endpoint, Pool]:
        # The running loop is known only when the first request is made.
        if self._parts is None:
            endpoint = Endpoint(
                self._limits,
                self._handlers,
                on_connect=self._on_connect,
                on_disconnect=self._on_disconnect,
                sign=self._sign,
                is_server=False,
            )
            self._parts = endpoint, Pool(self._network, endpoint, self._tls)
        return self._parts


def _begin(
    request: Request[A],
    body: Buffer,
    on_outcome: OnOutcome[A],
    timeout_ms: float,
    accept: frozenset[int],
    connected: ConnectionDriver | FireArrowError,
) -> None:
    if isinstance(connected, FireArrowError):
        on_outcome(connected)
        return
    try:
        connected.begin(request, body, on_outcome, timeout_ms=timeout_ms, accept=accept)
    except FireArrowError as error:
        on_outcome(error)

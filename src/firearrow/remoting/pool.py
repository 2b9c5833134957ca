"""Connections to servers, one for each address, opened by the first request that needs one.

Decisions: requests for an address that is being dialled share that attempt. After a failed attempt there is a back-off
(50 ms, doubling up to 500 ms) in which requests for the address fail at once, so that the caller can turn to another
server. A connection that ends is removed, and the next request opens a new one. A connection whose server answered
GO_AWAY takes no further requests, and closes when its last answer has come.

Invariants: every waiter is called exactly once; every dialling task is owned by the pool and gone after ``close``.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from firearrow.errors import ConnectionFailed, FireArrowError, Overloaded
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.endpoint import Endpoint
from firearrow.runtime.network import Address, Network
from firearrow.runtime.tls import connect_tls

FIRST_BACKOFF_S: Final = 0.05
LONGEST_BACKOFF_S: Final = 0.5
_ROUTES_KEPT: Final = 4096

OnConnected = Callable[[ConnectionDriver | FireArrowError], None]


class _Route:
    """The connection to one address, or the state of connecting to it."""

    __slots__ = ("backoff_s", "connection", "dialling", "error", "not_before", "waiters")

    def __init__(self) -> None:
        self.connection: ConnectionDriver | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.waiters: list[OnConnected] = []
        self.backoff_s = 0.0
        self.not_before = 0.0
        self.error = ""

    def is_forgettable(self, now: float) -> bool:
        is_connected = self.connection is not None and self.connection.is_open
        return not is_connected and self.dialling is None and now >= self.not_before


class Pool:
    """The connections of one caller."""

    def __init__(self, network: Network, endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> None:
        self._network = network
        self._tls = tls
        self._endpoint = endpoint
        self._routes: dict[Address, _Route] = {}
        self._is_closed = False

    def ready(self, address: Address) -> ConnectionDriver | None:
        """Return the connection to ``address`` if it is open, else None."""
        route = self._routes.get(address)
        if route is None or route.connection is None:
            return None
        connection = route.connection
        return connection if connection.is_open and not connection.is_leaving else None

    def reach(self, address: Address, on_connected: OnConnected) -> None:
        """Call ``on_connected`` with the connection to ``address``, now or when it is open, or with the error."""
        connection = self.ready(address)
        if connection is not None:
            on_connected(connection)
            return
        route = self._route(address)
        error = self._refusal(address, route)
        if error is not None:
            on_connected(error)
            return
        route.waiters.append(on_connected)
        if route.dialling is None:
            route.dialling = self._endpoint.loop.create_task(self._dial(address, route))

    async def connect(self, address: Address, timeout_ms: float) -> ConnectionDriver:
        """Return the connection to ``address``; raise ``ConnectionFailed`` when it is not open in time."""
        future: asyncio.Future[ConnectionDriver] = self._endpoint.loop.create_future()
        self.reach(address, partial(_settle, future))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await future
        except TimeoutError:
            raise ConnectionFailed(f"cannot connect to {address}: no answer within {timeout_ms:.0f} ms") from None

    def _route(self, address: Address) -> _Route:
        route = self._routes.get(address)
        if route is None:
            if len(self._routes) >= _ROUTES_KEPT:
                now = self._endpoint.loop.time()
                self._routes = {a: r for a, r in self._routes.items() if not r.is_forgettable(now)}
            route = self._routes[address] = _Route()
        return route

    def _refusal(self, address: Address, route: _Route) -> FireArrowError | None:
        if self._is_closed:
            return ConnectionFailed(f"cannot connect to {address}: this caller has been closed")
        if len(route.waiters) >= self._endpoint.limits.max_calls:
            return Overloaded(f"{len(route.waiters)} requests already wait for a connection to {address}")
        wait_s = route.not_before - self._endpoint.loop.time()
        if route.dialling is None and wait_s > 0:
            return ConnectionFailed(f"{route.error} (the next attempt is made in {wait_s * 1000:.0f} ms or later)")
        return None

    async def _dial(self, address: Address, route: _Route) -> None:
        connection = ConnectionDriver(self._endpoint, address)
        outcome: ConnectionDriver | FireArrowError = connection
        try:
            if self._tls is None:
                await self._network.connect(lambda: connection, address)
            else:
                await connect_tls(self._network, lambda: connection, address, self._tls)
            if not connection.is_open:
                raise ConnectionFailed(f"cannot connect to {address}: the connection was closed as soon as it stood")
            route.connection, route.backoff_s = connection, 0.0
        except FireArrowError as error:
            outcome = error
            route.error = str(error)
            route.backoff_s = min(route.backoff_s * 2 or FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
            route.not_before = self._endpoint.loop.time() + route.backoff_s
        except asyncio.CancelledError:
            outcome = ConnectionFailed(f"cannot connect to {address}: this caller has been closed")
            raise
        finally:
            route.dialling = None
            waiters, route.waiters = route.waiters, []
            for waiter in waiters:
                waiter(outcome)

    async def close(self) -> None:
        """Cancel all dialling. Open connections belong to the endpoint, which ends them."""
        self._is_closed = True
        tasks = [route.dialling for route in self._routes.values() if route.dialling is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _settle(future: "asyncio.Future[ConnectionDriver]", outcome: ConnectionDriver | FireArrowError) -> None:
    if future.done():
        return
    if isinstance(outcome, ConnectionDriver):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)

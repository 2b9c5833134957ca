"""A server inside this process that can be ended from any task, in order or by cutting its connections.

A server's block must be entered and left by one task, so each server has a task of its own. ``Cable`` is a network that
remembers its connections: ``pull`` breaks all of them at once and refuses new ones, as if the process had been killed.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar, cast

from firearrow.errors import ConnectionFailed, ListenFailed
from firearrow.runtime.network import Address, Listener, Network, ProtocolFactory, SystemNetwork

T = TypeVar("T")


class ServerTask(Generic[T]):
    """One server: its block, held open by a task."""

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[T]], name: str) -> None:
        self._block = block
        self._name = name
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._task is not None and not self._task.done()

    async def start(self) -> T:
        """Start serving; raise the error if that fails."""
        ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(ready), name=self._name)
        waiting: list[asyncio.Future[Any]] = [ready, self._task]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            task, self._task = self._task, None
            await task
        return ready.result()

    async def _hold(self, ready: "asyncio.Future[T]") -> None:
        async with self._block() as result:
            ready.set_result(result)
            await asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        """Shut the server down in order; raise its error if it failed before."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise


class _TappedProtocol(asyncio.Protocol):
    """A protocol that reports its transport to a cable and passes everything else on."""

    def __init__(self, inner: asyncio.Protocol, cable: "Cable") -> None:
        self._inner = inner
        self._cable = cable
        self.data_received = inner.data_received  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._cable.remember(cast("asyncio.Transport", transport))  # uvloop's does not derive from it
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)


class Cable:
    """A network that can be pulled."""

    def __init__(self, inner: Network | None = None) -> None:
        self._inner = inner or SystemNetwork()
        self._open: set[asyncio.Transport] = set()
        self._listeners: list[Listener] = []
        self._is_pulled = False

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        """Open a connection."""
        if self._is_pulled:
            raise ConnectionFailed(f"cannot connect to {address}: the cable is pulled")
        return await self._inner.connect(lambda: _TappedProtocol(factory(), self), address)

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        """Accept connections."""
        if self._is_pulled:
            raise ListenFailed(f"cannot listen on {address}: the cable is pulled")
        listener = await self._inner.listen(lambda: _TappedProtocol(factory(), self), address)
        self._listeners.append(listener)
        return listener

    def remember(self, transport: asyncio.Transport) -> None:
        """Note a new connection."""
        self._open = {each for each in self._open if not each.is_closing()} | {transport}
        if self._is_pulled:
            transport.abort()

    def pull(self) -> None:
        """Break every connection, and refuse new ones."""
        self._is_pulled = True
        for listener in self._listeners:
            listener.close()
        for transport in self._open:
            transport.abort()

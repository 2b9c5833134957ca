"""The entry to the event loop of one blocking client; the loop runs while the client is open."""

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from firearrow.errors import ClientClosed, PortalClosed
from firearrow.runtime.portal import Portal
from firearrow.runtime.threads import this_thread

T = TypeVar("T")


class Door:
    """A portal that is opened and closed with its client."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._portal: Portal | None = None
        self._handlers: set[int] = set()

    def open(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the thread, and the client in it."""
        if self._portal is not None:
            raise ClientClosed(f"the {self._name} is open already")
        if _in_a_loop():
            warnings.warn(
                f"the {self._name} of firearrow.blocking is opened inside a running event loop, which stands still "
                "during every call; use the same names of firearrow with await there",
                RuntimeWarning,
                stacklevel=4,
            )
        portal = Portal(self._name)
        try:
            portal.call(begin())
        except BaseException:
            portal.close()
            raise
        self._portal = portal

    def close(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close the client and end its thread."""
        if this_thread() in self._handlers or self._is_inside:
            raise ClientClosed(
                f"close was called in a handler of the {self._name}, for which it would wait; "
                "call stop there, and close when run has returned"
            )
        portal, self._portal = self._portal, None
        if portal is None:
            return
        try:
            portal.call(end())
        finally:
            portal.close()

    @property
    def _is_inside(self) -> bool:
        """Whether the caller runs in the loop's own thread, as a coroutine handler or a filter does."""
        return self._portal is not None and self._portal.is_here

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the client and wait for its result."""
        if self._portal is None:
            work.close()
            raise ClientClosed(f"the {self._name} is not open; use it inside a with block")
        try:
            return self._portal.call(work)
        except PortalClosed:
            if self._portal is not None:
                raise
            raise ClientClosed(f"the {self._name} was closed while this call waited") from None

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Return a block in which this thread runs a handler of the client."""
        self._handlers.add(this_thread())
        try:
            yield
        finally:
            self._handlers.discard(this_thread())

    def run(self, function: Callable[[], T]) -> T:
        """Run a plain function of the client on its loop, so that it runs atomically."""
        if self._is_inside:
            return function()

        async def work() -> T:
            return function()

        return self.call(work())


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

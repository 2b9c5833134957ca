"""Errors for a client that is used wrongly: with ``with``, in another loop, after a fork."""

import asyncio
from types import TracebackType
from typing import NoReturn

from firearrow.errors import ClientClosed


class NeedsAwait:
    """A class for ``async with``, which raises a helpful error in a ``with`` statement."""

    def __enter__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"{name} needs `async with` in a coroutine; without one use firearrow.blocking.{name}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Never reached; ``with`` requires the method."""


def check_loop(opened_in: asyncio.AbstractEventLoop, what: str, next_step: str) -> None:
    """Raise ``ClientClosed`` in another event loop than the one that opened a client; do nothing without a loop."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return
    if here is not opened_in:
        raise ClientClosed(f"the {what} was opened in another event loop; {next_step}")

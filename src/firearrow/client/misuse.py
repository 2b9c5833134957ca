"""What is said when a client is used as it cannot be: with ``with``, in another loop, after a fork."""

import asyncio
from types import TracebackType
from typing import NoReturn

from firearrow.errors import ClientClosed


class NeedsAwait:
    """A class for ``async with``; ``with`` is told so."""

    def __enter__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"{name} needs `async with` in a coroutine; without one use firearrow.blocking.{name}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Never reached; ``with`` wants it to be there."""


def check_loop(opened_in: asyncio.AbstractEventLoop, what: str, next_step: str) -> None:
    """Raise ``ClientClosed`` in another event loop than the one that opened a client; where none runs, do nothing."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return
    if here is not opened_in:
        raise ClientClosed(f"the {what} was opened in another event loop; {next_step}")

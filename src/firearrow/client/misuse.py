"""What is said when a client is used as it cannot be: with ``with``, in another loop, after a fork."""

from types import TracebackType
from typing import NoReturn


class NeedsAwait:
    """A class for ``async with``; ``with`` is told so."""

    def __enter__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"{name} needs `async with` in a coroutine; without one use firearrow.blocking.{name}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Never reached; ``with`` wants it to be there."""

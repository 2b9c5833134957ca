"""The application's own filter, ``accept``: it sees every message before a handler does.

A message that ``accept`` rejects is acknowledged and counted, and no handler gets it. If ``accept`` raises, the
delivery has failed as it does when a handler raises: the message is delivered again later, and goes to the dead letters
after the last attempt. A pull consumer delivers nothing again: there ``poll`` or the iteration raises the error, and
the message is first again.

``accept`` is called when a handler is free for the message, so the order of an ordered queue and all limits hold for it
too. A plain function runs on the loop; if it returns an awaitable, that is awaited. Java: ``FilterMessageHook``.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.queue.outlet import Outlet
from firearrow.client.tasks import cancellations, is_cancellation
from firearrow.errors import SettingsError
from firearrow.serializers import V

Accept = Callable[[ReceivedMessage[V]], bool | Awaitable[bool]]
"""Whether a message is wanted: a function, or a coroutine function, from a message to True or False."""


def checked_accept(given: Accept[Any] | None) -> Accept[Any] | None:
    """Raise ``SettingsError`` unless ``given`` is a function."""
    if given is not None and not callable(given):
        raise SettingsError(f"accept={given!r}: give a function from a message to True or False")
    return given


class Acceptance:
    """Hands the messages of an outlet to handlers, without those that ``accept`` rejects."""

    def __init__(self, outlet: Outlet, accept: Accept[Any] | None, *, raises: bool = False) -> None:
        self._outlet = outlet
        self._raises = raises
        self._accept = accept
        self.rejected = 0
        """Messages that ``accept`` rejected."""

    def take_now(self, holder: str) -> ReceivedMessage[Any] | None:
        """Return the next message if there is one now that needs no check."""
        return self._outlet.take_now(holder) if self._accept is None else None

    async def take_one(self, holder: str) -> ReceivedMessage[Any] | None:
        """Return the next accepted message; None once the consumer is closing."""
        while True:
            message = await self._outlet.take_one(holder)
            if message is None or self._accept is None or await self._accepted(self._accept, [message]):
                return message

    async def take(self, holder: str, count: int = 1, *, wait_s: float | None = None) -> list[ReceivedMessage[Any]]:
        """Return the next accepted messages of one queue, at least one; none once the consumer is closing.

        None either if no message came within ``wait_s``; a call of ``accept`` is not cut short by that.
        """
        loop = asyncio.get_running_loop()
        until = None if wait_s is None else loop.time() + wait_s
        while True:
            try:
                async with asyncio.timeout_at(until):
                    taken = await self._outlet.take(holder, count)
            except TimeoutError:
                return []
            accepted = taken if self._accept is None else await self._accepted(self._accept, taken)
            if accepted or not taken or (until is not None and loop.time() >= until):
                return accepted

    async def _accepted(self, accept: Accept[Any], taken: list[ReceivedMessage[Any]]) -> list[ReceivedMessage[Any]]:
        try:
            return [message for message in taken if await self._is_accepted(accept, message)]
        except BaseException:
            for message in reversed(taken):  # each goes before all others of its queue
                message.release()
            raise

    async def _is_accepted(self, accept: Accept[Any], message: ReceivedMessage[Any]) -> bool:
        cancelled = cancellations()
        try:
            answer = accept(message)
            if inspect.isawaitable(answer):
                answer = await answer
        except (Exception, asyncio.CancelledError) as error:
            if self._raises or is_cancellation(error, cancelled):
                raise
            await message._fail(error, "accept")
            return False
        if not answer and not message.is_settled:
            self.rejected += 1
            message._done()
        return bool(answer) and not message.is_settled

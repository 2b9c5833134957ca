"""Calls users' functions: handlers of one message or of batches.

Coroutine functions run on the loop, other handlers in threads; if a handler returns an awaitable, it is awaited on the
loop. Errors of users' functions are logged here.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.tasks import cancellations, is_cancellation
from firearrow.errors import SettingsError
from firearrow.serializers import check_takes_one, is_coroutine_function

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
Handler = Callable[[T], Awaitable[object]] | Callable[[T], object]


class Runner(Protocol):
    """Runs plain functions beside the loop."""

    async def run(self, function: Callable[[], R]) -> R:
        """Call the function and return its result."""
        ...


def as_coroutine(handler: Handler[T], threads: Callable[[], Runner]) -> Callable[[T], Awaitable[object]]:
    """Return a coroutine function that calls the handler; ``threads`` provides the pool for a plain function."""
    _check(handler)
    if is_coroutine_function(handler):
        return cast("Callable[[T], Awaitable[object]]", handler)
    pool = threads()

    async def call(given: T) -> object:
        return await _end_of(handler, await pool.run(partial(handler, given)))

    return call


async def _end_of(handler: object, returned: object) -> object:
    """Await the result of a plain function if it is awaitable: it may wrap a coroutine function."""
    if inspect.isawaitable(returned):
        return await returned
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise SettingsError(
            f"{holder_of(handler)} is a generator, so its code has not run; let it return instead of yield"
        )
    return returned


def _check(handler: object) -> None:
    if not callable(handler):
        raise SettingsError(
            f"a handler is a function that takes what was received; this is {handler!r}: give the function's name alone"
        )
    check_takes_one(handler, holder_of(handler))


def holder_of(handler: object) -> str:
    """Return the name of a handler, or of the iterating task, for reports."""
    if handler is None:
        task = asyncio.current_task()
        return f"task {task.get_name()}" if task is not None else ""
    return f"handler {getattr(handler, '__qualname__', type(handler).__qualname__)}"


async def handle_one(call: Callable[[ReceivedMessage[Any]], Awaitable[object]], message: ReceivedMessage[Any]) -> None:
    """Handle a message as ``message.process()`` does, without creating a block for every message."""
    cancelled = cancellations()
    try:
        await call(message)
    except (Exception, asyncio.CancelledError) as error:
        if is_cancellation(error, cancelled):
            message.release()
            raise
        await message._fail(error)
    except BaseException:
        message.release()
        raise
    else:
        message._done()


async def handle_batch(
    call: Callable[[list[ReceivedMessage[Any]]], Awaitable[object]], messages: list[ReceivedMessage[Any]]
) -> None:
    """Handle messages that succeed or fail together."""
    cancelled = cancellations()
    try:
        await call(messages)
    except (Exception, asyncio.CancelledError) as error:
        if is_cancellation(error, cancelled):
            _release_all(messages)
            raise
        first, reason = messages[0], f"{type(error).__name__}: {error}"
        what = "handling %d messages together failed, the first is %s (%s), %s: %s"
        extra = {**first._log_values, "messages": len(messages), "reason": reason}
        log.exception(what, len(messages), first.message_id, first.place, first._fate, reason, extra=extra)
        await _retry_all(messages)
    except BaseException:
        _release_all(messages)
        raise
    else:
        for message in messages:
            message._done()


async def _retry_all(messages: list[ReceivedMessage[Any]]) -> None:
    try:
        for message in messages:
            await message.retry()
    finally:
        _release_all(messages)  # those that were not reached, because this was cancelled


def _release_all(messages: list[ReceivedMessage[Any]]) -> None:
    for message in messages:
        message.release()

"""Calling what users gave: filters, and handlers with one message or several at a time.

Handlers that are coroutine functions run on the loop, others in threads; what those return is awaited on the loop when
it can be. What users' functions raise is logged here.
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
from firearrow.serializers import V, is_coroutine_function

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
Filter = Callable[[ReceivedMessage[V]], bool]
Handler = Callable[[T], Awaitable[object]] | Callable[[T], object]


class Runner(Protocol):
    """Runs plain functions beside the loop."""

    async def run(self, function: Callable[[], R]) -> R:
        """Call the function and return its result."""
        ...


def as_coroutine(handler: Handler[T], threads: Callable[[], Runner]) -> Callable[[T], Awaitable[object]]:
    """Return something to await; ``threads`` makes what runs a plain function when that is needed."""
    _check(handler)
    if is_coroutine_function(handler):
        return cast("Callable[[T], Awaitable[object]]", handler)
    pool = threads()

    async def call(given: T) -> object:
        return await _end_of(handler, await pool.run(partial(handler, given)))

    return call


async def _end_of(handler: object, returned: object) -> object:
    """What a plain function's result comes to: one that wraps a coroutine function returns what is still to run."""
    if inspect.isawaitable(returned):
        return await returned
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise SettingsError(f"{holder_of(handler)} has a yield, so nothing of it has run; let it return instead")
    return returned


def _check(handler: object) -> None:
    if not callable(handler):
        raise SettingsError(
            f"a handler is a function that takes what was received; this is {handler!r}: give the function's name alone"
        )
    try:
        signature = inspect.signature(handler)
    except ValueError:
        return  # some functions of C do not tell
    try:
        signature.bind(None)
    except TypeError as wrong:
        raise SettingsError(
            f"{holder_of(handler)} cannot be called with one argument: {wrong}; let it take the message"
        ) from None


def holder_of(handler: object) -> str:
    """How a handler, or the task that iterates, is called in reports."""
    if handler is None:
        task = asyncio.current_task()
        return f"task {task.get_name()}" if task is not None else ""
    return f"handler {getattr(handler, '__qualname__', type(handler).__qualname__)}"


def is_wanted(wanted: Filter[Any], message: ReceivedMessage[Any]) -> bool:
    """Ask a filter; what it cannot judge is wanted, so that nothing is skipped."""
    try:
        answer = wanted(message)
        if inspect.isawaitable(answer):
            raise _never_awaited(answer)
    except BaseException as error:  # sys.exit too: no caller of the user waits for a filter
        reason = f"{type(error).__name__}: {error}"
        extra = {**message._told, "reason": reason}
        what = "a filter failed for %s (%s), it is handed out: %s"
        log.exception(what, message.message_id, message.place, reason, extra=extra)
        return True
    return answer


def _never_awaited(answer: object) -> SettingsError:
    if inspect.iscoroutine(answer):
        answer.close()
    return SettingsError("wanted returns something to await; let it return True or False, it is not awaited")


async def handle_one(call: Callable[[ReceivedMessage[Any]], Awaitable[object]], message: ReceivedMessage[Any]) -> None:
    """Handle a message: what ``message.process()`` does, without a block of its own for every message."""
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
        extra = {**first._told, "messages": len(messages), "reason": reason}
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

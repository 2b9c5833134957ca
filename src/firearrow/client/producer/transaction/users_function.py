"""Calls users' functions for transactions: coroutine functions on the loop, plain functions in threads."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from firearrow.errors import SettingsError
from firearrow.runtime.threads import Threads
from firearrow.serializers import check_takes_one, is_coroutine_function


class UsersFunction:
    """A user's function of one argument, plain or a coroutine function."""

    def __init__(self, function: Callable[[Any], object], pool: Threads) -> None:
        self._function = function
        self._pool = pool
        self._is_coroutine_function = is_coroutine_function(function)

    async def __call__(self, given: object) -> object:
        """Call the function and return its result; a plain function that returns an awaitable is awaited."""
        if self._is_coroutine_function:
            returned = self._function(given)
        else:
            returned = await self._pool.run(partial(self._function, given))
        return await returned if inspect.isawaitable(returned) else returned


def check_users_function(function: object, name: str) -> None:
    """Raise ``SettingsError`` unless ``function`` can be called with one argument."""
    if not callable(function):
        raise SettingsError(
            f"{name}={function!r} is not a function; give one that takes the message and returns a state"
        )
    check_takes_one(function, name)


def reason_of(error: BaseException) -> str:
    """Return an error as part of a log line."""
    return f"{type(error).__name__}: {error}"

"""Remembers which rows a consumer has handled, so that it handles a row once although its topic holds it twice.

    rows = HandledRows()
    await consumer.run(rows.absorbing(handle))

A row is a message with an identity: property FIREARROW_ROW_ID, which the Spark sink gives every row. Our broker stores
a row once; Apache's broker stores it again when a task of Spark or a send is repeated. A message without an identity is
known by its message id, which the attempts of one send share.

The memory belongs to the process: rows that were handled before a restart, or by another member of the group, are not
known. A handler whose effect must happen once over restarts keeps the identities with the effect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from firearrow.model import keys

COUNT: Final = 100_000


class DeliveredMessage(Protocol):
    """A message as this module sees it; async and blocking ones are alike."""

    @property
    def message_id(self) -> str:
        """The id that its producer gave the message."""
        ...

    @property
    def topic(self) -> str:
        """The topic of the message; of a retry, that of the first delivery."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the message."""
        ...


Handler = Callable[[Any], Awaitable[None]]


class HandledRows:
    """The last rows that were handled: at least ``count`` of them, at most twice as many."""

    def __init__(self, count: int = COUNT) -> None:
        if count < 1:
            raise ValueError(f"count is {count}; give the number of rows to remember, at least 1")
        self._count = count
        self._young: set[tuple[str, str]] = set()
        self._old: set[tuple[str, str]] = set()
        self._under_way: dict[tuple[str, str], asyncio.Future[bool]] = {}
        self.repeats = 0
        """Number of messages that were not handled because their row was."""

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def is_repeat(self, message: DeliveredMessage) -> bool:
        """Whether the row of a message was handled."""
        name = identity_of(message)
        return name in self._young or name in self._old

    def handled(self, message: DeliveredMessage) -> None:
        """Remember the row of a message. Call it after the effect: a handler that failed has to run again."""
        if not self.is_repeat(message):
            if len(self._young) >= self._count:
                self._old, self._young = self._young, set()
            self._young.add(identity_of(message))

    def absorbing(self, handler: Handler) -> Handler:
        """Return a handler that calls ``handler`` for the first copy of every row.

        A copy that arrives while another one is handled waits, and is handled if that one fails.
        """

        async def handle(message: Any) -> None:  # noqa: ANN401 - the message of any consumer
            name = identity_of(message)
            while not self.is_repeat(message) and name in self._under_way:
                await asyncio.shield(self._under_way[name])
            if self.is_repeat(message):
                self.repeats += 1
                return
            ended = self._under_way[name] = asyncio.get_running_loop().create_future()
            try:
                await handler(message)
                self.handled(message)
            finally:
                del self._under_way[name]
                ended.set_result(True)

        return handle


def identity_of(message: DeliveredMessage) -> tuple[str, str]:
    """Return the topic of a message and the identity of its row, or the message id when it has none."""
    return message.topic, message.properties.get(keys.ROW_ID) or message.message_id

"""Messages that wait a moment for company, so that many sends become one request.

Each waits in a *pocket* with others that may travel with it: one topic, one queue if it is fixed, one sharding key. A
pocket leaves when its oldest message has waited for ``linger_ms``, or when it is full. A message is checked and encoded
before it gets into a pocket, so that one that cannot be sent fails alone. A send ends when the broker has acknowledged
its batch, with the offset and the id of its own message, or with the batch's error: nothing is reported as sent that is
only in memory here. A batch that a broker refuses as illegal is sent again message by message: none of it was stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from firearrow.client.producer.outgoing import Entry, companions
from firearrow.client.producer.result import SendResult
from firearrow.client.tasks import Tasks
from firearrow.errors import ClientClosed, RequestRefused, SendFailed
from firearrow.model import Message
from firearrow.protocol.codes import ResponseCode

MAX_TOGETHER: Final = 1000
FAULTED: Final = frozenset({ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR})
"""How brokers refuse a batch for one of its messages; a body that is too large is a system error to them."""

SendEntries = Callable[[list[Entry]], Awaitable[list[SendResult]]]


class _Pocket:
    """Messages that leave together."""

    def __init__(self, send: SendEntries) -> None:
        self.send = send
        self.entries: list[Entry] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timer: asyncio.TimerHandle | None = None


def may_wait(message: Message) -> bool:
    """Whether a message may travel with others at all."""
    return companions(message) is not None


class Linger:
    """The pockets of one producer."""

    def __init__(self, tasks: Tasks, linger_ms: float, max_bytes: int) -> None:
        self._tasks = tasks
        self._linger_s = linger_ms / 1000
        self._max_bytes = max_bytes
        self._pockets: dict[Hashable, _Pocket] = {}
        self._leaving: dict[asyncio.Future[SendResult], None] = {}

    async def send(self, entry: Entry, companions: Hashable, send: SendEntries) -> SendResult:
        """Send a message together with others of equal ``companions``; return its own result."""
        size = len(entry.encoded)
        pocket = self._pockets.get(companions)
        if pocket is not None and pocket.size + size > self._max_bytes:
            self._leave(companions)
            pocket = None
        if pocket is None:
            pocket = self._pockets[companions] = _Pocket(send)
            pocket.timer = asyncio.get_running_loop().call_later(self._linger_s, self._leave, companions)
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        pocket.entries.append(entry)
        pocket.futures.append(future)
        pocket.size += size
        self._leaving[future] = None
        future.add_done_callback(self._left)
        if len(pocket.entries) >= MAX_TOGETHER:
            self._leave(companions)
        return await future

    def _left(self, future: "asyncio.Future[SendResult]") -> None:
        self._leaving.pop(future, None)

    def _leave(self, companions: Hashable) -> None:
        pocket = self._pockets.pop(companions, None)
        if pocket is None:
            return
        if pocket.timer is not None:
            pocket.timer.cancel()
        self._tasks.spawn(_send(pocket), "batch")

    async def close(self) -> None:
        """Send what waits, and return when all of it has an outcome."""
        for pocket in list(self._pockets):
            self._leave(pocket)
        if self._leaving:
            await asyncio.wait(list(self._leaving))


async def _send(pocket: _Pocket) -> None:
    try:
        results = await pocket.send(pocket.entries)
    except asyncio.CancelledError:
        _fail(pocket, ClientClosed("the producer was closed before the message left"))
        raise
    except SendFailed as error:
        if _is_illegal(error) and len(pocket.entries) > 1:
            await asyncio.gather(*(_send(alone) for alone in _apart(pocket)))
        else:
            _fail(pocket, error)
    except Exception as error:  # noqa: BLE001 - whatever it is, those who wait are told
        _fail(pocket, error)
    else:
        for future, result in zip(pocket.futures, results, strict=True):
            if not future.done():
                future.set_result(result)


def _fail(pocket: _Pocket, error: Exception) -> None:
    for future in pocket.futures:
        if not future.done():
            future.set_exception(error)


def _is_illegal(error: SendFailed) -> bool:
    """Whether a broker found fault with a message of a batch, which it then stored nothing of."""
    cause = error.__cause__
    return isinstance(cause, RequestRefused) and cause.code in FAULTED and not error.may_have_happened


def _apart(pocket: _Pocket) -> list[_Pocket]:
    alone = []
    for entry, future in zip(pocket.entries, pocket.futures, strict=True):
        each = _Pocket(pocket.send)
        each.entries, each.futures = [entry], [future]
        alone.append(each)
    return alone

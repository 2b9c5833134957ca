"""Messages that linger for a moment, so that many sends become one batch.

A message waits in a pending batch with messages of the same topic, the same queue if it is fixed, and the same sharding
key. A batch is sent when its oldest message has waited for ``linger_ms``, or when it is full. A message is checked and
encoded before it joins a batch, so that an invalid message fails alone; one whose send is cancelled before its batch
leaves is not sent. A send ends when the broker has acknowledged its batch, with the offset and id of its own message,
or with the batch's error: no message that is only in memory is reported as sent. A batch that a broker refuses as
illegal is sent again message by message, since none was stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from firearrow.client.producer.outgoing import BatchEntry, companions
from firearrow.client.producer.result import SendResult
from firearrow.client.tasks import Tasks
from firearrow.errors import ConnectionLost, RequestRefused, SendFailed
from firearrow.model import Message
from firearrow.protocol.codes import ResponseCode

MAX_TOGETHER: Final = 1000
FAULTED: Final = frozenset({ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR})
"""Response codes for a batch with an illegal message; brokers report a body that is too large as SYSTEM_ERROR."""

SendEntries = Callable[[list[BatchEntry]], Awaitable[list[SendResult]]]


class _PendingBatch:
    """Messages that will be sent as one batch."""

    def __init__(self, send: SendEntries) -> None:
        self.send = send
        self.entries: list[BatchEntry] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timer: asyncio.TimerHandle | None = None


def may_wait(message: Message) -> bool:
    """Whether a message may be sent in a batch."""
    return companions(message) is not None


class Linger:
    """The pending batches of one producer."""

    def __init__(self, linger_ms: float, max_bytes: int) -> None:
        # Tasks of their own, which a close of the client does not cancel: a batch that is on the wire must learn from
        # its connection whether it may be stored.
        self._tasks = Tasks("producer")
        self._linger_s = linger_ms / 1000
        self._max_bytes = max_bytes
        self._pending: dict[Hashable, _PendingBatch] = {}
        self._leaving: dict[asyncio.Future[SendResult], None] = {}

    async def send(self, entry: BatchEntry, companions: Hashable, send: SendEntries) -> SendResult:
        """Send a message in a batch with messages of equal ``companions``; return its own result."""
        size = len(entry.encoded)
        batch = self._pending.get(companions)
        if batch is not None and batch.size + size > self._max_bytes:
            self._leave(companions)
            batch = None
        if batch is None:
            batch = self._pending[companions] = _PendingBatch(send)
            batch.timer = asyncio.get_running_loop().call_later(self._linger_s, self._leave, companions)
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        batch.entries.append(entry)
        batch.futures.append(future)
        batch.size += size
        self._leaving[future] = None
        future.add_done_callback(self._left)
        if len(batch.entries) >= MAX_TOGETHER:
            self._leave(companions)
        return await future

    def _left(self, future: "asyncio.Future[SendResult]") -> None:
        self._leaving.pop(future, None)

    def _leave(self, companions: Hashable) -> None:
        batch = self._pending.pop(companions, None)
        if batch is None:
            return
        if batch.timer is not None:
            batch.timer.cancel()
        self._tasks.spawn(_send(batch), "batch")

    async def close(self) -> None:
        """Send all pending batches, and return when every message has an outcome."""
        for batch in list(self._pending):
            self._leave(batch)
        await self.ended()

    async def ended(self) -> None:
        """Return when every message has an outcome."""
        if self._leaving:
            await asyncio.wait(list(self._leaving))


async def _send(batch: _PendingBatch) -> None:
    _drop_cancelled(batch)
    if not batch.entries:
        return
    try:
        results = await batch.send(batch.entries)
    except asyncio.CancelledError:
        _fail(batch, ConnectionLost("the event loop ended before the message was acknowledged; it may be stored"))
        raise
    except SendFailed as error:
        if _is_illegal(error) and len(batch.entries) > 1:
            await asyncio.gather(*(_send(alone) for alone in _apart(batch)))
        else:
            _fail(batch, error)
    except Exception as error:  # noqa: BLE001 - every waiting send gets the error
        _fail(batch, error)
    else:
        _settle(batch, results)


def _drop_cancelled(batch: _PendingBatch) -> None:
    """Drop the messages whose sends were cancelled before the batch left."""
    left = [pair for pair in zip(batch.entries, batch.futures, strict=True) if not pair[1].done()]
    batch.entries, batch.futures = [entry for entry, _ in left], [future for _, future in left]


def _settle(batch: _PendingBatch, results: list[SendResult]) -> None:
    for future, result in zip(batch.futures, results, strict=True):
        if not future.done():
            future.set_result(result)


def _fail(batch: _PendingBatch, error: Exception) -> None:
    for future in batch.futures:
        if not future.done():
            future.set_exception(error)


def _is_illegal(error: SendFailed) -> bool:
    """Whether a broker refused a batch because of a message in it, and so stored none of it."""
    cause = error.__cause__
    return isinstance(cause, RequestRefused) and cause.code in FAULTED and not error.may_have_happened


def _apart(batch: _PendingBatch) -> list[_PendingBatch]:
    alone = []
    for entry, future in zip(batch.entries, batch.futures, strict=True):
        each = _PendingBatch(batch.send)
        each.entries, each.futures = [entry], [future]
        alone.append(each)
    return alone

"""Calls an application's listener when queues are assigned and revoked.

    class Cache(RebalanceListener):
        async def on_assigned(self, queues): ...    # before their first message is delivered
        async def on_revoked(self, queues): ...     # after their handlers have ended and their offsets are committed

Calls do not overlap and are limited by ``rebalance_timeout_ms``; a call that fails or takes longer is logged, and the
queues are assigned or revoked nevertheless: a coroutine is cancelled then, a plain function goes on in its thread.
Java: ``MessageQueueListener``.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from firearrow.client.consumer.queue.handler_call import as_coroutine, holder_of
from firearrow.client.tasks import cancellations, is_cancellation
from firearrow.errors import SettingsError
from firearrow.model import MessageQueue
from firearrow.runtime.threads import ThreadPerCall

log: Final = logging.getLogger(__name__)


class RebalanceListener:
    """Called when queues are assigned to a consumer or revoked; override the methods you need.

    A coroutine function runs on the loop, any other function in a thread; if it returns an awaitable, that is awaited.
    The queues are those of ``Consumer.assignment``, including the group's retry queue.
    """

    def on_assigned(self, queues: Sequence[MessageQueue]) -> object:
        """Called when queues are assigned; their first messages are delivered when this returns."""

    def on_revoked(self, queues: Sequence[MessageQueue]) -> object:
        """Called when queues move to other members, or the consumer is closing.

        Their handlers have ended, unless they took longer than ``rebalance_timeout_ms`` (``consume_timeout_ms`` when
        ordered, ``drain_ms`` when closing), and finished messages are committed, unless ``auto_commit`` is off: then
        ``commit`` in this call still works.
        """


def checked_listener(given: object) -> RebalanceListener | None:
    """Raise ``SettingsError`` if the object is not a listener."""
    if given is None or isinstance(given, RebalanceListener):
        return given
    raise SettingsError(f"rebalance_listener={given!r}: give an object whose class is made from RebalanceListener")


class Announcer:
    """Calls a listener, with a limit and without overlap."""

    def __init__(self, listener: RebalanceListener, group: str, timeout_ms: int) -> None:
        self._listener = listener
        self._group = group
        self._timeout_ms = timeout_ms
        self._turn = asyncio.Lock()
        self._threads = ThreadPerCall(f"{group} rebalance")

    async def assigned(self, queues: Sequence[MessageQueue]) -> None:
        """Call ``on_assigned``."""
        if type(self._listener).on_assigned is not RebalanceListener.on_assigned:
            await self._call(self._listener.on_assigned, queues)

    async def revoked(self, queues: Sequence[MessageQueue]) -> None:
        """Call ``on_revoked``."""
        if type(self._listener).on_revoked is not RebalanceListener.on_revoked:
            await self._call(self._listener.on_revoked, queues)

    async def _call(self, method: Callable[[Sequence[MessageQueue]], object], queues: Sequence[MessageQueue]) -> None:
        async with self._turn:
            cancelled = cancellations()
            limit = asyncio.timeout(self._timeout_ms / 1000)
            try:
                async with limit:
                    await as_coroutine(method, lambda: self._threads)(queues)
            except BaseException as error:  # sys.exit too: a listener runs in the client's task, not in the user's
                if is_cancellation(error, cancelled):
                    raise
                late = f"it took longer than rebalance_timeout_ms ({self._timeout_ms})"
                self._say(method, queues, late if limit.expired() else f"{type(error).__name__}: {error}", error)

    def _say(self, method: object, queues: Sequence[MessageQueue], reason: str, error: BaseException) -> None:
        name = holder_of(method).replace("handler", "rebalance listener", 1)
        which = ", ".join(f"{queue.topic} {queue.broker_name}:{queue.queue_id}" for queue in queues)
        extra = {"group": self._group, "queues": which, "reason": reason}
        what = "%s of group %s failed for %s, the queues move nevertheless: %s"
        log.error(what, name, self._group, which, reason, exc_info=error, extra=extra)

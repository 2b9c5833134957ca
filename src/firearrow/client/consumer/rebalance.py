"""Telling an application which queues come and go.

    class Cache(RebalanceListener):
        async def on_assigned(self, queues): ...    # before the first message of them is handed over
        async def on_revoked(self, queues): ...     # after their handlers have ended and their offsets are committed

Calls come one after the other. Each is bounded by ``rebalance_timeout_ms``; one that fails or takes longer is logged,
and the queues come and go all the same: a coroutine is cancelled then, a plain function goes on in its thread.
Java: ``MessageQueueListener``.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from firearrow.client.consumer.handling import as_coroutine, holder_of
from firearrow.client.tasks import cancellations, is_cancellation
from firearrow.errors import SettingsError
from firearrow.model import MessageQueue
from firearrow.runtime.threads import ThreadPerCall

log: Final = logging.getLogger(__name__)


class RebalanceListener:
    """Hears which queues come to a consumer and leave it; override what you need.

    A coroutine function runs on the loop, any other in a thread; what that returns is awaited, if it can be. The
    queues are those of ``Consumer.assignment``, the group's retry queue among them.
    """

    def on_assigned(self, queues: Sequence[MessageQueue]) -> object:
        """These queues are this member's now; their first messages are handed over when this returns."""

    def on_revoked(self, queues: Sequence[MessageQueue]) -> object:
        """These queues go to other members, or the consumer is closing.

        Their handlers have ended, unless they took longer than ``rebalance_timeout_ms`` (``consume_timeout_ms`` when
        ordered, ``drain_ms`` when closing), and what they finished is committed, unless ``auto_commit`` is off: then
        ``commit`` here still counts.
        """


def checked_listener(given: object) -> RebalanceListener | None:
    """Raise ``SettingsError`` for what is no listener."""
    if given is None or isinstance(given, RebalanceListener):
        return given
    raise SettingsError(f"rebalance_listener={given!r}: give an object whose class is made from RebalanceListener")


class Announcer:
    """Calls a listener."""

    def __init__(self, listener: RebalanceListener, group: str, timeout_ms: int) -> None:
        self._listener = listener
        self._group = group
        self._timeout_ms = timeout_ms
        self._turn = asyncio.Lock()
        self._threads = ThreadPerCall(f"{group} rebalance")

    async def assigned(self, queues: Sequence[MessageQueue]) -> None:
        """Tell that queues came."""
        if type(self._listener).on_assigned is not RebalanceListener.on_assigned:
            await self._call(self._listener.on_assigned, queues)

    async def revoked(self, queues: Sequence[MessageQueue]) -> None:
        """Tell that queues go."""
        if type(self._listener).on_revoked is not RebalanceListener.on_revoked:
            await self._call(self._listener.on_revoked, queues)

    async def _call(self, method: Callable[[Sequence[MessageQueue]], object], queues: Sequence[MessageQueue]) -> None:
        async with self._turn:
            cancelled = cancellations()
            limit = asyncio.timeout(self._timeout_ms / 1000)
            try:
                async with limit:
                    await as_coroutine(method, lambda: self._threads)(queues)
            except BaseException as error:  # sys.exit too: no caller of the user waits for a listener
                if is_cancellation(error, cancelled):
                    raise
                late = f"it took longer than rebalance_timeout_ms ({self._timeout_ms})"
                self._say(method, queues, late if limit.expired() else f"{type(error).__name__}: {error}", error)

    def _say(self, method: object, queues: Sequence[MessageQueue], reason: str, error: BaseException) -> None:
        name = holder_of(method).replace("handler", "rebalance listener", 1)
        which = ", ".join(f"{queue.topic} {queue.broker_name}:{queue.queue_id}" for queue in queues)
        extra = {"group": self._group, "queues": which, "reason": reason}
        what = "%s of group %s failed for %s, they come and go all the same: %s"
        log.error(what, name, self._group, which, reason, exc_info=error, extra=extra)

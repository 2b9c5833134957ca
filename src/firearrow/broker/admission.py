"""Whether a send can still be answered in time; one that cannot is refused at once, so that overload stays cheap.

Every connection is read once in a turn of the loop. So what is read now has waited since the last turn read its
connection: at most that turn and this one so far. When both together are longer than ``waitTimeMillsInSendQueue``, the
sender has probably given up or soon will, and storing the message would only make those behind it late as well. A
refusal costs a fraction of a send, and the turn gets shorter. Everything that is not a send is served all the same, and
before the sends of its read, so a busy broker does not look dead.

The inside of a turn is measured with the clock's ticks, since a loop's own time may stand still there. Nothing but this
refusal hangs on them. Java: ``BrokerFastFailure``.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from firearrow.broker.live import LiveSettings
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused

GAP_NS: Final = 5_000_000
"""Turns further apart than this have the loop's rest between them: nobody has waited since the first."""
_NS_PER_MS: Final = 1_000_000


class Admission:
    """Lets sends in, or not."""

    def __init__(self, ticks: Callable[[], int], settings: LiveSettings) -> None:
        self._ticks = ticks
        self._settings = settings
        self._in_turn = False
        self._began = 0
        self._ended = 0
        self._waited_since = 0
        self.refused = 0
        """How many were not let in."""
        self._configure()
        settings.on_change.append(self._configure)

    def _configure(self) -> None:
        broker = self._settings.broker
        self._limit = (
            broker.wait_time_mills_in_send_queue * _NS_PER_MS if broker.broker_fast_failure_enable else 1 << 62
        )

    def is_late(self) -> bool:
        """Whether what is being read may have waited for too long."""
        now = self._ticks()
        if not self._in_turn:
            self._begin_turn(now)
        return now - self._waited_since > self._limit

    def refusal(self) -> Refused:
        """What a late sender is told, in Apache's words."""
        self.refused += 1
        waited_ms = (self._ticks() - self._waited_since) // _NS_PER_MS
        return Refused(
            ResponseCode.SYSTEM_BUSY,
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
            f"period in queue: {waited_ms}ms, size of queue: 0",
        )

    def _begin_turn(self, now: int) -> None:
        self._in_turn = True
        self._waited_since = self._began if now - self._ended < GAP_NS and self._ended else now
        self._began = now
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._in_turn = False
        self._ended = self._ticks()

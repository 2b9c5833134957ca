"""Refusals that are held back, for clients that do not read how long they should wait.

A stock producer tries again at once after a flow-control answer, and gives up after three attempts; a stock consumer
asks again after 20 ms (FLOW_CONTROL) or three seconds (any other error). So the answer itself waits: for as long as the
client should, up to `HOLD_S`, which leaves a producer two more attempts within its three seconds. Then the client's own
next attempt comes at the right time.

The number is bounded. Beyond it refusals leave at once, those of pulls as SYSTEM_BUSY: then a stock consumer waits for
three seconds.
"""

import asyncio
from typing import Final

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Answer, Call, Later

HOLD_S: Final = 1.0
HELD_MAX: Final = 10_000
"""Refusals that are held back at a time; each keeps a few hundred bytes and nothing of the request's body."""


class HeldRefusals:
    """Answers refused requests after a while."""

    def __init__(self, most: int = HELD_MAX) -> None:
        self._most = most
        self.count = 0
        """How many are held back now."""

    def hold(self, refusal: Refused, call: Call, wait_s: float) -> Later:
        """Answer a call after the time that it should wait; raise the refusal when too many are held back."""
        if self.count >= self._most:
            raise Refused(ResponseCode.SYSTEM_BUSY, refusal.remark, refusal.fields)
        self.count += 1
        later = call.hold()
        asyncio.get_running_loop().call_later(min(wait_s, HOLD_S), self._release, later, refusal)
        return later

    def _release(self, later: Later, refusal: Refused) -> None:
        self.count -= 1
        later.answer(Answer(refusal.fields, code=refusal.code, remark=refusal.remark))

"""Requests over a quota that are held back, for clients that do not read how long they should wait.

Stock clients do not obey a flow-control answer: a Java producer tries again at once, three times in all; a Go producer,
and a Java one that sends asynchronously or to a chosen queue, not at all; a Java consumer after 20 ms (FLOW_CONTROL) or
three seconds. So a request of theirs waits here until its quota allows it, up to `HOLD_S`, which leaves a Java producer
two more attempts within its three seconds. Only then is it refused.

Requests of one connection for one queue pass in the order in which they came. The bytes of held requests are bounded,
for a connection and in all; beyond that requests are refused at once, pulls with SYSTEM_BUSY: then a stock consumer
waits three seconds. The bytes also count as in flight, like those of every request whose answer is owed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import OWED_OVERHEAD_BYTES, Answer, Call, Handler, Later

HOLD_S: Final = 1.0
"""The longest that a request is held back."""
HELD_BYTES_MAX: Final = 16 << 20
"""Bytes of all held requests, with the overhead of each."""
SHARE: Final = 4
"""A connection may use the fourth part of `HELD_BYTES_MAX`."""

Key = tuple[object, str | None, int | None]
"""A connection, a topic and a queue: requests with the same key keep their order."""
WaitOf = Callable[[], float]
"""Lets a request pass and returns 0, or returns how long it should wait."""
RefusalOf = Callable[[], Refused]


class HeldRequest(Struct, eq=False):
    """A request that waits for its quota."""

    request: Any
    call: Call
    handler: Handler
    wait_of: WaitOf
    refusal_of: RefusalOf

    @property
    def size(self) -> int:
        """The bytes that it keeps."""
        return len(self.call.asked.header) + len(self.call.asked.body) + OWED_OVERHEAD_BYTES


def order_of(request: Any, peer: object) -> Key:  # noqa: ANN401 - a request of any type
    """Return what the order of a request is kept in."""
    return peer, getattr(request, "topic", None), getattr(request, "queue_id", None)


class _Place(Struct, eq=False):
    held: HeldRequest
    later: Later
    until: float


class HeldRequests:
    """The lines of held requests."""

    def __init__(self, most_bytes: int = HELD_BYTES_MAX) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._bytes_of: dict[object, int] = {}
        self._lines: dict[Key, deque[_Place]] = {}
        self.count = 0
        """The number of requests held back now."""

    def is_behind(self, key: Key) -> bool:
        """Whether an earlier request waits that this one must not overtake."""
        return key in self._lines

    def hold(self, key: Key, held: HeldRequest, wait_s: float) -> Later:
        """Call the handler when the quota allows it; raise the refusal when too many are held back."""
        own, size, most = self._bytes_of.get(key[0], 0), held.size, self._most_bytes
        if own + size > most // SHARE or self._bytes + size > most:
            refusal = held.refusal_of()
            raise Refused(ResponseCode.SYSTEM_BUSY, refusal.remark, refusal.fields)
        loop = asyncio.get_running_loop()
        later = held.call.later()
        self.count += 1
        self._bytes += size
        self._bytes_of[key[0]] = own + size
        line = self._lines.setdefault(key, deque())
        line.append(_Place(held, later, loop.time() + HOLD_S))
        if len(line) == 1:
            loop.call_later(min(wait_s, HOLD_S), self._move, key)
        return later

    def _move(self, key: Key) -> None:
        """Let the first requests of a line pass, as many as quotas allow, and come back for the next."""
        loop, line = asyncio.get_running_loop(), self._lines.get(key)
        if line is None:
            return  # let go meanwhile
        while line:
            place = line[0]
            if place.later.is_owed:
                left_s, wait_s = place.until - loop.time(), place.held.wait_of()
                if wait_s and left_s > 0:
                    loop.call_later(min(wait_s, left_s), self._move, key)
                    return
                _end(place, is_refused=wait_s > 0)
            line.popleft()
            self._forget(key[0], place.held.size)
        del self._lines[key]

    def let_go(self) -> None:
        """Let all held requests pass: the limits have changed."""
        lines, self._lines = self._lines, {}
        for key, line in lines.items():
            for place in line:
                self._forget(key[0], place.held.size)
                if place.later.is_owed:
                    _end(place, is_refused=False)

    def _forget(self, peer: object, size: int) -> None:
        self.count -= 1
        self._bytes -= size
        self._bytes_of[peer] -= size
        if not self._bytes_of[peer]:
            del self._bytes_of[peer]


def _end(place: _Place, *, is_refused: bool) -> None:
    held, later = place.held, place.later
    if is_refused:
        refusal = held.refusal_of()
        later.answer(Answer(refusal.fields, code=refusal.code, remark=refusal.remark))
        return
    try:
        answer = held.handler(held.request, held.call)
    except Exception as error:  # noqa: BLE001 - what `Connection` does with the exceptions of handlers
        later.fail(error)
        return
    if not isinstance(answer, Later):
        later.answer(answer)

"""Lanes, by which ``firearrow produce`` keeps the order of sharding keys at full speed.

Messages without a sharding key are sent concurrently. Messages of one sharding key form a lane: a lane has one request
in flight, and messages that arrive meanwhile are sent in the next request, as a batch. So lanes run concurrently, and
each lane keeps its order. With ``batch``, messages without a sharding key are sent so many at a time, in one request.

The first failure ends the command; a lane that failed sends nothing more.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from firearrow.model import keys

if TYPE_CHECKING:
    from firearrow.client import Message, Producer, SendResult

AT_ONCE: Final = 256
"""Most messages without a sharding key in flight at once."""

AT_ONCE_IN_LANES: Final = 8192
"""Most unacknowledged messages in lanes."""

BATCH: Final = 256
"""Most messages of a lane in one send."""

Report = Callable[[Sequence["SendResult"]], None]


class SendLanes:
    """Sends messages as they are read, and calls ``report`` for acknowledged ones."""

    def __init__(self, producer: "Producer", sends: asyncio.TaskGroup, report: Report, batch: int = 1) -> None:
        self._producer = producer
        self._sends = sends
        self._report = report
        self._lanes: dict[str, deque[Message]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._places_in_lanes = asyncio.Semaphore(AT_ONCE_IN_LANES)
        self._batch = batch
        self._together: list[Message] = []

    async def put(self, message: "Message") -> None:
        """Send a message; wait while too many are in flight."""
        key = message.properties.get(keys.SHARDING_KEY)
        if not key and self._batch > 1:
            self._together.append(message)
            if len(self._together) >= self._batch:
                await self.end()
            return
        if not key:
            await self._places.acquire()
            self._sends.create_task(self._send(message))
            return
        await self._places_in_lanes.acquire()
        lane = self._lanes.get(key)
        if lane is None:
            self._lanes[key] = lane = deque()
            self._sends.create_task(self._send_lane(key, lane))
        lane.append(message)

    async def end(self) -> None:
        """Send what waits for a batch to be full."""
        if self._together:
            batch, self._together = self._together, []
            await self._places.acquire()
            self._sends.create_task(self._send_together(batch))

    async def _send_together(self, batch: list["Message"]) -> None:
        try:
            results = await self._producer.send_batch(batch)
        finally:
            self._places.release()
        self._report(results)

    async def _send(self, message: "Message") -> None:
        try:
            result = await self._producer.send(message)
        finally:
            self._places.release()
        self._report([result])

    async def _send_lane(self, key: str, lane: deque["Message"]) -> None:
        while lane:
            batch = [lane.popleft() for _ in range(min(BATCH, len(lane)))]
            results = await self._producer.send_batch(batch)
            for _ in batch:
                self._places_in_lanes.release()
            self._report(results)
        del self._lanes[key]

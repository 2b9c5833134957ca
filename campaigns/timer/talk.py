"""Sends timed messages to one broker, Apache's or ours, and reads what it has delivered."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from firearrow.errors import RequestRefused
from firearrow.model import StoredMessage, keys
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import SendAnswer, SendMessageV2
from firearrow.record.decode import decode_all
from firearrow.record.properties import format_properties
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, SystemNetwork

IN_FLIGHT: Final = 64
TIMEOUT_MS: Final = 30_000
GROUP: Final = "timers"
POLL_S: Final = 0.2
_PULL_ENDS: Final = frozenset({0, int(ResponseCode.PULL_NOT_FOUND), int(ResponseCode.PULL_OFFSET_MOVED)})


class Timer(NamedTuple):
    """A message and the time that it is sent for."""

    number: int
    due_ms: int

    @property
    def body(self) -> bytes:
        """The body, which names the message."""
        return b"%d" % self.number

    @property
    def unique_key(self) -> str:
        """The unique key."""
        return f"TIMER{self.number:027d}"


def now_ms() -> int:
    """The wall clock of this machine."""
    return int(time.time() * 1000)


class TimerTalk:
    """A conversation with one broker about one topic of one queue."""

    def __init__(self, caller: Caller, address: str, topic: str) -> None:
        self.caller = caller
        self.address = Address.parse(address)
        self.topic = topic

    async def send(self, timer: Timer, **more: str) -> SendAnswer:
        """Send one message for its time."""
        properties = {keys.UNIQ_KEY: timer.unique_key, keys.TIMER_DELIVER_MS: str(timer.due_ms), **more}
        request = SendMessageV2(
            producer_group=GROUP,
            topic=self.topic,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=now_ms(),
            flag=0,
            properties=format_properties(properties),
            reconsume_times=0,
            unit_mode=False,
        )
        while True:
            try:
                reply = await self.caller.call(self.address, request, timer.body, timeout_ms=TIMEOUT_MS)
            except RequestRefused as refused:
                if refused.code != ResponseCode.SYSTEM_BUSY:
                    raise
                await asyncio.sleep(POLL_S)  # the broker sheds load: it has not stored the message
            else:
                answer: SendAnswer = reply.answer
                return answer

    async def send_all(self, timers: Iterable[Timer]) -> None:
        """Send messages, many at once; every one is acknowledged."""
        waiting = iter(timers)

        async def some() -> None:
            for timer in waiting:
                await self.send(timer)

        await asyncio.gather(*(some() for _ in range(IN_FLIGHT)))

    async def end(self) -> int:
        """The end of the queue."""
        reply = await self.caller.call(self.address, GetMaxOffset(topic=self.topic, queue_id=0), timeout_ms=TIMEOUT_MS)
        return int(reply.answer.offset)

    async def holds(self, count: int, within_s: float) -> None:
        """Wait until the queue has so many messages."""
        until = time.monotonic() + within_s
        while (end := await self.end()) < count:
            assert time.monotonic() < until, f"{end} of {count} messages within {within_s:.0f} s"
            await asyncio.sleep(POLL_S)

    async def has_all(self, timers: Collection[Timer], within_s: float) -> None:
        """Wait until every message has come; some may have come twice."""
        until, missing = time.monotonic() + within_s, {timer.body for timer in timers}
        while missing and time.monotonic() < until:
            await self.holds(len(timers), max(until - time.monotonic(), 0))
            missing -= {message.body for message in await self.delivered()}
            await asyncio.sleep(POLL_S if missing else 0)

    async def delivered(self) -> list[StoredMessage]:
        """Every message of the queue."""
        found: list[StoredMessage] = []
        offset, end = 0, await self.end()
        while offset < end:
            request = PullMessage(
                consumer_group=GROUP,
                topic=self.topic,
                queue_id=0,
                queue_offset=offset,
                max_msg_nums=1000,
                sys_flag=4,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=0,
            )
            reply = await self.caller.call(self.address, request, timeout_ms=TIMEOUT_MS, accept=_PULL_ENDS)
            found += decode_all(reply.body)
            offset = reply.answer.next_begin_offset
        return found


@asynccontextmanager
async def talking(address: str, topic: str) -> AsyncIterator[TimerTalk]:
    """A conversation with a broker."""
    caller = Caller(SystemNetwork())
    try:
        yield TimerTalk(caller, address, topic)
    finally:
        await caller.close()

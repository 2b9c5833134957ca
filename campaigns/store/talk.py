"""Puts the messages of a plan into Apache's broker and gets everything out of it again, over our own remoting.

Many requests are under way at once, so which message gets which offset is for the broker to say: `send` returns the
places that it acknowledged. A broker that dies in the middle ends `send` with what it had acknowledged by then.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final

from campaigns.store.places import Place
from campaigns.store.plan import DELAY_LEVELS, QUEUES, Planned, Step, step, topic_names
from firearrow.errors import FireArrowError
from firearrow.model import Message, keys
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.query import QueryMessage, ViewMessageById
from firearrow.protocol.requests.message.send import SendBatchMessage, SendMessageV2
from firearrow.record.batch import encode_batch
from firearrow.record.decode import heads
from firearrow.record.message_id import parse_offset_message_id
from firearrow.record.properties import format_properties
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, SystemNetwork

IN_FLIGHT: Final = 24
BORN_MS: Final = 1_700_000_000_000
GROUP: Final = "storecheck"
TIMEOUT_MS: Final = 30_000
PULLED_AT_ONCE: Final = 1000
POLL_SECONDS: Final = 0.1
_PULL_ENDS: Final = frozenset({0, int(ResponseCode.PULL_NOT_FOUND), int(ResponseCode.PULL_OFFSET_MOVED)})

SETTINGS: Final = {
    "mappedFileSizeCommitLog": str(8 << 20),
    "messageDelayLevel": DELAY_LEVELS,
    "maxTransferCountOnMessageInMemory": str(PULLED_AT_ONCE),
    "maxTransferCountOnMessageInDisk": str(PULLED_AT_ONCE),
    "maxTransferBytesOnMessageInMemory": str(4 << 20),
    "maxTransferBytesOnMessageInDisk": str(4 << 20),
    # Several index files.
    "maxIndexNum": "10000",
}
"""Settings of Apache's broker in these tests."""


class Talk:
    """A conversation with one broker."""

    def __init__(self, caller: Caller, address: str) -> None:
        self._caller = caller
        self._address = Address.parse(address)

    # ---- putting in

    async def send(
        self, numbers: Iterable[range], acknowledged: Callable[[int], object] = lambda _: None
    ) -> dict[int, Place]:
        """Send steps; the places of the messages that were acknowledged. ``acknowledged`` hears how many there are."""
        waiting = iter(numbers)
        places: dict[int, Place] = {}

        async def work() -> None:
            for one in waiting:
                try:
                    places.update(await self._send_step(step(one)))
                except FireArrowError:
                    return
                acknowledged(len(places))

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return places

    async def _send_step(self, some: Step) -> Iterator[tuple[int, Place]]:
        first = some.messages[0]
        kind = SendBatchMessage if some.is_batch else SendMessageV2
        properties = "" if some.is_batch else format_properties(first.properties)
        request = _request(kind, first.topic, first.queue_id, properties, first.sys_flag, first.number)
        body = encode_batch(map(_message, some.messages)) if some.is_batch else first.body
        answer = (await self._caller.call(self._address, request, body, timeout_ms=TIMEOUT_MS)).answer
        ids = answer.msg_id.split(",")
        return (
            (message.number, Place(parse_offset_message_id(each)[1], answer.queue_offset + index))
            for index, (message, each) in enumerate(zip(some.messages, ids, strict=True))
        )

    async def send_timed(self, topic: str, count: int) -> int:
        """Send messages to queue 0 that are due in a second by the clock of 5.x, not by a level; how many."""
        for number in range(count):
            properties = {keys.UNIQ_KEY: f"timed-{number}", keys.TIMER_DELAY_SEC: "1"}
            await self._caller.call(
                self._address, _request(SendMessageV2, topic, 0, format_properties(properties), 0), b"timed"
            )
        return count

    # ---- getting out

    async def pull_all(self, topic: str, queue_id: int) -> list[bytes]:
        """The records of a queue, from its first to its last."""
        offset = 0
        records: list[bytes] = []
        while True:
            request = PullMessage(
                consumer_group=GROUP,
                topic=topic,
                queue_id=queue_id,
                queue_offset=offset,
                max_msg_nums=PULLED_AT_ONCE,
                sys_flag=4,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=0,
                expression_type="TAG",
            )
            reply = await self._caller.call(self._address, request, timeout_ms=TIMEOUT_MS, accept=_PULL_ENDS)
            if reply.code == ResponseCode.PULL_NOT_FOUND:
                return records
            if reply.code == 0:
                records += [reply.body[head.start : head.end] for head in heads(reply.body)]
            offset = reply.answer.next_begin_offset

    async def pull_plan(self) -> list[bytes]:
        """The records of all queues of the plan."""
        queues = [(topic, queue_id) for topic in topic_names() for queue_id in range(QUEUES)]
        return [record for queue in queues for record in await self.pull_all(*queue)]

    async def max_offset(self, topic: str, queue_id: int) -> int:
        """The end of a queue."""
        request = GetMaxOffset(topic=topic, queue_id=queue_id)
        return (await self._caller.call(self._address, request, timeout_ms=TIMEOUT_MS)).answer.offset

    async def holds(self, count: int, timeout_seconds: float) -> None:
        """Wait until the queues of the plan hold so many messages: what was delayed has come."""
        queues = [(topic, queue_id) for topic in topic_names() for queue_id in range(QUEUES)]
        found = 0
        try:
            async with asyncio.timeout(timeout_seconds):
                while found < count:
                    await asyncio.sleep(POLL_SECONDS)
                    found = sum(await asyncio.gather(*(self.max_offset(*queue) for queue in queues)))
        except TimeoutError:
            raise TimeoutError(f"{found} messages of {count} came within {timeout_seconds} s") from None
        assert found == count, f"there are {found} messages instead of {count}"

    async def by_id(self, physical: int) -> bytes:
        """The record at a place."""
        return (await self._caller.call(self._address, ViewMessageById(offset=physical), timeout_ms=TIMEOUT_MS)).body

    async def by_key(self, topic: str, key: str) -> list[bytes]:
        """The records with a key."""
        request = QueryMessage(topic=topic, key=key, max_num=64, begin_timestamp=0, end_timestamp=1 << 62)
        body = (await self._caller.call(self._address, request, timeout_ms=TIMEOUT_MS)).body
        return [body[head.start : head.end] for head in heads(body)]


def _request(
    kind: type[SendBatchMessage | SendMessageV2],
    topic: str,
    queue_id: int,
    properties: str,
    sys_flag: int,
    number: int = 0,
) -> SendBatchMessage | SendMessageV2:
    return kind(
        producer_group=GROUP,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=BORN_MS + number,
        flag=number % 7,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        max_reconsume_times=0,
        batch=kind is SendBatchMessage,
    )


def _message(planned: Planned) -> Message:
    return Message(planned.topic, planned.body, planned.properties, planned.number % 7)


@asynccontextmanager
async def talking_to(address: str) -> AsyncIterator[Talk]:
    """A conversation with the broker at an address."""
    caller = Caller(SystemNetwork())
    try:
        yield Talk(caller, address)
    finally:
        await caller.close()

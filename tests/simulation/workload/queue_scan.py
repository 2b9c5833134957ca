"""Reading a queue from end to end, and what a message proves by being read."""

import asyncio
from typing import Final

from firearrow.model.message import StoredMessage
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.record.decode import decode_all
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from tests.simulation.invariants.history import Place, Read, key_of

PULLED: Final = frozenset({0, 19, 20, 21})
COMMIT: Final = 1
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4


def read_of(broker: str, message: StoredMessage) -> Read:
    """Return the read that a message proves."""
    origin = message.properties.get("RETRY_TOPIC") or message.topic
    return Read(
        key_of(message.body),
        Place(broker, message.topic, message.queue_id, message.queue_offset),
        message.physical_offset,
        message.store_timestamp,
        message.reconsume_times,
        origin,
        asyncio.get_running_loop().time(),
        message.properties.get("KEYS", ""),
        message.tag,
    )


async def read_queue(caller: Caller, broker: str, address: Address, topic: str, queue_id: int) -> list[Read]:
    """Everything in one queue, from its first message to its last."""
    found: list[Read] = []
    offset = 0
    while True:
        request = PullMessage(
            consumer_group="TOOLS_CONSUMER",
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        reply = await caller.call(address, request, timeout_ms=10_000, accept=PULLED)
        found += [read_of(broker, message) for message in decode_all(reply.body)]
        if reply.code == ResponseCode.PULL_NOT_FOUND:
            return found
        offset = reply.answer.next_begin_offset

"""A group's progress is what it said last, however its requests arrive."""

import asyncio

import pytest

from firearrow import Message, Producer
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.testing import Cluster

pytestmark = pytest.mark.real
COMMITS = 0x1
SUBSCRIBES = 0x4


def test_a_commit_does_not_overtake_the_pull_before_it() -> None:
    async def scenario() -> int:
        async with Cluster() as cluster, Producer(cluster.address) as producer:
            await cluster.create_topic("orders", queues=1)
            for _ in range(7):
                await producer.send(Message.of("orders", b"x"))
            caller, broker = Caller(SystemNetwork()), Address.parse(cluster.broker_address())
            query = QueryConsumerOffset(consumer_group="G", topic="orders", queue_id=0, set_zero_if_not_found=True)
            await caller.call(broker, query)  # connected now: what follows leaves in one write
            pull = PullMessage(
                consumer_group="G",
                topic="orders",
                queue_id=0,
                queue_offset=0,
                max_msg_nums=32,
                sys_flag=COMMITS | SUBSCRIBES,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=0,
                expression_type="TAG",
            )
            commit = UpdateConsumerOffset(consumer_group="G", topic="orders", queue_id=0, commit_offset=7)
            await asyncio.gather(caller.call(broker, pull), caller.call(broker, commit))
            reply = await caller.call(broker, query)
            await caller.close()
            return reply.answer.offset

    assert asyncio.run(scenario()) == 7

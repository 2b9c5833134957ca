"""A broker whose log owes a cut: after the start, log, queues, offsets and history end at the cut, for good."""

import asyncio

from firearrow.fastjson import decode
from firearrow.protocol.bodies.replication.replication import EpochEntryCache
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache
from firearrow.store.epochs.epoch_file import EpochFile
from firearrow.store.epochs.owed_cut import OwedCut
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, simulate


async def offset_of(client: Client) -> int:
    found = await client.ask(QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0))
    return int(found.answer.offset)


def test_offsets_ahead_of_the_cut_are_lowered_and_new_messages_are_read() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}')
        for number in range(10):
            await client.send("T", b"%d" % number)
        cut = (await client.stored("T"))[6].physical_offset
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=9))
        await asyncio.sleep(20)
        await broker.node.stop()
        disk = broker.node.disk
        history = await EpochFile.load(disk)
        await history.begin(1, 0)
        await history.begin(2, cut - 1)
        await history.begin(4, cut + 5)
        await (await OwedCut.load(disk)).owe(cut)

        await broker.start()
        assert [message.body for message in await client.stored("T")] == [b"%d" % number for number in range(6)]
        assert await offset_of(client) == 6
        for number in range(10):
            await client.send("T", b"new %d" % number)
        cache = decode((await client.ask(GetBrokerEpochCache())).body, EpochEntryCache)
        assert [(one.epoch, one.start_offset) for one in cache.epoch_list or ()] == [(1, 0), (2, cut - 1)]
        assert cache.max_offset > cut

        await broker.node.crash()
        await broker.start()
        assert await offset_of(client) == 6

    simulate(scenario)

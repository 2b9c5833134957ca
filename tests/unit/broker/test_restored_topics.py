"""A new master has every topic that has messages in its log, whether it has heard of the topic or not."""

import pytest

from firearrow.errors import RequestRefused
from firearrow.protocol.requests.admin.topic import GetTopicConfig
from firearrow.store.epochs.epoch_file import EpochFile
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, simulate


@pytest.mark.parametrize("in_group", [False, True])
def test_a_topic_with_messages_is_made_again_in_a_group(in_group: bool) -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        for queue_id in (0, 3):
            await client.send("young", b"hello", queue_id=queue_id)
        await broker.node.stop()
        disk = broker.node.disk
        for name in await disk.list("config"):
            if name.startswith("topics.json"):
                await disk.unlink(f"config/{name}")
        if in_group:
            await (await EpochFile.load(disk)).begin(1, 0)
        await broker.start()
        if not in_group:
            with pytest.raises(RequestRefused):
                await client.ask(GetTopicConfig(topic="young"))
            return
        await client.ask(GetTopicConfig(topic="young"))
        assert [one.body for one in await client.stored("young", queue_id=3)] == [b"hello"]

    simulate(scenario)

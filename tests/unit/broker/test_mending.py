"""Rot in the log of one broker is mended with the bytes of another broker of its group."""

from contextlib import suppress

import pytest

from firearrow.errors import ConnectionLost
from firearrow.testing.sim.world import World
from tests.unit.broker.test_replication import SEGMENT, Group, eventually, files, run


@pytest.mark.parametrize("rotten", ["master", "slave"])
@pytest.mark.parametrize("seed", [1, 2])
def test_rot_in_one_log_is_mended_from_the_other(rotten: str, seed: int) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.send(120)
        await group.copied()
        whole = await files(group.master.node)
        broker = getattr(group, rotten)
        stored = (await group.client.stored("T", queue_id=1))[3:5]
        for message in stored:
            name = message.physical_offset - message.physical_offset % SEGMENT
            broker.node.image.file(f"commitlog/{name:020d}").rot(message.physical_offset % SEGMENT + 90, 2)
        assert await files(broker.node) != whole

        async def differs() -> int:
            return int(await files(broker.node) != whole)

        await eventually(differs, 0)
        assert await broker.node.disk.list("quarantine"), "the bad bytes are kept"
        await broker.node.crash()
        await broker.start()
        assert await files(broker.node) == whole
        client = group.client if rotten == "master" else group.reader
        with suppress(ConnectionLost):  # the broker was started anew since the last question
            await client.stored("T", queue_id=1)
        assert [one.body for one in (await client.stored("T", queue_id=1))[3:5]] == [one.body for one in stored]

    run(scenario, seed)


def test_rot_without_another_copy_stays_and_is_skipped() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.send(40)
        message = (await group.client.stored("T", queue_id=1))[3]
        name = message.physical_offset - message.physical_offset % SEGMENT
        group.master.node.image.file(f"commitlog/{name:020d}").rot(message.physical_offset % SEGMENT + 90, 2)

        async def kept() -> int:
            disk = group.master.node.disk
            return len(await disk.list("quarantine")) if disk.exists("quarantine") else 0

        await eventually(kept, 1)
        assert message.body not in [one.body for one in await group.client.stored("T", queue_id=1)]

    run(scenario)

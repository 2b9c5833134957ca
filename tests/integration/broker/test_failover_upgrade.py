"""A group that elects its master is restarted broker by broker under load, and loses the majority of its etcd."""

import asyncio

import pytest

from judges.server_process import wait_for
from tests.integration.broker.replicas import Group, Senders, stored

SHORT_LEASE_S = 3
STEPS_DOWN = "the coordinator does not answer, and not every replica in sync reports"

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


async def in_sync(group: Group) -> None:
    await asyncio.to_thread(group.until, lambda state: state.iss == (1, 2, 3), "three in sync")


def test_a_group_is_upgraded_without_a_failed_send() -> None:
    async def story(group: Group) -> None:
        async with Senders(group.names.address) as senders:
            state = await group.now()
            slaves = [number for number in state.iss if number != state.master]
            for number in (*slaves, state.master):
                await asyncio.to_thread(group.brokers[number].stop)
                await senders.more(50)
                group.brokers[number].start(wait=False)
                await in_sync(group)
            after = await group.now()
            assert after.master != state.master
            said = f"leaves: epoch {after.epoch}, master {after.master}"
            assert said in group.brokers[state.master].log.read_text(), "the master did not hand over"
            await senders.more(50)
        assert senders.failed == []
        found = await stored(group.names.address)
        assert [body for body in senders.acked if body not in found] == []
        print(f"{len(senders.acked)} sends, longest wait {senders.gap_s:.2f} s, twice {found.total() - len(found)}")

    with Group() as group:
        asyncio.run(story(group))


def test_without_a_majority_of_etcd_sends_go_on_until_a_replica_is_away() -> None:
    async def story(group: Group) -> None:
        async with Senders(group.names.address, producers=1, timeout_ms=1_000) as senders:
            before = await group.now()
            for machine in group.etcd.machines[:2]:
                await asyncio.to_thread(machine.kill)
            await asyncio.sleep(2 * SHORT_LEASE_S)  # no condition tells that nothing happens
            await senders.more(50)
            assert await group.etcd_is_silent()
            slave = next(number for number in before.iss if number != before.master)
            await asyncio.to_thread(group.brokers[slave].kill)
            log = group.brokers[before.master].log
            await asyncio.to_thread(wait_for, lambda: STEPS_DOWN in log.read_text(), "the master to step down", 120)
            acked = len(senders.acked)
            assert await group.etcd_is_silent()
            assert len(senders.acked) == acked, "somebody leads without the coordinator"
            for machine in group.etcd.machines[:2]:
                await asyncio.to_thread(machine.start)
            await senders.more(50)
            group.brokers[slave].start(wait=False)
            await in_sync(group)
        found = await stored(group.names.address)
        assert [body for body in senders.acked if body not in found] == []

    with Group(settings={"coordinatorLeaseSeconds": str(SHORT_LEASE_S)}) as group:
        asyncio.run(story(group))

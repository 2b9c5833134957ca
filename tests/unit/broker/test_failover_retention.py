"""Retention in an elected group: a replica deletes no file that its master has, so a failover loses nothing pending."""

import asyncio

import pytest

from campaigns.samples import a_topic
from firearrow.runtime.network import Address
from firearrow.store.retention import Retention
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import Group
from tests.unit.broker.whole import PORT, Client, Names

TIMED = 120
DUE_MS = 240_000
TOPIC = a_topic("D")


def delivered_after_a_failover() -> int:
    """Fill equal disks with timed messages, lose the master, and return how many messages come when they are due."""

    async def main(world: World) -> int:
        names = await Names(world.node("names")).start()
        group = Group(world, names, CoordinatorFaults(), sync=True)
        group.start()
        first = (await group.until_in_sync(3)).master
        await group.send_until(1)
        nodes = {number: member.node for number, member in group.members.items()}
        operator = world.node("operator")
        clients = {number: Client(operator, Address(node.host, PORT)) for number, node in nodes.items()}
        await clients[first].ask(TOPIC)
        due = nodes[first].clock.now_ms() + DUE_MS
        for number in range(TIMED):
            properties = f"UNIQ_KEY\x01{number:032d}\x02TIMER_DELIVER_MS\x01{due}\x02"
            assert (await clients[first].send("D", b"%d:" % number + bytes(8000), properties=properties)).code == 0
        await asyncio.sleep(10)
        for node in nodes.values():
            node.image.capacity_bytes = int(node.image.used_bytes / 0.87)
        await asyncio.sleep(60)
        assert len((await group.until_in_sync(3)).iss) == 3
        await nodes[first].crash()
        while (state := group.state) is None or state.master == first:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.1)
        for node in nodes.values():
            node.image.capacity_bytes *= 4
        await asyncio.sleep(DUE_MS / 1000)
        found: set[bytes] = set()
        at = 0
        while page := list(await clients[state.master].stored("D", 0, at)):
            found |= {message.body.partition(b":")[0] for message in page}
            at = page[-1].queue_offset + 1
        return len(found)

    return World(1).run(main)


def test_a_failover_loses_no_timed_message_of_a_full_disk() -> None:
    assert delivered_after_a_failover() == TIMED


def test_replicas_that_delete_by_themselves_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retention, "_gone_at_master", lambda _self, decision, _usage: decision)
    assert delivered_after_a_failover() < TIMED

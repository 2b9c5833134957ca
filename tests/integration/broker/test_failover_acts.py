"""Operators' acts on a group that elects its master, by the commands: real brokers and three machines of etcd."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from campaigns.failover.group import NAME
from judges.server_process import wait_for
from tests.integration.broker.replicas import EtcdMachines, Group, Senders, stored

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


async def load(group: Group, messages: int = 100) -> list[str]:
    """Send messages; return what was acknowledged."""
    async with Senders(group.names.address) as senders:
        await senders.more(messages)
    return senders.acked


async def lost(group: Group, acked: list[str]) -> list[str]:
    found = await stored(group.names.address)
    return [body for body in acked if body not in found]


def test_a_replica_is_added_and_another_one_replaced() -> None:
    with Group() as group:
        acked = asyncio.run(load(group))
        group.add(4)
        assert "in sync [1, 2, 3, 4]" in group.done("wait", "--replica", "4")
        state = group.state
        assert state is not None
        slave = next(number for number in (1, 2, 3) if number != state.master)
        group.brokers[slave].kill()
        group.until(lambda state: slave not in state.iss, "the set without the dead replica")
        group.replace(slave)
        group.done("wait", "--replica", str(slave))
        refusal = group.command("hand-over", "--replica", "9")
        assert (refusal.exit_code, "cannot take over: in sync are [1, 2, 3, 4]" in refusal.output) == (1, True)
        refusal = group.command("elect", "--replica", "9", "--yes")
        assert (refusal.exit_code, "never had a replica 9: it has had [1, 2, 3, 4]" in refusal.output) == (1, True)
        group.done("hand-over", "--replica", "4")
        group.until(lambda state: state.master == 4, "the new replica as master")
        acked += asyncio.run(load(group))
        shown = group.done("show")
        assert '"master":4' in shown
        assert f"replica {slave} at {group.brokers[slave].address}: its log ends at " in shown
        group.done("hand-over", "--replica", str(slave))
        group.until(lambda state: state.master == slave, "the replaced replica as master")
        acked += asyncio.run(load(group))
        assert asyncio.run(lost(group, acked)) == []
        assert [json.loads(line)["act"] for line in group.done("acts").splitlines()] == ["hand over", "hand over"]


def test_a_replica_is_elected_against_the_rules() -> None:
    with Group() as group:
        acked = asyncio.run(load(group))
        state = group.state
        assert state is not None
        behind, other = (number for number in state.iss if number != state.master)
        group.brokers[behind].stop()
        later = asyncio.run(load(group))
        group.brokers[behind].start(wait=False)
        group.done("wait", "--replica", str(behind))
        group.brokers[behind].stop()
        only = asyncio.run(load(group))
        for number in (state.master, other):
            group.brokers[number].kill()
        group.brokers[behind].start(wait=False)
        refusal = group.command("elect", "--replica", str(behind), answer="n\n")
        assert refusal.exit_code == 1
        assert f"replica {state.master} is in sync and does not answer: what only it has is lost" in refusal.output
        after = group.state
        assert after is not None
        assert after.epoch == state.epoch
        said = group.done("elect", "--replica", str(behind), answer="y\n")
        assert f"replica {behind} leads epoch {state.epoch + 1}" in said
        group.until(lambda state: (state.master == behind and not state.by_name) or len(state.iss) == 1, "the elected")
        group.brokers[other].start(wait=False)
        group.done("wait", "--replica", str(other))
        asyncio.run(load(group))
        found = asyncio.run(stored(group.names.address))
        assert [body for body in (*acked, *later) if body not in found] == []
        assert any(body not in found for body in only), "nothing was lost: the act was not against the rules"
        (act,) = map(json.loads, group.done("acts").splitlines())
        assert (act["act"], act["before"]["master"], act["after"]["master"]) == ("elect", state.master, behind)
        assert any("what only it has is lost" in line for line in act["told"])
        assert "an operator elected this replica by name" in group.brokers[behind].log.read_text()


def test_a_group_is_backed_up_and_begun_again_elsewhere(tmp_path: Path) -> None:
    kept = tmp_path / "backup"
    with Group() as group:
        acked = asyncio.run(load(group))
        state = group.state
        assert state is not None
        slave = next(number for number in state.iss if number != state.master)
        broker = group.brokers[slave]
        words = ["--store", str(broker.store), "--to", str(kept)]
        refusal = group.command("backup", *words)
        assert (refusal.exit_code, "a broker runs on this directory" in refusal.output) == (1, True)
        broker.stop()
        assert "files of epoch" in group.done("backup", *words)
    begin_again(kept, acked)


def begin_again(kept: Path, acked: list[str]) -> None:
    """Everything is lost but the backup, also what etcd had."""
    with EtcdMachines() as etcd:
        group = Group(etcd)
        group.names.start()
        try:
            first = group.made(1)
            damaged = next(path for path in (kept / "store" / "commitlog").iterdir())
            data = damaged.read_bytes()
            words = ["--from", str(kept), "--store", str(first.store), "--replica", "1", "--yes"]
            damaged.write_bytes(b"x" + data[1:])
            refusal = group.command("restore", *words)
            assert (refusal.exit_code, "is damaged: commitlog/" in refusal.output) == (1, True)
            damaged.write_bytes(data)
            assert "everything since the backup of" in group.done("restore", *words)
            first.start(wait=False)
            for number in (2, 3):
                group.add(number)
            group.done("wait", "--replica", "1", "--replica", "2", "--replica", "3")
            acked = [*acked, *asyncio.run(load(group))]
            assert asyncio.run(lost(group, acked)) == []
        except BaseException as error:
            group.__exit__(type(error), error, None)
            raise
        group.__exit__(None, None, None)


def test_operators_act_while_one_machine_of_etcd_is_down_and_after_etcd_lost_its_data() -> None:
    with Group() as group:
        acked = asyncio.run(load(group))
        state = group.state
        assert state is not None
        slave = next(number for number in state.iss if number != state.master)
        group.etcd.machines[0].kill()
        group.done("hand-over", "--replica", str(slave))
        group.until(lambda state: state.master == slave and state.iss == (1, 2, 3), "the slave as master")
        assert "while 1 replicas are in sync" in group.done("set-in-sync-replicas", "--count", "1")
        assert "inSyncReplicas=2 counts for a new group only" in _said(group, slave)
        group.done("set-in-sync-replicas", "--count", "2")
        acts = [json.loads(line)["act"] for line in group.done("acts").splitlines()]
        assert acts == ["hand over", "set in-sync replicas", "set in-sync replicas"]
        epoch = _empty(group)
        group.done("elect", "--replica", str(slave), "--epoch", str(epoch + 5), "--yes")
        group.until(lambda state: state.iss == (1, 2, 3), "all replicas in the new epoch")
        acked += asyncio.run(load(group))
        group.brokers[slave].kill()
        group.until(lambda state: state.master != slave, "another master")
        acked += asyncio.run(load(group))
        assert asyncio.run(lost(group, acked)) == []


def _said(group: Group, number: int) -> str:
    """The log of a broker, once it has looked at its group."""
    log = group.brokers[number].log
    wait_for(lambda: "counts for a new group only" in log.read_text(), "the warning about inSyncReplicas")
    return log.read_text()


def _empty(group: Group) -> int:
    """Let etcd lose its data; return the epoch that it forgot."""
    state = group.state
    assert state is not None
    machines = group.etcd.machines
    for machine in machines[1:]:
        machine.kill()
    for machine in machines:
        shutil.rmtree(machine.home / "data")
        machine.start()
    wait_for(lambda: group.etcd.seen(NAME) is not None, "etcd with nothing", 60)
    return state.epoch

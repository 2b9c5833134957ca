"""Small parts of failover: values at the coordinator, the greeting of replicas, the run file, answers that wait."""

from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.failover.elections import GroupNews, LeadStep, OwnState, ProposeStep, WaitStep, next_step
from firearrow.broker.failover.group_slave import is_refused
from firearrow.broker.failover.group_values import MemberFacts, decode, encode
from firearrow.broker.failover.run_file import RunFile
from firearrow.broker.replication.confirmation import Confirmation
from firearrow.broker.settings.failover_settings import FailoverConfig, check_member, check_replica
from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.errors import BadBody, BadFrame, ConnectionFailed, SettingsError
from firearrow.model.epochs import LARGEST_EPOCH, Epochs
from firearrow.model.group_state import GroupState, ReplicaPromise
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.ha_handshake import (
    Hello,
    Welcome,
    decode_hello,
    decode_welcome,
    encode_hello,
    encode_welcome,
)
from firearrow.remoting.handlers import SUCCESS, Answer
from firearrow.runtime.coordinator.door import GroupSnapshot
from firearrow.testing.sim.world import World

GROUP = GroupState(epoch=3, master=2, iss=(1, 2), iss_seq=7, min_iss=2)


def test_values_come_back_and_others_are_told() -> None:
    about = MemberFacts("10.0.0.1:10911", "10.0.0.1:10912")
    seen = decode(GroupSnapshot(encode(GROUP), {1: encode(about)}))
    assert (seen.group, seen.live) == (GROUP, {1: about})
    with pytest.raises(BadBody, match="another program"):
        decode(GroupSnapshot(b"[]", {}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": -1}, {"epoch": LARGEST_EPOCH + 1}, {"epoch": 3_000_000_000}, {"master": -2}, {"master": 1 << 40},
        {"iss": (0, 2)}, {"iss": (2, 1)}, {"iss_seq": -1}, {"iss_seq": 1 << 63}, {"min_iss": -1},
        {"named": LARGEST_EPOCH + 1}, {"directories": ((1, 1 << 70),)},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_out_of_range_is_nobodys_state(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadBody, match=r"out of range.*failover elect"):
        decode(GroupSnapshot(encode(replace(GROUP, **wrong)), {}))


def test_greetings_come_back_in_pieces() -> None:
    hello, welcome = Hello(2, 7, 1 << 61), Welcome(7, 900, Epochs().begun(1, 0).begun(7, 500))
    assert decode_hello(encode_hello(hello)[:-1]) is None
    assert decode_hello(encode_hello(hello)) == hello
    assert decode_welcome(encode_welcome(welcome)[:-1]) is None
    assert decode_welcome(encode_welcome(welcome)) == welcome
    with pytest.raises(BadFrame, match="coordinatorAddress"):
        decode_hello(bytes(20))


def test_a_run_file_tells_whether_a_loss_of_power_took_acknowledged_records() -> None:
    async def scenario(world: World) -> None:
        disk = world.node("machine").disk

        async def load(boot: str, *, syncs: bool) -> RunFile:
            return await RunFile.load(disk, boot, syncs=syncs)

        first = await load("boot-1", syncs=False)
        assert not first.may_lack
        await first.begin()
        assert not (await load("boot-1", syncs=True)).may_lack
        assert (await load("boot-2", syncs=True)).may_lack, "the new run's setting counts"
        await first.end()
        assert not (await load("boot-2", syncs=False)).may_lack
        syncing = await load("boot-2", syncs=True)
        await syncing.begin()
        assert not (await load("boot-3", syncs=False)).may_lack

    World(1).run(scenario)


def test_a_run_that_syncs_counts_as_such_once_it_has_synced_what_a_killed_one_left() -> None:
    async def scenario(world: World) -> None:
        disk = world.node("machine").disk
        killed = await RunFile.load(disk, "boot-1", syncs=False)
        await killed.begin()
        syncing = await RunFile.load(disk, "boot-1", syncs=True)
        await syncing.begin()
        assert (await RunFile.load(disk, "boot-2", syncs=True)).may_lack, "the killed run's records are not synced yet"
        await syncing.opened()
        assert not (await RunFile.load(disk, "boot-2", syncs=True)).may_lack

    World(1).run(scenario)


class Kept:
    def __init__(self) -> None:
        self.codes: list[int] = []

    def answer(self, answer: Answer) -> bool:
        self.codes.append(int(answer.code))
        return True


def test_answers_wait_until_their_record_is_confirmed() -> None:
    async def scenario(_: World) -> None:
        answers = Confirmation(lambda: 50)
        answers.confirm(10)
        first, second, third = Kept(), Kept(), Kept()
        answers.owed(10, first).answer(SUCCESS)
        answers.owed(20, second).answer(SUCCESS)
        answers.owed(30, third).answer(SUCCESS)
        answers.confirm(20)
        answers.end()
        assert [one.codes for one in (first, second, third)] == [[0], [0], [int(ResponseCode.FLUSH_SLAVE_TIMEOUT)]]

    World(1).run(scenario)


def test_settings_of_a_member_are_checked() -> None:
    config = FailoverConfig(coordinator_address="http://127.0.0.1:2379")
    check_member(config, ReplicationConfig())
    check_replica(config, 1)
    with pytest.raises(SettingsError, match="brokerId"):
        check_replica(config, 0)
    with pytest.raises(SettingsError, match="haMasterAddress"):
        check_member(config, ReplicationConfig(ha_master_address="10.0.0.1:10912"))
    with pytest.raises(SettingsError, match="slaveReadEnable"):
        check_member(config, ReplicationConfig(slave_read_enable=True))


def test_only_a_refused_connection_tells_of_a_dead_process() -> None:
    refused = ConnectionFailed("refused")
    refused.__cause__ = ConnectionRefusedError()
    assert is_refused(refused)
    assert not is_refused(ConnectionFailed("timed out"))


def test_a_first_election_whose_answer_was_lost_is_known_by_its_directory() -> None:
    own, alive = OwnState(3, ReplicaPromise(), directory=77), frozenset({1, 2, 3})
    founded = GroupState(epoch=0, master=0, iss=(3,), iss_seq=0, min_iss=2)
    first = next_step(own, GroupNews(founded, alive), 2)
    assert isinstance(first, ProposeStep)
    since = replace(first.new, iss_seq=first.new.iss_seq + 2)  # others have swapped since
    again = next_step(own, GroupNews(since, alive), 2)
    assert isinstance(again, ProposeStep)
    assert (again.new.master, again.new.iss) == (3, (3,))
    other = next_step(replace(own, directory=78), GroupNews(since, alive), 2)  # the directory was lost
    assert isinstance(other, WaitStep)
    assert other.is_trouble


def test_a_master_that_cannot_take_messages_hands_over_where_enough_others_can() -> None:
    group = GroupState(epoch=3, master=1, iss=(1, 2, 3), iss_seq=7, min_iss=2)
    own = OwnState(1, ReplicaPromise(3, 1), leads=3, ailment="its disk is full")
    everybody = frozenset({1, 2, 3})
    step = next_step(own, GroupNews(group, everybody), 2)
    assert isinstance(step, ProposeStep)
    assert (step.new.epoch, step.new.master, step.new.iss) == (4, 2, (2, 3))
    assert next_step(replace(own, ailment=""), GroupNews(group, everybody), 2) == LeadStep(group)
    for alive, ailing in ((frozenset({1, 2}), frozenset()), (everybody, frozenset({3}))):
        assert next_step(own, GroupNews(group, alive, ailing=ailing), 2) == LeadStep(group)
    few = replace(group, iss=(1, 2))
    step = next_step(own, GroupNews(few, everybody), 2)
    assert isinstance(step, ProposeStep)
    assert (step.new.master, step.new.iss) == (2, (1, 2))  # 3 joins, then 1 leaves


def test_a_replica_that_cannot_take_messages_leaves_an_election_to_others() -> None:
    group = GroupState(epoch=3, master=1, iss=(1, 2, 3), iss_seq=7, min_iss=2)
    own = OwnState(2, ReplicaPromise(3, 1), ailment="its disk is full")
    heard = GroupNews(group, frozenset({2, 3}))
    assert isinstance(next_step(own, heard, 2), WaitStep)
    assert isinstance(next_step(replace(own, ailment=""), heard, 2), ProposeStep)
    assert isinstance(next_step(own, replace(heard, alive=frozenset({2})), 2), ProposeStep)

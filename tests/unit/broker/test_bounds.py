"""Bounds of the state that clients make a broker remember: by connection and in all, with an answer that says what to
do."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from firearrow.broker.handlers.group.offset_bounds import OffsetBounds
from firearrow.broker.settings.bound_settings import BoundsConfig
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.tables.clients import MEMBER_BYTES, Client, ClientTable, weight_of
from firearrow.broker.tables.locks import LOCK_LIFE_MS, QueueLocks
from firearrow.broker.tables.new_names import FEW, MINUTE_MS, NewNames
from firearrow.broker.tables.offsets import FEW_TOPICS, OffsetTable
from firearrow.errors import RequestRefused
from firearrow.fastjson import decode
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from firearrow.protocol.bodies.group.lock import LockBatchBody, LockedQueues
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import MOST_BODY_BYTES, MOST_DIALECT_BYTES, Refused
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.lock import LockBatchMq
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.protocol.requests.group.reset import CloneGroupOffset, InvokeBrokerToResetOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.remoting.handlers import Peer
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import PULL_CODES, Simulated, settings_of, simulate
from tests.unit.broker.whole import Client as Talker

DAY_MS = 86_400_000


def bounded(**bounds: Any) -> BrokerSettings:
    return replace(settings_of(), bounds=BoundsConfig(**bounds))


def heartbeat(
    *groups: str, topics: int = 1, tag: str = "", producers: tuple[str, ...] = (), client_id: str = "c"
) -> bytes:
    wanted = [SubscriptionData(topic=f"t{number}", sub_string="*", tags_set=[tag]) for number in range(topics)]
    consumers = [ConsumerData(group_name=name, subscription_data_set=wanted) for name in groups]
    made = [ProducerData(group_name=name) for name in producers]
    return encode_body(HeartbeatData(client_id=client_id, consumer_data_set=consumers, producer_data_set=made))


async def refused(talker: Talker, request: Any, body: bytes = b"") -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        await talker.ask(request, body)
    return caught.value


def commit(topic: str = "T", queue_id: int = 0, group: str = "g") -> UpdateConsumerOffset:
    return UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=1)


# ---- topics and groups


def test_a_first_message_makes_no_topic_beyond_the_bound() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        count = len(broker.broker._assembly.topics.table)  # type: ignore[union-attr]
        broker.broker._settings.replace(bounded(max_auto_created_topics=count + 2))
        await talker.send("a")
        await talker.send("b")
        with pytest.raises(RequestRefused) as caught:
            await talker.send("c")
        assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST
        assert "maxAutoCreatedTopics" in str(caught.value)
        assert "updateTopic" in str(caught.value)
        await talker.send("a")
        with pytest.raises(RequestRefused):
            await talker.send("%RETRY%c")

    simulate(scenario)


def test_one_connection_makes_so_many_names_a_minute() -> None:
    async def scenario(world: World, broker: Simulated, talker: Talker) -> None:
        for number in range(5):
            await talker.send(f"a{number}")
        with pytest.raises(RequestRefused, match="maxNewNamesOfConnection"):
            await talker.send("b")
        await Talker(world.node("other"), broker.address).send("b")

    simulate(scenario, bounded(max_new_names_of_connection=5))


class OnePeer:
    """The parts of a peer that new names use."""

    def __init__(self, host: str) -> None:
        self.address = Address(host, 1)


A, B = cast("Peer", OnePeer("10.0.0.1")), cast("Peer", OnePeer("10.0.0.2"))


def test_names_are_made_again_with_time() -> None:
    now = [DAY_MS]
    names = NewNames(lambda: BoundsConfig(max_new_names_of_connection=60), lambda: now[0])
    made = sum(names.topic_fault(0, A) is None for _ in range(100))
    assert made == 60
    assert names.refused == 40
    now[0] += MINUTE_MS // 2
    assert sum(names.group_fault(0, A) is None for _ in range(100)) == 30


def test_one_that_makes_many_names_leaves_room_for_others() -> None:
    names = NewNames(lambda: BoundsConfig(max_new_names_of_connection=1000, max_new_names=1000), lambda: DAY_MS)
    greedy = sum(names.topic_fault(0, A) is None for _ in range(2000))
    assert greedy == 800
    assert sum(names.topic_fault(0, B) is None for _ in range(100)) == FEW
    names.disconnected(A)
    names.disconnected(B)
    assert not names._of_peer


def test_who_connects_again_begins_with_what_was_left() -> None:
    now = [DAY_MS]
    names = NewNames(lambda: BoundsConfig(max_new_names_of_connection=60, max_new_names=1000), lambda: now[0])
    made = 0
    for _ in range(10):
        again = cast("Peer", OnePeer("10.0.0.1"))
        made += sum(names.topic_fault(0, again) is None for _ in range(20))
        names.disconnected(again)
    assert made == 60
    assert names.topic_fault(0, B) is None
    now[0] += MINUTE_MS
    assert sum(names.topic_fault(0, A) is None for _ in range(100)) == 60


def test_the_last_offsets_are_kept_for_groups_with_few_topics() -> None:
    table = OffsetTable(lambda: 100)
    made = 0
    for number in range(200):
        if table.has_room("greedy", f"T{number}", 0):
            table.commit("greedy", f"T{number}", 0, 1)
            made += 1
    assert made == 80
    assert table.has_room("modest", "T", 0)


def test_a_heartbeat_makes_no_group_beyond_the_bound() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        assembly = broker.broker._assembly
        assert assembly is not None
        broker.broker._settings.replace(bounded(max_auto_created_groups=len(assembly.groups.table) + 1))
        await talker.send("T")
        await talker.ask(HeartBeat(), heartbeat("a", "b"))
        assert "a" in assembly.groups.table
        assert "b" not in assembly.groups.table
        assert assembly.clients.group("b") is None
        assert assembly.topics.get("%RETRY%b") is None
        answer = await refused(talker, a_pull("b"))
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert "maxAutoCreatedGroups" in str(answer)
        assert "updateSubGroup" in str(answer)
        assert (await refused(talker, commit(group="b"))).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    simulate(scenario)


def a_pull(group: str, flags: int = 0x4, queue_id: int = 0) -> PullMessage:
    return PullMessage(
        consumer_group=group,
        topic="T",
        queue_id=queue_id,
        queue_offset=0,
        max_msg_nums=1,
        sys_flag=flags,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )


# ---- members and subscriptions


def test_one_connection_belongs_to_so_many_groups() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.ask(HeartBeat(), heartbeat("a", producers=("p",)))
        await talker.ask(HeartBeat(), heartbeat("b"))
        answer = await refused(talker, HeartBeat(), heartbeat("c"))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "maxGroupsOfConnection" in str(answer)
        await talker.ask(HeartBeat(), heartbeat("a", "b", producers=("p",)))
        assembly = broker.broker._assembly
        assert assembly is not None
        assert "c" not in assembly.groups.table

    simulate(scenario, bounded(max_groups_of_connection=3))


def test_subscriptions_of_one_connection_are_bounded() -> None:
    async def scenario(_world: World, _broker: Simulated, talker: Talker) -> None:
        await talker.ask(HeartBeat(), heartbeat("a", topics=20))
        await talker.ask(HeartBeat(), heartbeat("a", topics=20))
        answer = await refused(talker, HeartBeat(), heartbeat("b", topics=20))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "maxSubscriptionBytesOfConnection" in str(answer)
        await talker.ask(HeartBeat(), heartbeat("a", topics=1))
        await talker.ask(HeartBeat(), heartbeat("b", topics=20))

    simulate(scenario, bounded(max_subscription_bytes_of_connection=20_000))


def test_subscriptions_of_all_leave_room_for_small_ones() -> None:
    async def scenario(world: World, broker: Simulated, talker: Talker) -> None:
        await talker.ask(HeartBeat(), heartbeat("a", topics=20))
        other = Talker(world.node("other"), broker.address)
        answer = await refused(other, HeartBeat(), heartbeat("a", topics=20))
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "maxSubscriptionBytes" in str(answer)
        await other.ask(HeartBeat(), heartbeat("a", topics=1))

    simulate(scenario, bounded(max_subscription_bytes=20_000))


def test_names_of_clients_and_producer_groups_are_bounded() -> None:
    async def scenario(_world: World, _broker: Simulated, talker: Talker) -> None:
        for body in (heartbeat("a", client_id="x" * 1025), heartbeat(producers=("x" * 1025,))):
            assert (await refused(talker, HeartBeat(), body)).code == ResponseCode.INVALID_PARAMETER

    simulate(scenario)


def test_what_members_hold_is_given_back() -> None:
    table = ClientTable()
    data = ConsumerData(group_name="g", subscription_data_set=[SubscriptionData(topic="T", sub_string="a||b")])
    for _ in range(2):
        table.consume(Client("a", "id", "JAVA", 1, 0), data)
        table.produce(Client("a", "id", "JAVA", 1, 0), "p")
    table.consume(Client("a", "id", "JAVA", 1, 0), ConsumerData(group_name="g"), without_sub=True)
    assert table.held == table.held_by("a") == weight_of(data.subscription_data_set) + MEMBER_BYTES
    table.disconnected("a")
    assert table.held == table.held_by("a") == 0


# ---- bodies


def test_a_body_that_would_hold_up_others_is_refused_unread() -> None:
    async def scenario(_world: World, _broker: Simulated, talker: Talker) -> None:
        answer = await refused(talker, HeartBeat(), b"{" * (MOST_BODY_BYTES + 1))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        slow = b"{clientID:'c',producerDataSet:[" + b"{groupName:'g'}," * (MOST_DIALECT_BYTES // 16)
        answer = await refused(talker, HeartBeat(), slow + b"{groupName:'g'}]}")
        assert "send standard JSON" in str(answer)
        await talker.ask(HeartBeat(), b"{clientID:'c',producerDataSet:[{groupName:'g'}]}")
        assert (await refused(talker, UpdateBrokerConfig(), b"a=1\n" * MOST_BODY_BYTES)).code == 29

    simulate(scenario)


# ---- offsets


def test_no_offset_is_kept_for_a_queue_that_does_not_exist() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.send("T")
        await talker.ask(HeartBeat(), heartbeat("g"))
        await talker.ask(commit(queue_id=3))
        for queue_id in (-1, 4, 1 << 30):
            assert (await refused(talker, commit(queue_id=queue_id))).code == ResponseCode.INVALID_PARAMETER
        assert len(broker.broker._assembly.offsets.table) == 1  # type: ignore[union-attr]

    simulate(scenario)


def test_offsets_are_bounded_and_known_ones_go_on() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.send("T")
        await talker.ask(HeartBeat(), heartbeat("g"))
        await talker.ask(commit(queue_id=0))
        await talker.ask(commit(queue_id=1))
        answer = await refused(talker, commit(queue_id=2))
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "maxConsumerOffsets" in str(answer)
        await talker.ask(commit(queue_id=1))
        await talker.ask(a_pull("g", 0x5, queue_id=2), accept=PULL_CODES)
        assert len(broker.broker._assembly.offsets.table) == 2  # type: ignore[union-attr]

    simulate(scenario, bounded(max_consumer_offsets=2))


def a_reset(queue_id: int, offset: int | None = 0) -> InvokeBrokerToResetOffset:
    return InvokeBrokerToResetOffset(
        topic="T", group="g", timestamp=-2, is_force=True, queue_id=queue_id, offset=offset
    )


def a_clone(to: str) -> CloneGroupOffset:
    return CloneGroupOffset(src_group="g", dest_group=to, topic="T", offline=True)


def test_operators_move_no_group_in_a_queue_that_does_not_exist() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.send("T")
        await talker.ask(HeartBeat(), heartbeat("g"))
        for queue_id in (4, 5000, 1 << 30):
            for offset in (0, None):
                assert (await refused(talker, a_reset(queue_id, offset))).code == ResponseCode.INVALID_PARAMETER
        assert len(broker.broker._assembly.offsets.table) == 0  # type: ignore[union-attr]
        await talker.ask(a_reset(3))
        assert len(broker.broker._assembly.offsets.table) == 1  # type: ignore[union-attr]

    simulate(scenario)


@pytest.mark.parametrize("name", ["", "a@b", "line\nfeed", "x" * 10_000])
def test_offsets_are_cloned_to_no_illegal_name(name: str) -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.send("T")
        await talker.ask(HeartBeat(), heartbeat("g"))
        await talker.ask(commit(queue_id=0))
        assert (await refused(talker, a_clone(name))).code == ResponseCode.INVALID_PARAMETER
        assert broker.broker._assembly.offsets.table.pairs() == [("T", "g")]  # type: ignore[union-attr]

    simulate(scenario)


def test_offsets_that_operators_make_are_bounded() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.send("T")
        await talker.ask(HeartBeat(), heartbeat("g"))
        await talker.ask(commit(queue_id=0))
        await talker.ask(commit(queue_id=1))
        for request in (a_reset(-1, None), a_clone("copy")):
            answer = await refused(talker, request)
            assert answer.code == ResponseCode.SYSTEM_BUSY
            assert "maxConsumerOffsets" in str(answer)
        await talker.ask(a_reset(1))
        await talker.ask(a_reset(2))
        assert (await refused(talker, a_reset(3))).code == ResponseCode.SYSTEM_BUSY
        assert len(broker.broker._assembly.offsets.table) == 3  # type: ignore[union-attr]

    simulate(scenario, bounded(max_consumer_offsets=3))


ALL_TOPICS = CloneGroupOffset(src_group="g", dest_group="copy", topic="", offline=True)


def clone_more_topics_than_there_is_room_for(topics: int = 2, most: int = 5) -> None:
    """Clone a group that has the most topics for which a group has room: there is room for a part of them."""

    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.ask(HeartBeat(), heartbeat("g"))
        for number in range(topics):
            await talker.send(f"T{number}")
            await talker.ask(commit(f"T{number}"))
        await talker.ask(commit("T1", queue_id=1))
        answer = await refused(talker, ALL_TOPICS)
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "maxConsumerOffsets" in str(answer)
        table = broker.broker._assembly.offsets.table  # type: ignore[union-attr]
        assert not table.topics_with("copy"), "a refused clone has copied the offsets in some topics"

    simulate(scenario, bounded(max_consumer_offsets=most))


def test_a_refused_clone_copies_no_topic() -> None:
    clone_more_topics_than_there_is_room_for()


def test_a_clone_that_would_take_what_is_kept_for_groups_with_few_topics_copies_no_topic() -> None:
    clone_more_topics_than_there_is_room_for(FEW_TOPICS + 1, 2 * FEW_TOPICS + 10)


def test_the_room_for_all_offsets_is_that_for_one_after_the_other() -> None:
    async def scenario(_world: World, broker: Simulated, _talker: Talker) -> None:
        assembly = broker.broker._assembly
        assert assembly is not None
        offsets = assembly.offsets.table
        bounds = OffsetBounds(assembly.store, offsets)
        for known in range(FEW_TOPICS + 1):
            for number in range(known):
                offsets.adopt("g", f"known{number}", 0, 1)
            for added in range(1, 40 - known):
                new = {f"new{number}": 1 for number in range(added)}
                assert has_room_of_all(bounds, new) == has_room_one_by_one(offsets, new), (known, added)
            for topic in list(offsets.topics_with("g")):
                offsets.forget_row(topic, "g")

    simulate(scenario, bounded(max_consumer_offsets=30))


def has_room_of_all(bounds: OffsetBounds, new: dict[str, int]) -> bool:
    try:
        bounds.check_room_of_all("g", new)
    except Refused:
        return False
    return True


def has_room_one_by_one(offsets: OffsetTable, new: dict[str, int]) -> bool:
    added = []
    for topic in new:
        if not offsets.has_room("g", topic, 0):
            break
        offsets.adopt("g", topic, 0, 1)
        added.append(topic)
    for topic in added:
        offsets.forget_row(topic, "g")
    return len(added) == len(new)


def test_offsets_are_counted() -> None:
    table = OffsetTable(lambda: 3)
    table.put_row("T", "g", {0: 1, 1: 1})
    table.put_queue("T", "g", 1, 5)
    table.put_queue("U", "g", 0, 5)
    assert len(table) == 3
    assert table.has_room("g", "T", 1)
    assert not table.has_room("g", "T", 2)
    for queue_id in range(5):
        table.note_pulled("h", "T", queue_id, 1)
    assert len(table._pulled["T", "h"]) == 3
    table.clone("g", "h", "T")
    assert len(table) == 5
    table.forget_topic("T")
    assert len(table) == 1
    table.put_row("U", "g", None)
    assert len(table) == table._pulled_count == 0


# ---- locks


def test_only_queues_that_exist_are_locked_for_groups_that_exist() -> None:
    async def scenario(_world: World, broker: Simulated, talker: Talker) -> None:
        await talker.send("T")
        await talker.ask(HeartBeat(), heartbeat("g"))
        queues = [MessageQueue("T", "broker-a", number) for number in (0, 3, 4, 1 << 30)]
        queues.append(MessageQueue("nowhere", "broker-a", 0))
        for group, gained in (("invented", []), ("g", queues[:2])):
            asked = LockBatchBody(client_id="c", consumer_group=group, mq_set=queues)
            reply = await talker.ask(LockBatchMq(), encode_body(asked))
            assert decode(reply.body, LockedQueues).locked == gained
        assert len(broker.broker._assembly.locks) == 2  # type: ignore[union-attr]

    simulate(scenario)


def test_locks_are_bounded_and_given_back() -> None:
    locks = QueueLocks(most=lambda: 2)
    queues = [MessageQueue("T", "b", number) for number in range(3)]
    assert locks.lock("g", queues, "a", 0) == queues[:2]
    assert locks.lock("h", queues, "a", 0) == []
    assert locks.lock("g", queues, "a", 1) == queues[:2]
    locks.unlock("g", queues[:1], "a")
    assert locks.lock("h", queues[2:], "b", 1) == queues[2:]
    list(locks.expire(2 * LOCK_LIFE_MS))
    assert len(locks) == 0
    assert not locks._groups

"""Whoever changes topics, groups or offsets is answered when it is durable, also where memory has it so already."""

import asyncio
import errno
from typing import Any

import pytest
from msgspec.structs import replace

from campaigns.samples import a_topic
from firearrow.broker.handlers.admin.topic_deletion import TopicDeletionHandlers
from firearrow.broker.handlers.group import reset
from firearrow.broker.handlers.group.offset_bounds import OffsetBounds
from firearrow.broker.state.state_file import OnSaved
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import DiskError, FireArrowError, RequestRefused
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.topic import (
    CleanUnusedTopic,
    DeleteTopicInBroker,
    GetTopicConfig,
)
from firearrow.protocol.requests.group.group import DeleteSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.protocol.requests.group.reset import CloneGroupOffset, InvokeBrokerToResetOffset
from firearrow.testing.sim.disk_image import STANDING
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import UNIQUE, Client, Simulated, a_send, settings_of, simulate

MAKE = a_topic("T", 4)
DELETE = DeleteTopicInBroker(topic="T")
TOPICS = ("firearrow/topics", "config/topics")
OFFSETS = ("firearrow/consumerOffset", "config/consumerOffset")


def refuse_writes(world: World, broker: Simulated, *below: str) -> None:
    """Let files with these beginnings find no space until they are mended."""
    world.expected = (DiskError,)
    for operation in ("write", "create"):
        for one in below:
            broker.node.image.fail(operation, number=errno.ENOSPC, times=STANDING, below=one)


async def is_answered(client: Client, request: Request[Any], body: bytes = b"") -> bool:
    """Whether a request is answered with success."""
    try:
        await client.ask(request, body)
    except FireArrowError:
        return False
    return True


async def after_a_crash(world: World, broker: Simulated, *, power: bool = False) -> Client:
    """A client of the broker, which was killed and started again with a whole disk."""
    await (broker.node.power_loss() if power else broker.node.crash())
    broker.node.image.mend()
    await broker.start()
    return Client(world.node("after"), broker.address)


async def offset_of(client: Client, group: str = "g", topic: str = "T") -> int | None:
    """The offset of a group in the first queue; None where it never said."""
    request = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0, set_zero_if_not_found=False)
    try:
        return int((await client.ask(request)).answer.offset)
    except RequestRefused:
        return None


async def consume(client: Client, count: int, topic: str = "T", **fields: Any) -> None:
    """Have a group that has read some messages, and everything durable."""
    await client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}')
    for number in range(count):
        await client.send(topic, b"old %d" % number, **fields)
    await client.ask(UpdateConsumerOffset(consumer_group="g", topic=topic, queue_id=0, commit_offset=count))
    await asyncio.sleep(20)


# ---- offsets of a deleted topic


async def offset_after_a_deletion(world: World, broker: Simulated, client: Client) -> int | None:
    await consume(client, 10)
    await client.ask(DELETE)
    for number in range(20):
        await client.send("T", b"new %d" % number)
    return await offset_of(await after_a_crash(world, broker))


def test_the_offsets_of_a_deleted_topic_do_not_come_back() -> None:
    assert simulate(offset_after_a_deletion, settings_of(sync=True)) is None


def forgets_offsets_in_memory_alone(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: the offsets' change is noted, and nobody waits for it."""
    begin = TopicDeletionHandlers._begin_deletion

    def begins(self: Any, topics: list[str]) -> Any:
        wait = self._offsets_changed
        self._offsets_changed = lambda on_saved: on_saved(None)
        try:
            return begin(self, topics)
        finally:
            self._offsets_changed = wait

    async def trusts(_self: Any) -> None:
        pass

    patch.setattr(TopicDeletionHandlers, "_begin_deletion", begins)
    patch.setattr(TopicDeletionHandlers, "_keep_offsets", trusts)


def test_offsets_that_are_forgotten_in_memory_alone_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    forgets_offsets_in_memory_alone(monkeypatch)
    assert simulate(offset_after_a_deletion, settings_of(sync=True)) == 10


def test_a_deletion_whose_offsets_find_no_space_leaves_the_queues() -> None:
    """Or the offsets would come back to queues that begin at 0 again."""

    async def scenario(world: World, broker: Simulated, client: Client) -> tuple[bool, int, int | None]:
        await consume(client, 10)
        refuse_writes(world, broker, *OFFSETS)
        answered = await is_answered(client, DELETE)
        sent = (await client.send("T", b"new")).answer.queue_offset
        return answered, sent, await offset_of(await after_a_crash(world, broker))

    assert simulate(scenario, settings_of(sync=True)) == (False, 10, 10)


def test_what_a_consumer_says_while_its_topic_is_deleted_does_not_come_back() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> int | None:
        await consume(client, 10)
        broker.node.image.slow("firearrow/views", 8.0)
        deletion = asyncio.create_task(client.ask(DELETE, timeout_ms=60_000))
        await asyncio.sleep(1)
        await client.ask(MAKE)
        send = asyncio.create_task(client.ask(a_send("T"), b"new", timeout_ms=60_000))
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=10))
        await deletion
        assert (await send).answer.queue_offset == 0
        return await offset_of(await after_a_crash(world, broker))

    assert simulate(scenario, settings_of(sync=True)) is None


def test_cleaning_unused_topics_forgets_their_offsets() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> int | None:
        await client.send("T", properties=UNIQUE + "DELAY\x013\x02")  # due in ten seconds
        await client.ask(DELETE)
        await asyncio.sleep(20)  # it comes to a queue without a topic
        await client.send("T")
        await consume(client, 1)
        broker.node.image.slow("firearrow/views", 8.0)
        await is_answered(client, DELETE)  # out of time; the crash leaves queues without a topic
        after = await after_a_crash(world, broker)
        await after.ask(CleanUnusedTopic())
        return await offset_of(after)

    assert simulate(scenario, settings_of(sync=True)) is None


# ---- topics that are asked for again


def asked_twice(request: Request[Any]) -> tuple[bool, bool, bool]:
    """Ask for a topic or its deletion without space; whether each is answered and the topic there after a kill."""

    async def scenario(world: World, broker: Simulated, client: Client) -> tuple[bool, bool, bool]:
        if request is DELETE:
            await client.send("T")
        await asyncio.sleep(20)
        refuse_writes(world, broker, *TOPICS)
        first, again = [await is_answered(client, request) for _ in range(2)]
        return first, again, await is_answered(await after_a_crash(world, broker), GetTopicConfig(topic="T"))

    return simulate(scenario)


@pytest.mark.parametrize("request_again", [MAKE, DELETE])
def test_a_change_that_could_not_be_stored_is_not_answered_for_from_memory(request_again: Request[Any]) -> None:
    assert asked_twice(request_again) == (False, False, request_again is DELETE)


def answers_from_memory(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: what memory has as it is asked for is taken for durable."""
    put, begin = TopicBook.put, TopicBook.begin_deletion

    def puts(self: TopicBook, topics: list[TopicConfig], on_saved: OnSaved) -> None:
        known = [self.get(topic.topic_name or "") for topic in topics]
        if all(one == replace(topic, life=one and one.life) for one, topic in zip(known, topics, strict=True)):
            on_saved(None)
        else:
            put(self, topics, on_saved)

    def begins(self: TopicBook, name: str, on_saved: OnSaved) -> None:
        is_there = name in self.table
        begin(self, name, on_saved if is_there else lambda _error: None)
        if not is_there:
            on_saved(None)

    patch.setattr(TopicBook, "put", puts)
    patch.setattr(TopicBook, "begin_deletion", begins)


@pytest.mark.parametrize("request_again", [MAKE, DELETE])
def test_an_answer_from_memory_is_caught(monkeypatch: pytest.MonkeyPatch, request_again: Request[Any]) -> None:
    answers_from_memory(monkeypatch)
    assert asked_twice(request_again) == (False, True, request_again is DELETE)


@pytest.mark.parametrize("request_again", [MAKE, DELETE])
def test_who_asks_while_another_waits_for_the_disk_waits_too(request_again: Request[Any]) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> tuple[bool, bool]:
        if request_again is DELETE:
            await client.send("T")
        await asyncio.sleep(20)
        broker.node.image.slow("firearrow/topics", 5.0)
        first = asyncio.create_task(is_answered(client, request_again))
        await asyncio.sleep(0.01)
        answered = await is_answered(client, request_again)
        first.cancel()
        kept = await is_answered(await after_a_crash(world, broker, power=True), GetTopicConfig(topic="T"))
        return answered, kept

    for seed in range(4):
        answered, kept = simulate(scenario, settings_of(sync=True), seed=seed)
        assert not answered or kept == (request_again is MAKE)


def test_a_topic_that_is_asked_for_again_is_stored_when_there_is_space() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> bool:
        await asyncio.sleep(5)
        refuse_writes(world, broker, *TOPICS)
        assert not await is_answered(client, MAKE)
        broker.node.image.mend()
        await client.ask(MAKE)
        assert (await client.send("T")).answer.queue_offset == 0
        return await is_answered(await after_a_crash(world, broker), GetTopicConfig(topic="T"))

    assert simulate(scenario)


# ---- groups


async def offset_after_the_group_is_deleted(world: World, broker: Simulated, client: Client) -> int | None:
    await consume(client, 10)
    await client.ask(DeleteSubscriptionGroup(group_name="g", clean_offset=True))
    return await offset_of(await after_a_crash(world, broker))


def test_the_offsets_of_a_deleted_group_do_not_come_back() -> None:
    assert simulate(offset_after_the_group_is_deleted, settings_of(sync=True)) is None


def test_a_group_whose_offsets_cannot_be_deleted_is_refused_every_time() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> list[bool]:
        await consume(client, 10)
        refuse_writes(world, broker, *OFFSETS)
        return [await is_answered(client, DeleteSubscriptionGroup(group_name="g", clean_offset=True)) for _ in range(2)]

    assert simulate(scenario, settings_of(sync=True)) == [False, False]


def test_groups_that_could_not_be_stored_are_not_answered_for_from_memory() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> list[bool]:
        await asyncio.sleep(5)
        refuse_writes(world, broker, "firearrow/subscriptionGroup", "config/subscriptionGroup")
        make = UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}'
        delete = DeleteSubscriptionGroup(group_name="g"), b""
        return [await is_answered(client, *one) for one in (make, make, delete, delete)]

    assert simulate(scenario) == [False] * 4


# ---- groups that an operator moves


def test_a_move_is_answered_for_when_it_is_durable() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> int | None:
        await consume(client, 10)
        await client.ask(
            InvokeBrokerToResetOffset(topic="T", group="g", queue_id=0, offset=3, timestamp=-1, is_force=True)
        )
        return await offset_of(await after_a_crash(world, broker))

    assert simulate(scenario, settings_of(sync=True)) == 3


def test_offsets_that_are_cloned_are_answered_for_when_they_are_durable() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> int | None:
        await consume(client, 10)
        await client.ask(CloneGroupOffset(src_group="g", dest_group="h", topic="T", offline=True))
        return await offset_of(await after_a_crash(world, broker), "h")

    assert simulate(scenario, settings_of(sync=True)) == 10


@pytest.mark.parametrize("what", ["move", "clone"])
def test_what_an_operator_s_request_has_done_before_it_is_refused_halfway_is_durable(what: str) -> None:
    """A commit takes the last room between two steps."""
    refuse_halfway(what)


def refuse_halfway(what: str) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> int | None:
        await consume(client, 10)
        await consume(client, 10, "U")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reset, "AT_ONCE", 1)
            request, told = _with_many_steps(patch, what)
            with pytest.raises(RequestRefused, match=told):
                await client.ask(request)
        return await offset_of(await after_a_crash(world, broker), "h" if what == "clone" else "g")

    moved = simulate(scenario, settings_of(sync=True))
    assert moved == (10 if what == "clone" else 0), "what was done before the refusal is lost"


def _with_many_steps(patch: pytest.MonkeyPatch, what: str) -> tuple[Request[Any], str]:
    """A request whose second step is refused, and how far it says that it came."""
    rooms = iter([None, Refused(ResponseCode.SYSTEM_BUSY, "there is no room")])

    def check_room(*_: object) -> None:
        refusal = next(rooms)
        if refusal is not None:
            raise refusal

    patch.setattr(OffsetBounds, "check_room", check_room)
    if what == "clone":
        return CloneGroupOffset(src_group="g", dest_group="h", topic="", offline=True), "1 of 2 topics are done"
    move = InvokeBrokerToResetOffset(topic="T", group="g", timestamp=0, is_force=True)
    return move, "1 of 4 queues are done"

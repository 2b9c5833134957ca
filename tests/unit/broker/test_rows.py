"""Rows with an identity on whole, simulated brokers: each is stored once, over kills, power cuts and failed writes."""

import asyncio
import errno
import random
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.dedup_settings import DedupConfig
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model import Message, StoredMessage, keys
from firearrow.model.names import HALF_TOPIC
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.message.send import SendAnswer, SendBatchMessage
from firearrow.record.batch import encode_batch
from firearrow.record.properties import format_properties
from firearrow.remoting.reply import Reply
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.whole import Client, Simulated, a_send, settings_of, simulate

MOST_STEPS = 400


def row(identity: str, unique: str = "K", **more: str) -> str:
    return format_properties({keys.ROW_ID: identity, keys.UNIQ_KEY: unique, keys.WAIT: "true", **more})


async def send(client: Client, identity: str, topic: str = "T", **more: str) -> SendAnswer:
    answer = (await client.send(topic, b"x", properties=row(identity, **more))).answer
    assert isinstance(answer, SendAnswer)
    return answer


async def send_batch(client: Client, *identities: str, topic: str = "T") -> SendAnswer:
    messages = [Message(topic, b"b" + name.encode(), {keys.ROW_ID: name} if name else {}) for name in identities]
    reply: Reply[Any] = await client.ask(
        a_send(topic, kind=SendBatchMessage, batch=True, properties=row("").replace(keys.ROW_ID, "x")),
        encode_batch(messages),
    )
    assert isinstance(reply.answer, SendAnswer)
    return reply.answer


async def everything(client: Client, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while messages := await client.stored(topic, queue_id, len(found)):
        found += messages
    return found


async def identities(client: Client, topic: str = "T") -> list[str]:
    return [message.properties.get(keys.ROW_ID, "") for message in await everything(client, topic)]


def bounded(count: int = 100_000, ms: int = 86_400_000, most: int = 1_000_000, *, sync: bool = False) -> BrokerSettings:
    dedup = DedupConfig(dedup_window_count=count, dedup_window_ms=ms, dedup_max_identities=most)
    return replace(settings_of(sync=sync), dedup=dedup)


async def boot_again(broker: Simulated) -> None:
    await broker.node.crash()
    await broker.start()


# ---- repeats


def test_a_repeat_is_answered_with_the_first_copy() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send(body=b"other")
        first = await send(client, "r1", unique="K1")
        again = await send(client, "r1", unique="K2")
        assert (again.msg_id, again.queue_offset, again.queue_id) == (first.msg_id, first.queue_offset, 0)
        assert again.transaction_id == "K2"
        assert await identities(client) == ["", "r1"]

    simulate(scenario)


def test_a_batch_stores_its_new_rows_and_lists_all_ids() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        first = await send_batch(client, "a", "b", "c")
        assert first.msg_id is not None
        a, b, c = first.msg_id.split(",")
        mixed = await send_batch(client, "b", "d", "", "a", "d")
        assert mixed.msg_id is not None
        ids = mixed.msg_id.split(",")
        assert (ids[0], ids[3]) == (b, a)
        assert ids[1] == ids[4]
        assert mixed.queue_offset == 1
        whole = await send_batch(client, "a", "b", "c")
        assert (whole.msg_id, whole.queue_offset) == (f"{a},{b},{c}", 0)
        stored = await everything(client)
        assert [message.properties.get(keys.ROW_ID, "") for message in stored] == ["a", "b", "c", "d", ""]
        assert [message.queue_offset for message in stored] == [0, 1, 2, 3, 4]

    simulate(scenario)


def test_a_uniform_batch_of_one_identity_is_one_row() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        messages = [
            Message("T", b"same", {keys.ROW_ID: "same", keys.UNIQ_KEY: f"AC1100010000{n:08d}"}) for n in range(3)
        ]
        request = a_send(kind=SendBatchMessage, batch=True)
        for _ in range(2):
            await client.ask(request, encode_batch(messages))
        assert [message.body for message in await everything(client)] == [b"same"]

    simulate(scenario)


def test_queues_and_topics_have_windows_of_their_own() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await send(client, "r")
        await send(client, "r", topic="U")
        await client.send(properties=row("r"), queue_id=1)
        assert (len(await everything(client)), len(await everything(client, "U"))) == (1, 1)
        assert len(await everything(client, queue_id=1)) == 1

    simulate(scenario)


@pytest.mark.parametrize(
    "more", [{keys.ROW_REPEATS: "keep"}, {keys.DLQ_ORIGIN_MESSAGE_ID: "A"}, {keys.RECONSUME_TIME: "3"}]
)
def test_a_message_that_says_so_is_stored_again(more: dict[str, str]) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for _ in range(2):
            await send(client, "r", **more)
        assert await identities(client) == ["r", "r"]
        await send(client, "r")
        await send(client, "r")
        assert len(await identities(client)) == 3

    simulate(scenario)


def test_messages_of_transactions_and_of_topics_of_retries_are_no_rows() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for _ in range(2):
            await send(client, "r", **{keys.TRAN_MSG: "true"})
            await send(client, "r", topic="%DLQ%group")
        assert len(await everything(client, HALF_TOPIC)) == 2
        assert len(await everything(client, "%DLQ%group")) == 2

    simulate(scenario)


# ---- the end of a window


def test_a_row_that_left_the_window_by_count_is_stored_again() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await send(client, "r")
        for _ in range(7):
            await client.send()
        await send(client, "r")
        assert len(await everything(client)) == 8
        for _ in range(12):
            await client.send()
        await send(client, "r")
        assert (await identities(client)).count("r") == 2
        await boot_again(broker)
        await send(client, "r")
        assert (await identities(client)).count("r") == 2

    simulate(scenario, bounded(count=8))


def test_a_row_that_left_the_window_by_time_is_stored_again() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await send(client, "r")
        await asyncio.sleep(9)
        await send(client, "r")
        assert len(await everything(client)) == 1
        await asyncio.sleep(30)
        await send(client, "r")
        assert len(await everything(client)) == 2
        await asyncio.sleep(9)
        await boot_again(broker)
        await send(client, "r")
        assert len(await everything(client)) == 2
        await asyncio.sleep(30)
        await boot_again(broker)
        await send(client, "r")
        assert len(await everything(client)) == 3

    simulate(scenario, bounded(ms=10_000))


def test_without_windows_every_row_is_stored() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for _ in range(2):
            await send(client, "r")
            await send_batch(client, "a", "b")
        assert await identities(client) == ["r", "a", "b"] * 2

    simulate(scenario, bounded(count=0))


def test_a_deleted_topic_forgets_its_rows() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await send(client, "r")
        await client.ask(DeleteTopicInBroker(topic="T"))
        await send(client, "r")
        assert await identities(client) == ["r"]
        await client.ask(DeleteTopicInBroker(topic="T"))
        await boot_again(broker)
        await send(client, "r")
        assert await identities(client) == ["r"]

    simulate(scenario)


@pytest.mark.parametrize("delay", [{keys.DELAY: "1"}, {keys.TIMER_DELAY_SEC: "1"}], ids=["level", "timer"])
def test_a_delayed_row_of_a_deleted_topic_is_stored_in_the_next_life(delay: dict[str, str]) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await send(client, "r", **delay)
        await asyncio.sleep(20)
        assert await identities(client) == ["r"]
        await client.ask(DeleteTopicInBroker(topic="T"))
        for _ in range(2):
            await send(client, "r", **delay)
            await asyncio.sleep(20)
            assert await identities(client) == ["r"], "the row is stored once in the next life"

    simulate(scenario)


# ---- rows that wait


@pytest.mark.parametrize("delay", [{keys.DELAY: "3"}, {keys.TIMER_DELAY_SEC: "9"}], ids=["level", "timer"])
@pytest.mark.parametrize("kills", [False, True])
def test_a_delayed_row_is_delivered_once(delay: dict[str, str], *, kills: bool) -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        first = await send(client, "r", **delay)
        if kills:
            await boot_again(broker)
        again = await send(client, "r", **delay)
        assert (first.msg_id, first.queue_offset) == (again.msg_id, again.queue_offset)
        plain = await send(client, "r")  # its time is over at the repeat: it would not wait
        assert plain.msg_id == first.msg_id
        await asyncio.sleep(20)
        await send(client, "r", **delay)
        if kills:
            await boot_again(broker)
        await send(client, "r")
        await asyncio.sleep(20)
        assert await identities(client) == ["r"]

    simulate(scenario)


# ---- faults


@pytest.mark.parametrize("power", [False, True])
def test_a_window_is_rebuilt_from_the_log(*, power: bool) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        first = await send_batch(client, *map(str, range(300)))
        one = await send(client, "x" * 500)
        await (broker.node.power_loss() if power else broker.node.crash())
        await broker.start()
        client = Client(world.node("client after"), broker.address)
        again = await send_batch(client, *map(str, range(300)))
        await send(client, "x" * 500)
        stored = len(await everything(client))
        assert stored == 301, f"{stored} rows are stored, of 301"
        assert again.msg_id == first.msg_id
        assert (await send(client, "x" * 500)).msg_id == one.msg_id

    simulate(scenario, settings_of(sync=True))


def window_rebuilt_after_a_crash() -> None:
    """The test by which a plant is hunted."""
    test_a_window_is_rebuilt_from_the_log(power=False)


def test_a_repeat_waits_for_the_sync_of_the_first_copy() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        await send(client, "warm")
        other = Client(world.node("other"), broker.address)
        await send(other, "warm")
        clock = asyncio.get_running_loop()

        async def timed(who: Client) -> tuple[float, str | None]:
            answer = await send(who, "r")
            return clock.time(), answer.msg_id

        (first_s, first), (again_s, again) = await asyncio.gather(timed(client), timed(other))
        assert first == again
        assert abs(first_s - again_s) < 0.05, "the repeat was answered before or long after the sync"
        begins = clock.time()
        await send(other, "r")
        assert clock.time() - begins < 0.05, "a repeat of a synced row waits for nothing"
        assert (await identities(client)).count("r") == 1

    slow = DiskProfile(sync_mean_s=0.3)

    async def run(world: World) -> None:
        broker = Simulated(world.node("broker", disk=slow), settings_of(sync=True))
        await broker.start()
        await scenario(world, broker, Client(world.node("client"), broker.address))
        await broker.node.stop()

    World(3).run(run)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("after", range(4))
def test_a_row_whose_write_failed_is_stored_by_its_repeat(after: int, *, sync: bool) -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await send(client, "warm")
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/", after=after)
        for name in ("a", "b", "c", "d", "e"):
            for attempt in range(MOST_STEPS):
                assert attempt < MOST_STEPS - 1, "the row is refused for ever"
                try:
                    await send_batch(client, name, name + "2")
                except RequestRefused:
                    broker.node.image.mend()
                    await asyncio.sleep(0.01)
                else:
                    break
        wanted = {"warm", *(name + end for name in "abcde" for end in ("", "2"))}
        names = await identities(client)
        assert set(names) == wanted, f"rows are missing: {wanted - set(names)}"
        assert len(names) == len(wanted)

    simulate(scenario, settings_of(sync=sync), seed=after)


def row_stored_after_a_failed_write() -> None:
    """The test by which a plant is hunted."""
    test_a_row_whose_write_failed_is_stored_by_its_repeat(0, sync=False)


async def insist(node: Node, broker: Simulated, names: list[str], chance: random.Random) -> None:
    """Send rows until they are acknowledged, as a sink does over kills, with other keys at every attempt."""
    for attempt in range(MOST_STEPS):
        assert attempt < MOST_STEPS - 1, "the rows are never acknowledged"
        await broker.ready.wait()
        client = Client(node, broker.address)
        try:
            async with asyncio.timeout(0.5):
                if len(names) == 1:
                    await send(client, names[0], unique=f"K{attempt}")
                else:
                    await send_batch(client, *names)
                if chance.random() < 0.2:  # the sender was killed after the answer: the same rows come again
                    continue
        except (FireArrowError, TimeoutError):
            await asyncio.sleep(0.05)
        else:
            return


def rows_over_kills(seed: int, *, power: bool, late: bool = False) -> None:
    """Every row is in the queue once, whatever happens between append and answer."""
    names: list[str] = []

    async def run(world: World) -> None:
        profile = DiskProfile(sync_mean_s=0.01, late_writes=late)
        base = settings_of(sync=power)
        small = replace(base, log=replace(base.log, mapped_file_size_commit_log=1 << 20))
        broker = Simulated(world.node("broker", disk=profile), small)
        await broker.start()
        chance = random.Random(seed)
        running = True

        async def trouble() -> None:
            while running:
                await asyncio.sleep(chance.choice((0.02, 0.2, 0.6)) * chance.random())
                broker.ready.clear()
                await (broker.node.power_loss() if power and chance.random() < 0.7 else broker.node.crash())
                await broker.start()

        kills = asyncio.create_task(trouble())
        client = world.node("client")
        for number in range(30):
            group = [f"row-{number}-{part}" for part in range(chance.choice((1, 1, 3, 20)))]
            names.extend(group)
            await insist(client, broker, group, chance)
        running = False
        await kills
        found = await identities(Client(world.node("reader"), broker.address))
        assert sorted(found) == sorted(names), f"{len(found)} rows are stored, of {len(names)}"
        await broker.node.stop()

    World(seed).run(run)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_rows_are_stored_once_over_kills(*, power: bool, late: bool) -> None:
    for seed in range(2 if power else 6):
        rows_over_kills(seed, power=power, late=late)

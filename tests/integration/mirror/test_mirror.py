"""Mirrors between real clusters of ours, as a library: copies, loops, groups that move, restarts."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from firearrow import Consumer, Message, Producer
from firearrow.admin import Admin
from firearrow.client import ReceivedMessage, StoredMessage
from firearrow.errors import NoSuchName, PartlyDone, SettingsError
from firearrow.mirror.mirror import Mirror, Order, Side
from firearrow.model import MessageQueue, keys
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopic
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.testing import Cluster

pytestmark = pytest.mark.real

TOPIC = "orders"


def order(source: Cluster, target: Cluster, names: tuple[str, str] = ("east", "west"), topics: str = TOPIC) -> Order:
    return Order(
        Side(source.address, name=names[0]), Side(target.address, name=names[1]), (topics,), groups_every_s=0.05
    )


async def copy_once(wanted: Order, state: Path, said: list[str] | None = None) -> Mirror:
    disk, lines = RealDisk(str(state)), [] if said is None else said
    try:
        mirror = Mirror(wanted, disk, SystemClock(), random.Random(1), say=lines.append)
        await mirror.run(once=True)
        return mirror
    finally:
        await disk.close()


@asynccontextmanager
async def running(wanted: Order, state: Path) -> AsyncIterator[Mirror]:
    disk = RealDisk(str(state))
    mirror = Mirror(wanted, disk, SystemClock(), random.Random(1), say=lambda _: None)
    task = asyncio.create_task(mirror.run(once=False))
    try:
        yield mirror
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await disk.close()


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def send(cluster: Cluster, count: int, word: str = "m", topic: str = TOPIC, queues: int = 4) -> None:
    async with Producer(cluster.address, group="shop") as producer:
        for number in range(count):
            queue = MessageQueue(topic, cluster.broker_names[0], number % queues)
            body = f"{word}-{number}".encode() * (2000 if number % 7 == 0 else 1)  # some are compressed
            await producer.send(
                Message(topic, body, {"n": str(number)}, 3, tag=f"t{number % 2}", keys=f"k{number}"), queue=queue
            )


def by_queue(messages: list[StoredMessage]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for message in sorted(messages, key=lambda each: each.queue_offset):
        found.setdefault(message.queue_id, []).append(message.body)
    return found


def test_a_copy_has_queue_order_tags_keys_properties_flag_and_born_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=4)
            await send(east, 100)
            exact = Order(*_sides(east, west), (TOPIC,), born_spread_ms=0)
            mirror = await copy_once(exact, tmp_path / "state")
            first, copies = await east.messages(TOPIC), await west.messages(TOPIC)
            assert by_queue(copies) == by_queue(first)
            kept = {(each.queue_id, each.body): each for each in first}
            for copy in copies:
                message = kept[copy.queue_id, copy.body]
                same = ("tag", "keys", "unique_key", "flag", "born_timestamp")
                assert [getattr(copy, name) for name in same] == [getattr(message, name) for name in same]
                assert copy.properties["n"] == message.properties["n"]
                assert copy.properties[keys.MIRROR_PATH] == "east"
            assert (mirror.progress.total("copied"), mirror.progress.lag) == (100, 0)
            assert [each.read_queues for each in (await west.admin.topics.describe(TOPIC)).brokers] == [4]
            # Nothing is copied twice by another run.
            assert (await copy_once(exact, tmp_path / "state")).progress.total("copied") == 0
            assert len(await west.messages(TOPIC)) == 100

    asyncio.run(scenario())


def _sides(source: Cluster, target: Cluster) -> tuple[Side, Side]:
    return Side(source.address, name="east"), Side(target.address, name="west")


def test_two_mirrors_there_and_back_do_not_make_a_loop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=4)
            await west.create_topic(TOPIC, queues=4)
            there, back = order(east, west), order(west, east, ("west", "east"))
            async with running(there, tmp_path / "there") as first, running(back, tmp_path / "back") as second:
                sent = [asyncio.create_task(send(east, 40, "e"))]
                async with Producer(west.address, group="shop") as producer:
                    for number in range(40):
                        await producer.send(Message.of(TOPIC, b"w-%d" % number))
                await asyncio.gather(*sent)
                await until(lambda: first.progress.total("copied") == 40 == second.progress.total("copied"))
                await until(lambda: first.progress.total("looped") == 40 == second.progress.total("looped"))
                await until(lambda: first.progress.lag == 0 == second.progress.lag)
            for cluster in (east, west):
                bodies = [message.body for message in await cluster.messages(TOPIC)]
                assert len(bodies) == 80 == len(set(bodies))

    asyncio.run(scenario())


def test_a_group_that_moves_goes_on_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=4)
            await west.create_topic(TOPIC, queues=4)
            async with Producer(west.address, group="shop") as producer:  # target offsets differ from source offsets
                for _ in range(10):
                    await producer.send(Message.of(TOPIC, b"local"))
            seen: list[bytes] = []
            await consume(west, seen, 10)  # else the group would get them when it moves, and all behind them
            await send(east, 60)
            await consume(east, seen, 70)
            await send(east, 40, "later")
            mirror = await copy_once(order(east, west), tmp_path / "state")
            assert mirror.progress.groups == 1
            moved: list[bytes] = []
            await consume(west, moved, 40)
            later = [message.body for message in await east.messages(TOPIC) if b"later" in message.body]
            assert sorted(moved) == sorted(later), "neither lost nor repeated"
            # What the group consumed at its new place is not taken back by the next translation.
            await copy_once(order(east, west), tmp_path / "state")
            assert (await west.admin.groups.describe("kitchen")).lag == 0

    asyncio.run(scenario())


async def consume(cluster: Cluster, seen: list[bytes], count: int) -> None:
    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with Consumer(cluster.address, group="kitchen", topics=TOPIC, start="first", persist_ms=50) as consumer:
        task = asyncio.create_task(consumer.run(handle))
        await until(lambda: len(seen) >= count)
        await cluster.consumed("kitchen", TOPIC)
        consumer.stop()
        await task


def test_brokers_that_stop_and_come_back_cost_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=4)
            async with running(order(east, west), tmp_path / "state") as mirror:
                await send(east, 50, "a")
                await until(lambda: mirror.progress.total("copied") == 50)
                await west.kill_broker()
                await send(east, 50, "b")
                await until(lambda: mirror.progress.total("retries") > 0)
                await west.start_broker()
                await until(lambda: mirror.progress.total("copied") == 100)
                await east.kill_broker()
                await east.start_broker()
                await send(east, 50, "c")
                await until(lambda: mirror.progress.total("copied") == 150)
            assert by_queue(await west.messages(TOPIC)) == by_queue(await east.messages(TOPIC))

    asyncio.run(scenario())


def test_two_source_brokers_share_one_target_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(brokers=2) as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=2)
            async with Producer(east.address, group="shop") as producer:
                for number in range(40):
                    await producer.send(Message.of(TOPIC, b"%d" % number))
            await copy_once(order(east, west, topics="or*"), tmp_path / "state")
            copies = await west.messages(TOPIC)
            assert sorted(copy.body for copy in copies) == sorted(b"%d" % number for number in range(40))
            assert {copy.queue_id for copy in copies} == {0, 1, 2, 3}

    asyncio.run(scenario())


def test_mistakes_are_told_before_anything_is_copied(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC)
            with pytest.raises(SettingsError, match="both clusters are called DefaultCluster"):
                await copy_once(order(east, west, ("", "")), tmp_path / "a")
            with pytest.raises(SettingsError, match="source and target are the same cluster"):
                await copy_once(order(east, east), tmp_path / "a")
            with pytest.raises(NoSuchName, match="no topic 'absent'"):
                await copy_once(order(east, west, topics="absent"), tmp_path / "a")
            with pytest.raises(SettingsError, match="is a system topic, which is not copied"):
                await copy_once(order(east, west, topics="SCHEDULE_TOPIC_XXXX"), tmp_path / "a")
            await copy_once(order(east, west), tmp_path / "b")
            with pytest.raises(SettingsError, match="belongs to the mirror east -> west"):
                await copy_once(order(east, west, ("east", "north")), tmp_path / "b")

    asyncio.run(scenario())


def test_queues_that_a_topic_has_lost_by_shrinking_are_copied(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=4)
            await send(east, 100)
            first = by_queue(await east.messages(TOPIC))
            async with Admin(east.address) as admin:
                await admin.topics.update(TOPIC, queues=1)
                await until_routed(admin, queues=1)
            mirror = await copy_once(order(east, west), tmp_path / "state")
            assert by_queue(await west.messages(TOPIC)) == first
            assert (mirror.progress.total("copied"), mirror.progress.lag) == (100, 0)

    asyncio.run(scenario())


def test_a_broker_on_which_the_topic_has_no_queues_is_copied_and_a_closed_one_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(brokers=2) as east, Cluster(brokers=["other"]) as west:
            name, said = east.broker_names[0], list[str]()
            await east.create_topic(TOPIC, queues=4)
            await send(east, 100)
            async with Admin(east.address) as admin:
                await admin.topics.update(TOPIC, broker=name, perm=PERM_WRITE)
                with pytest.raises(PartlyDone, match=f"4 queues were left out.*{name}:0, {name}:1, .* --perm rw"):
                    await copy_once(order(east, west), tmp_path / "state", said)
                left_out = [
                    line for line in said if f"is not copied: the topic has no permission to read on {name}" in line
                ]
                assert [line.partition(" is not copied")[0] for line in left_out] == [
                    f"queue {name}:{number} of orders" for number in range(4)
                ]
                await admin.topics.update(TOPIC, broker=name, perm=PERM_READ | PERM_WRITE)
                await without_queues(admin, name)
                mirror = await copy_once(order(east, west), tmp_path / "state")
                assert len(await west.messages(TOPIC)) == 100
                assert mirror.progress.lag == 0

    asyncio.run(scenario())


async def without_queues(admin: Admin, broker: str) -> None:
    """Leave a topic without queues on one broker."""
    master = next(each for each in await admin.brokers.masters() if each.name == broker)
    request = UpdateAndCreateTopic(
        topic=TOPIC,
        default_topic="",
        read_queue_nums=0,
        write_queue_nums=0,
        perm=PERM_READ | PERM_WRITE,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    await admin.brokers.ask(master.at, request)


async def until_routed(admin: Admin, queues: int) -> None:
    """Wait until name servers show that many queues of the topic."""

    async def shown() -> int:
        route = await admin.brokers.route(TOPIC)
        return 0 if route is None else sum(each.read_queue_nums for each in route.queue_datas)

    async with asyncio.timeout(60):
        while await shown() != queues:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_topic_made_anew_and_filled_to_the_mark_is_told(tmp_path: Path, is_told: bool) -> None:
    """Whether the broker tells the life of the topic, as ours do, or the message before the mark must."""

    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=2)
            await send(east, 40, queues=2)
            state = tmp_path / "state"
            assert (await copy_once(order(east, west), state)).progress.total("copied") == 40
            if not is_told:
                marks = state / f"{TOPIC}.json"
                marks.write_text(re.sub(r'"life":\d+', '"life":0', marks.read_text()))
            await east.admin.topics.delete(TOPIC)
            await east.create_topic(TOPIC, queues=2)
            await send(east, 40, "again", queues=2)
            with pytest.raises(SettingsError, match=r"was copied up to offset 20, but the topic was made anew"):
                await copy_once(order(east, west), state)

    asyncio.run(scenario())

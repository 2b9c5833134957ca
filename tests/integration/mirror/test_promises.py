"""The promises of the guide on mirrors: TLS, damaged messages, a start at the end, rings, delays, transactions,
rows."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from firearrow import Message, Producer
from firearrow.client import PullConsumer, TransactionState
from firearrow.mirror.mirror import Order, Side
from firearrow.model import keys
from firearrow.runtime.tls_settings import ClientTls
from firearrow.testing import Cluster
from firearrow.testing.certificates import self_signed
from judges import FireArrowBroker, FireArrowNameServer
from tests.integration.mirror.test_mirror import TOPIC, copy_once, order, running, send, until

pytestmark = pytest.mark.real


def test_a_target_that_takes_tls_alone(tmp_path: Path) -> None:
    files = self_signed(str(tmp_path), name="good")
    secured = {"tls.certificate_path": files.certificate_path, "tls.key_path": files.key_path}
    tls = ClientTls(enabled=True, verify_server=True, trust_path=files.certificate_path)

    async def scenario(target: str) -> None:
        async with Cluster() as east:
            await east.create_topic(TOPIC, queues=2)
            await send(east, 20, queues=2)
            wanted = Order(Side(east.address, name="east"), Side(target, {"tls": tls}, "west"), (TOPIC,))
            assert (await copy_once(wanted, tmp_path / "state")).progress.total("copied") == 20
        async with PullConsumer(target, group="reading", tls=tls) as reader:
            assert sum(bounds.end for bounds in (await reader.bounds(TOPIC)).values()) == 20

    with (
        FireArrowNameServer(settings={**secured, "tls.mode": "permissive"}) as names,
        FireArrowBroker(name_servers=[names.address], settings={**secured, "tls.mode": "permissive"}),
    ):
        asyncio.run(scenario(names.address))


def test_a_damaged_message_that_our_broker_does_not_serve_is_missed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(directory=tmp_path / "east") as east:
            await east.create_topic(TOPIC, queues=1)
            await send(east, 12, queues=1)
        async with Cluster(directory=tmp_path / "east") as east, Cluster(brokers=["other"]) as west:
            _damage(tmp_path / "east", b"m-5")
            mirror = await copy_once(order(east, west), tmp_path / "state")
            assert (mirror.progress.total("missed"), mirror.progress.total("copied")) == (1, 11)
            assert len(await west.messages(TOPIC)) == 11

    asyncio.run(scenario())


def _damage(directory: Path, body: bytes) -> None:
    """Change the only occurrence of a body in the log on disk."""
    (path,) = [path for path in sorted(directory.rglob("commitlog/*")) if body in path.read_bytes()]
    data = path.read_bytes()
    assert data.count(body) == 1
    with path.open("r+b") as file:
        file.seek(data.index(body))
        file.write(body[::-1])


def test_a_mirror_that_starts_at_the_end_leaves_out_what_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=2)
            await send(east, 10, "old", queues=2)
            wanted = replace(order(east, west), start="last")
            assert (await copy_once(wanted, tmp_path / "state")).progress.total("copied") == 0
            await send(east, 6, "new", queues=2)
            assert (await copy_once(wanted, tmp_path / "state")).progress.total("copied") == 6
            assert all(message.body.startswith(b"new") for message in await west.messages(TOPIC))

    asyncio.run(scenario())


def test_a_ring_of_three_clusters_has_every_message_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as a, Cluster(brokers=["b"]) as b, Cluster(brokers=["c"]) as c:
            ring = {"a": a, "b": b, "c": c}
            for cluster in ring.values():
                await cluster.create_topic(TOPIC, queues=2)
            ways = [order(ring[x], ring[y], (x, y)) for x, y in (("a", "b"), ("b", "c"), ("c", "a"))]
            async with (
                running(ways[0], tmp_path / "ab") as ab,
                running(ways[1], tmp_path / "bc") as bc,
                running(ways[2], tmp_path / "ca") as ca,
            ):
                for name, cluster in ring.items():
                    async with Producer(cluster.address, group="shop") as producer:
                        for number in range(10):
                            await producer.send(Message.of(TOPIC, f"{name}-{number}".encode()))
                mirrors = (ab, bc, ca)
                await until(lambda: all(mirror.progress.total("copied") == 20 for mirror in mirrors))
                await until(lambda: all(mirror.progress.total("looped") == 10 for mirror in mirrors))
            for cluster in ring.values():
                bodies = [message.body for message in await cluster.messages(TOPIC)]
                assert len(bodies) == 30 == len(set(bodies))

    asyncio.run(scenario())


def test_delays_transactions_and_rows_are_copied_as_plain_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await east.create_topic(TOPIC, queues=1)
            await _send_special(east.address)
            await until_stored(east, 3)
            await copy_once(order(east, west), tmp_path / "state")
            copies = {message.body: message for message in await west.messages(TOPIC)}
            assert sorted(copies) == [b"committed", b"row", b"soon"], "not what waits, nor half messages"
            own = ("DELAY", "TRAN_MSG", keys.REAL_TOPIC, keys.TIMER_OUT_MS)
            assert [name for copy in copies.values() for name in own if name in copy.properties] == []
            assert copies[b"row"].properties[keys.MIRROR_ROW_ID] == "row-1"
            assert copies[b"row"].properties[keys.ROW_ID] != "row-1"

    asyncio.run(scenario())


async def _send_special(address: str) -> None:
    async def check(_message: object) -> TransactionState:
        return TransactionState.UNKNOWN

    async with Producer(address, group="shop", check=check) as producer:
        await producer.send(Message.of(TOPIC, b"soon", delay_level=1))
        await producer.send(Message.of(TOPIC, b"in an hour", delay=timedelta(hours=1)))
        await producer.send(Message(TOPIC, b"row", {keys.ROW_ID: "row-1"}))
        async with producer.transaction(Message.of(TOPIC, b"committed")):
            pass
        pending = producer.transaction(Message.of(TOPIC, b"perhaps"))
        await pending.__aenter__()


async def until_stored(cluster: Cluster, count: int) -> None:
    async with asyncio.timeout(60):
        while len(await cluster.messages(TOPIC)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

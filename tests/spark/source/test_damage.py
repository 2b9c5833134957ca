"""Messages that a broker holds and cannot hand out, or that cannot be read: told with their offsets."""

import asyncio
import zlib
from pathlib import Path

import pytest

from firearrow.blocking import Message
from firearrow.client import Producer
from firearrow.errors import FireArrowError
from firearrow.record.compression import Codec, with_codec
from firearrow.spark.source.reader import DataLost
from firearrow.testing.blocking import Cluster
from tests.spark.source.reading import numbered, numbers, read, rows_between, send, stream

pytestmark = pytest.mark.real


def test_a_record_that_the_broker_cannot_read_is_a_loss(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path) as cluster:
        topic = cluster.create_topic("orders", queues=1)
        bodies = [b"message-%d" % number for number in range(10)]
        send(cluster.address, [Message.of(topic, body) for body in bodies])
        cluster.stop_broker()
        log = min((tmp_path / cluster.broker_names[0] / "commitlog").iterdir())
        with log.open("r+b") as file:
            file.seek(file.read(1 << 16).index(b"message-5"))
            file.write(b"X")
        cluster.start_broker()
        told = {"nameServer": cluster.address, "subscribe": topic, "startingOffsets": "earliest"}
        with pytest.raises(DataLost, match=r"1 messages of orders on .*, queue 0, offsets 5 to 5"):
            read(told, ["body"])
        reader = stream(told)
        start = reader.initialOffset()
        with pytest.raises(DataLost, match="offsets 5 to 5"):
            rows_between(reader, start, reader.latestOffset(start, None))
        lenient = read({**told, "failOnDataLoss": "false"}, ["body"])["body"]
        assert lenient == [body for body in bodies if body != b"message-5"]


@pytest.mark.parametrize(
    ("body", "says"),
    [(b"not zlib at all", "does not decompress"), (zlib.compress(bytes(8 << 20)), "or raise maxBodyBytes")],
)
def test_a_poisonous_body_is_named_and_can_be_kept(body: bytes, says: str) -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("orders", queues=1)
        send(cluster.address, numbered(topic, 3))
        send_packed(cluster.address, topic, body)
        send(cluster.address, numbered(topic, 2, 3))
        told = {"nameServer": cluster.address, "subscribe": topic}
        with pytest.raises(FireArrowError, match=rf"offset 3 of {topic} on .*, queue 0: .*{says}"):
            read(told, ["body"])
        table = read({**told, "badBodies": "keep"}, ["body", "sys_flag"])
        assert table["body"] == [b"0", b"1", b"2", body, b"3", b"4"]
        assert [flag & 1 for flag in table["sys_flag"]] == [0, 0, 0, 1, 0, 0]
        plain = numbers({**told, "endingOffsets": '{"orders": 3}'})
        assert plain == [0, 1, 2]


def send_packed(address: str, topic: str, body: bytes) -> None:
    """Send a body as it is, marked as compressed."""
    from msgspec.structs import replace

    async def send_it() -> None:
        async with Producer(address, group="poison-test") as producer:
            made = producer._prepared(Message.of(topic, b"?"))
            await producer._delivery.send(replace(made, body=body, sys_flag=with_codec(0, Codec.ZLIB)), None, None)

    asyncio.run(send_it())

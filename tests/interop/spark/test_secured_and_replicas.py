"""Features that only Apache's brokers serve so far: accounts, TLS, replicas."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from firearrow.blocking import Message, Producer
from firearrow.errors import AccessDenied, FireArrowError
from firearrow.runtime.tls_settings import ClientTls
from firearrow.spark.sink.writer import BatchWriter
from judges import ApacheBroker, ApacheNameServer, fresh
from judges.server_process import answers, wait_for
from tests.interop.client.secured import OWNER, SecuredBroker, TlsBroker, certified
from tests.spark.source.conftest import APACHE
from tests.spark.source.reading import numbered, numbers, read, rows_between, send, stream, wait_until

pytestmark = [pytest.mark.apache, pytest.mark.real]

GET_TOPICS = 21


@pytest.fixture(scope="module")
def signed() -> Iterator[dict[str, str]]:
    """Options by which a broker that checks accounts is reached."""
    with ApacheNameServer(APACHE) as names, SecuredBroker(APACHE, names.address):
        yield {"nameServer": names.address, "accessKey": OWNER[0], "secretKey": OWNER[1]}


def topic_with(signed: dict[str, str], body: bytes) -> str:
    """A new topic with one message."""
    topic, (access, secret) = fresh("secured"), OWNER
    with Producer(signed["nameServer"], group="P", access_key=access, secret_key=secret) as producer:
        producer.send(Message.of(topic, body))
    wait_until(lambda: numbers({**signed, "subscribe": topic}) == [int(body)], "the row")
    return topic


def test_accounts(signed: dict[str, str]) -> None:
    topic = topic_with(signed, b"1")
    allowed = {**signed, "subscribe": topic}
    assert numbers({**signed, "subscribePattern": topic}) == [1]
    reader = stream({**allowed, "startingOffsets": "earliest", "groupId": "G"})
    start = reader.initialOffset()
    assert rows_between(reader, start, reader.latestOffset(start, None)) == [1]
    with pytest.raises(FireArrowError):
        read({**allowed, "secretKey": "wrong", "fetchRetries": "0"})


def test_the_sink_with_an_account(signed: dict[str, str]) -> None:
    topic = topic_with(signed, b"0")
    target, reading = {**signed, "topic": topic}, {**signed, "subscribe": topic}
    assert write(target, [1, 2, 3]) == 3
    wait_until(lambda: numbers(reading) == [0, 1, 2, 3], "the rows")
    with pytest.raises(AccessDenied):
        write({**target, "secretKey": "wrong", "retryTimeoutMs": "0"}, [4])
    with pytest.raises(AccessDenied):
        write({"nameServer": signed["nameServer"], "topic": topic, "retryTimeoutMs": "0"}, [5])
    assert numbers(reading) == [0, 1, 2, 3]


def write(options: dict[str, str], rows: list[int]) -> int:
    """Write numbers as Spark does: the writer is made in one process and used in another."""
    schema = StructType([StructField("body", BinaryType())])
    writer = pickle.loads(pickle.dumps(BatchWriter(options, schema, overwrite=False)))
    bodies = pa.array([b"%d" % row for row in rows], pa.binary())
    sent: int = writer.write(iter([pa.record_batch([bodies], ["body"])])).rows
    return sent


def test_tls(tmp_path: Path) -> None:
    certificate, flags = certified(tmp_path)
    with ApacheNameServer(APACHE, flags=flags) as names, TlsBroker(APACHE, names.address, flags):
        topic = fresh("tls")
        with Producer(names.address, group="P", tls=ClientTls(enabled=True)) as producer:
            producer.send(Message.of(topic, b"1"))
        over_tls = {"nameServer": names.address, "subscribe": topic, "tls": "true"}
        wait_until(lambda: numbers(over_tls) == [1], "the row")
        trusting = {**over_tls, "tlsVerify": "true", "tlsCaFile": str(certificate)}
        assert numbers(trusting) == [1]
        with pytest.raises(FireArrowError):
            read({**over_tls, "tlsVerify": "true", "fetchRetries": "0"})


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[ApacheBroker, ApacheBroker, str]]:
    """A master, its slave, and a topic that both have."""
    settings = {"slaveReadEnable": "true"}
    with (
        ApacheNameServer(APACHE) as names,
        ApacheBroker(APACHE, name_servers=[names.address], settings=settings) as master,
    ):
        topic = master.create_topic(fresh("copied"), 2)
        with ApacheBroker(APACHE, name_servers=[names.address], broker_id=1, settings=settings) as slave:
            wait_for(lambda: topic.encode() in (answers(slave.address, GET_TOPICS) or b""), "the slave's topics", 100)
            yield master, slave, topic


def test_replicas_spare_the_master(pair: tuple[ApacheBroker, ApacheBroker, str]) -> None:
    master, _, topic = pair
    send(master.name_servers[0], numbered(topic, 100))
    options = {"nameServer": master.name_servers[0], "subscribe": topic, "readFrom": "replica"}
    assert numbers(options) == list(range(100))
    reader = stream({**options, "startingOffsets": "earliest"})
    start = reader.initialOffset()
    planned = reader.partitions(start, reader.latestOffset(start, None))
    master.pause()
    try:
        rows = sum(batch.num_rows for part in planned for batch in reader.read(part))
    finally:
        master.resume()
    assert rows == 100, "the slave alone answers while the master stands still"

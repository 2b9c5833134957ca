"""What only Apache's brokers serve so far: accounts, TLS, replicas."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow.blocking import Message, Producer
from firearrow.errors import FireArrowError
from firearrow.runtime.tlssettings import ClientTls
from firearrow.testing.apache import ApacheBroker, ApacheNameServer, fresh
from firearrow.testing.apache.server import answers, wait_for
from tests.interop.client.secured import OWNER, SecuredBroker, TlsBroker, certified
from tests.spark.source.conftest import APACHE
from tests.spark.source.reading import numbered, numbers, read, rows_between, send, stream, wait_until

pytestmark = [pytest.mark.apache, pytest.mark.real]

GET_TOPICS = 21


def test_accounts() -> None:
    with ApacheNameServer(APACHE) as names, SecuredBroker(APACHE, names.address):
        topic, (access, secret) = fresh("secured"), OWNER
        with Producer(names.address, group="P", access_key=access, secret_key=secret) as producer:
            producer.send(Message.of(topic, b"1"))
        allowed = {"nameServer": names.address, "subscribe": topic, "accessKey": access, "secretKey": secret}
        wait_until(lambda: numbers(allowed) == [1], "the row")
        assert numbers({**allowed, "subscribe": "", "subscribePattern": topic}) == [1]
        reader = stream({**allowed, "startingOffsets": "earliest", "groupId": "G"})
        start = reader.initialOffset()
        assert rows_between(reader, start, reader.latestOffset(start, None)) == [1]
        with pytest.raises(FireArrowError):
            read({**allowed, "secretKey": "wrong", "fetchRetries": "0"})


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

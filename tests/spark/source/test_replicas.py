"""Rows that are read from a slave of ours, which spares its master: ``readFrom=replica``."""

from collections.abc import Iterator

import pytest

from firearrow.errors import FireArrowError
from judges import FireArrowBroker, FireArrowNameServer, fresh
from judges.server_process import answers, wait_for
from tests.spark.source.reading import numbered, numbers, read, send, stream

pytestmark = pytest.mark.real

GET_TOPICS = 21
COUNT = 100
Pair = tuple[FireArrowBroker, FireArrowBroker, str]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A master, its slave, and a topic with messages that both have."""
    settings = {"slaveReadEnable": "true"}
    with (
        FireArrowNameServer() as names,
        FireArrowBroker(name_servers=[names.address], settings=settings) as master,
    ):
        topic = master.create_topic(fresh("copied"), 2)
        with FireArrowBroker(name_servers=[names.address], broker_id=1, settings=settings) as slave:
            wait_for(lambda: topic.encode() in (answers(slave.address, GET_TOPICS) or b""), "the slave's topics", 100)
            send(names.address, numbered(topic, COUNT))
            yield master, slave, topic


def options_of(pair: Pair) -> dict[str, str]:
    return {"nameServer": pair[0].name_servers[0], "subscribe": pair[2], "readFrom": "replica"}


def test_the_slave_alone_answers_while_the_master_stands_still(pair: Pair) -> None:
    master, _, _ = pair
    options = options_of(pair)
    assert numbers(options) == list(range(COUNT))
    reader = stream({**options, "startingOffsets": "earliest"})
    start = reader.initialOffset()
    planned = reader.partitions(start, reader.latestOffset(start, None))
    master.pause()
    try:
        rows = sum(batch.num_rows for part in planned for batch in reader.read(part))
    finally:
        master.resume()
    assert rows == COUNT


def test_a_slave_that_serves_no_readers_is_told(pair: Pair) -> None:
    master, slave, topic = pair
    slave.stop()
    slave.settings["slaveReadEnable"] = "false"
    slave.start()
    try:
        with pytest.raises(FireArrowError, match="slaveReadEnable=true"):
            read({**options_of(pair), "fetchRetries": "0"})
        assert numbers({"nameServer": master.name_servers[0], "subscribe": topic}) == list(range(COUNT))
    finally:
        slave.stop()
        slave.settings["slaveReadEnable"] = "true"
        slave.start()

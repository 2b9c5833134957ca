"""An encoded batch is sent in the loop that opened the producer, and nowhere else."""

import asyncio
from collections.abc import Iterator

import pytest

from firearrow.client.producer.encoded import BatchProducer, EncodedBatch
from firearrow.errors import ClientClosed
from firearrow.model import EpochMs, Message, MessageQueue
from firearrow.record.batch import encode_batch
from firearrow.testing.blocking import Cluster


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs a little at a time."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("knows_route", [False, True])
def test_another_loop_is_refused_and_the_producer_goes_on(loop: asyncio.AbstractEventLoop, knows_route: bool) -> None:
    body = encode_batch([Message("T", b"x", {"UNIQ_KEY": "0" * 32})])
    batch = EncodedBatch("T", body, EpochMs(1))
    with Cluster() as cluster:
        cluster.create_topic("T", queues=1)
        producer = BatchProducer(cluster.address, group="P")
        queue = MessageQueue("T", cluster.broker_names[0], 0)
        loop.run_until_complete(producer.open())
        if knows_route:
            loop.run_until_complete(producer.queues("T"))
        with pytest.raises(ClientClosed, match="opened in another event loop"):
            asyncio.run(producer.send_encoded(batch, queue))
        assert loop.run_until_complete(producer.send_encoded(batch, queue)).name == "OK"
        loop.run_until_complete(producer.close())

"""Topics of large bodies that compress well, read by a Spark of 1 GiB: batches are bounded by inflated bytes."""

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

import pytest
from msgspec.structs import replace

from campaigns.rotation import this_turn
from firearrow.blocking import Message
from firearrow.client import Producer
from firearrow.record.compression import Codec, with_codec
from firearrow.testing.blocking import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

GIB: Final = 1 << 30
TOGETHER: Final = 64


@pytest.mark.rotating
@pytest.mark.parametrize(("count", "size"), this_turn([(12_000, 192_000), (560, 4_000_000)], __name__))
def test_a_topic_of_more_than_two_gib_is_read_under_a_driver_of_one(
    spark: "SparkSession", count: int, size: int
) -> None:
    assert spark._jvm.java.lang.Runtime.getRuntime().maxMemory() <= GIB  # type: ignore[union-attr]
    with Cluster() as cluster:
        topic = cluster.create_topic("orders", queues=2)
        asyncio.run(send(cluster.address, topic, count, size))
        reader = spark.read.format("rocketmq").option("nameServer", cluster.address).option("subscribe", topic)
        rows = reader.schema("queue_id int, queue_offset bigint, body binary").load()
        found = rows.selectExpr(
            "count(*)", "count(DISTINCT queue_id, queue_offset)", "sum(length(body))", "min(length(body))"
        ).collect()
    assert [tuple(row) for row in found] == [(count, count, count * size, size)]
    assert count * size > 2 * GIB


async def send(address: str, topic: str, count: int, size: int) -> None:
    """Send one body many times, compressed once."""
    packed = zlib.compress(b"x" * size)
    async with Producer(address, group="large-bodies") as producer:
        made = replace(producer._prepared(Message.of(topic, b"?")), body=packed, sys_flag=with_codec(0, Codec.ZLIB))
        for start in range(0, count, TOGETHER):
            sends = (producer._delivery.send(made, None, None) for _ in range(min(TOGETHER, count - start)))
            await asyncio.gather(*sends)

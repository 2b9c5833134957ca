"""Apache's brokers do not know CEL: our client says so, and sends them nothing that they would answer unfiltered."""

import asyncio

import pytest

from firearrow.client import Consumer, Message, Producer, PullConsumer, cel
from firearrow.errors import Unsupported
from judges import ApacheBroker, Mqadmin, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.shared import SharedServers

pytestmark = pytest.mark.apache

SAID = (
    r"does not filter topic .* by CEL, which FireArrow's brokers do and Apache's do not .*: use sql\(...\) .* accept="
)


@pytest.mark.parametrize("version", SERVER_VERSIONS)
def test_a_filter_by_cel_is_refused_before_it_is_sent(shared_servers: SharedServers, version: str) -> None:
    apache: ApacheBroker = shared_servers.broker(version)
    admin: Mqadmin = shared_servers.mqadmin(version)
    topic, group, names = apache.create_topic(fresh("cel"), 2), fresh("G"), apache.name_servers[0]

    async def story() -> None:
        async with Producer(names, group=fresh("P")) as producer:
            await producer.send(Message.of(topic, b"{}"))
        with pytest.raises(Unsupported, match=SAID):
            await Consumer(names, group=group, topics={topic: cel("body.amount > 1")}).open()
        async with PullConsumer(names, group=fresh("looker")) as consumer:
            for queue in await consumer.queues(topic):
                with pytest.raises(Unsupported, match=SAID):
                    await consumer.pull_bytes(queue, 0, expression=cel("body.amount > 1"))
        async with Consumer(names, group=group, topics=topic, wait_ready_ms=20_000) as subscribed:
            with pytest.raises(Unsupported, match=SAID):
                await subscribed.subscribe(topic, cel("body.amount > 1"))
            shown = await asyncio.to_thread(admin.run, f"consumerConnection -n {names} -g {group}")
            assert topic in shown
            assert "body.amount" not in shown

    asyncio.run(story())

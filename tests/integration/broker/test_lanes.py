"""Clients whose requests wait for long, beside others: a job of one client does not wait for those of another."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import unwrap

import pytest
from msgspec.structs import replace

from campaigns.samples import a_topic
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.client import Producer
from firearrow.model import Message
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.requests.message.query import QueryMessage, ViewMessageById
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from firearrow.runtime.disk.real_file import RealFile
from firearrow.testing import Cluster
from tests.integration.broker.conftest import Scenario
from tests.integration.broker.raw import Line
from tests.integration.broker.test_hostile_pulls import connections, until

pytestmark = pytest.mark.real

STORED = 3000
FLOOD = 300
"""Lookups that one client asks for: each walks all stored messages, so all of them take minutes."""
COLLIDING = QueryMessage(topic="t", key="BBBBBBBB", max_num=32, begin_timestamp=0, end_timestamp=1 << 60)
"""Java's hash of this key is that of the key that all stored messages have."""
SIMPLE = replace(COLLIDING, key="alone")
VIEW = ViewMessageById(offset=0)
BACK = ConsumerSendMsgBack(offset=0, group="g", delay_level=0, origin_topic="t", max_reconsume_times=16)
TOPIC = a_topic("new")


def lanes() -> Lanes:
    """The lanes of the broker that is connected to."""
    handlers = [one._by_code.get(RequestCode.QUERY_MESSAGE) for one in connections()]
    found: Lanes = unwrap(next(one for one in handlers if one is not None)).__self__._lanes
    return found


@asynccontextmanager
async def stored() -> AsyncIterator[Cluster]:
    """A cluster with many messages of one key, and one of another."""
    async with Cluster() as cluster:
        await cluster.create_topic("t", queues=1)
        async with Producer(cluster.address) as producer:
            await producer.send_batch([Message.of("t", b"x", keys=["AaAaAaAa"]) for _ in range(STORED)])
            await producer.send(Message.of("t", b"y", keys=["alone"]))
        yield cluster


async def ask_beside_lookups() -> None:
    async with stored() as cluster, Line(cluster.broker_address()) as bad, Line(cluster.broker_address()) as good:
        good.write(VIEW)
        await good.answers(1)
        bad.write(*[COLLIDING] * FLOOD)
        await until(lambda: lanes().waiting(WaitKind.INDEX) > FLOOD // 2, "the lookups wait")
        for request in (VIEW, SIMPLE, BACK, TOPIC):
            good.write(request)
            ((heading, _),) = await good.answers(1, 10)
            assert heading.code == 0, (request, heading)
        assert lanes().waiting(WaitKind.INDEX) > FLOOD // 2, "others had to wait until most lookups were done"


def test_nobody_waits_for_the_lookups_of_another_client(run: Callable[[Scenario], None]) -> None:
    run(ask_beside_lookups)


async def leave_lookups_behind() -> None:
    async with stored() as cluster, Line(cluster.broker_address()) as good:
        good.write(VIEW)
        await good.answers(1)
        async with Line(cluster.broker_address()) as bad:
            bad.write(*[COLLIDING] * FLOOD)
            await until(lambda: lanes().waiting(WaitKind.INDEX) > FLOOD // 2, "the lookups wait")
        work = lanes()
        await until(
            lambda: not work.waiting(WaitKind.INDEX) and not work._at_work, "the jobs of the client are dropped", 5
        )
        good.write(BACK)
        ((heading, _),) = await good.answers(1, 10)
        assert heading.code == 0


def test_jobs_of_an_ended_connection_are_dropped(run: Callable[[Scenario], None]) -> None:
    run(leave_lookups_behind)


async def read_beside_hung_syncs() -> None:
    cluster = Cluster()
    log = replace(cluster._settings.log, flush_disk_type="SYNC_FLUSH")
    cluster._settings = replace(cluster._settings, log=log)
    goes_on = asyncio.Event()
    sync = RealFile.sync

    async def hanging(self: RealFile) -> None:
        await goes_on.wait()
        await sync(self)

    async with cluster:
        await cluster.create_topic("t", queues=1)
        async with Producer(cluster.address) as producer:
            await producer.send(Message.of("t", b"x", keys=["alone"]))
        async with Line(cluster.broker_address()) as bad, Line(cluster.broker_address()) as good:
            bad.write(BACK)
            await bad.answers(1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(RealFile, "sync", hanging)
                bad.write(*[replace(BACK, group="new")] * 40)
                await until(lambda: len(lanes()._at_work) >= 32, "the send-backs wait until their topic is durable")
                good.write(VIEW)
                try:
                    ((heading, _),) = await good.answers(1, 10)
                finally:
                    goes_on.set()
                assert heading.code == 0
                assert {heading.code for heading, _ in await bad.answers(40)} == {0}


def test_a_read_does_not_wait_for_syncs(run: Callable[[Scenario], None]) -> None:
    run(read_beside_hung_syncs)

"""Servers that die, hang and come back, ours and Apache's: nothing acknowledged is lost, nothing stands still."""

import asyncio
from collections.abc import Iterator

import pytest

from judges import (
    ApacheBroker,
    ApacheNameServer,
    FireArrowBroker,
    FireArrowNameServer,
    fresh,
)
from judges.install.artifacts import SERVER_VERSIONS
from judges.server_process import Server
from tests.interop.client.conftest import OURS
from tests.interop.client.disturbed import Disturbed
from tests.interop.client.slices import rotating

pytestmark = pytest.mark.apache

SOON_S = 10.0
"""Two seconds on a quiet machine, which is what simulations hold the client to; this is for a busy one."""


@pytest.fixture(params=[*rotating(SERVER_VERSIONS), OURS])
def cluster(request: pytest.FixtureRequest) -> Iterator[tuple[Server, ApacheBroker]]:
    kind = str(request.param)
    if kind == OURS:
        with FireArrowNameServer() as names, FireArrowBroker(name_servers=[names.address]) as ours:
            yield names, ours
        return
    with ApacheNameServer(kind) as theirs, ApacheBroker(kind, name_servers=[theirs.address]) as broker:
        yield theirs, broker


def test_servers_come_and_go(cluster: tuple[Server, ApacheBroker]) -> None:
    names, broker = cluster
    topic = broker.create_topic(fresh("restarted"))

    async def story() -> None:
        async with Disturbed(broker.name_servers[0], topic) as both:
            await asyncio.to_thread(names.kill)
            await both.goes_on("the name server's death")
            await asyncio.to_thread(names.start)

            await asyncio.to_thread(broker.kill)
            await both.stands_still()
            await asyncio.to_thread(broker.start)
            await both.goes_on("the broker's restart")

            broker.pause()
            await both.stands_still(4.0)
            broker.resume()
            await both.goes_on("the broker's pause")

            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(names.kill)
            await asyncio.to_thread(names.start)
            await asyncio.to_thread(broker.start)
            await both.goes_on("the restart of both")
        print(f"{type(broker).__name__} {broker.version}: {both}")
        slowest = max(both.delays.values())
        assert slowest < SOON_S, f"messages came after {slowest:.1f} s: {both}"
        assert not any("not worth" in failure for failure in both.failures), both

    asyncio.run(story())

"""Stores that Apache's broker and ours read and write in turn, both versions of Apache's side by side."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from campaigns.faults.ledger import Ledger
from campaigns.store.ours import save_topics
from campaigns.store.talk import SETTINGS
from judges import ApacheBroker, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.shared import SharedServers

ZONES = {"4.9.7": "America/New_York", "5.5.0": "Asia/Shanghai"}
"""Apache names index files by local time: behind ours in the one, ahead in the other."""
BrokerOf = Callable[..., AbstractAsyncContextManager[ApacheBroker]]
Record = Callable[..., None]


def for_each_version(work: Callable[[str], Awaitable[None]]) -> None:
    """Do the same with both versions at once: most of the time is spent waiting for brokers to end."""

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            for version in SERVER_VERSIONS:
                group.create_task(_done(work, version))

    asyncio.run(both())


async def _done(work: Callable[[str], Awaitable[None]], version: str) -> None:
    try:
        await work(version)
    except Exception as error:
        error.add_note(f"with Apache {version}")
        raise


@pytest.fixture
def broker_of(shared_servers: SharedServers) -> BrokerOf:
    """Make a broker that is not started yet, with the topics of the plan in its store."""
    names = {version: shared_servers.name_server(version).address for version in SERVER_VERSIONS}

    @asynccontextmanager
    async def make(version: str, **settings: str) -> AsyncIterator[ApacheBroker]:
        name = fresh("store")
        flags = [f"-Duser.timezone={ZONES[version]}"]
        told = SETTINGS | settings
        broker = ApacheBroker(version, name_servers=[names[version]], name=name, settings=told, flags=flags)
        broker.store.mkdir(parents=True)
        await save_topics(broker.store)
        try:
            yield broker
        finally:
            await asyncio.to_thread(broker.close)

    return make


@pytest.fixture
def record() -> Record:
    """Keep the figures of a test in the ledger that the environment names."""
    ledger = Ledger("store-interop", os.environ.get("FIREARROW_LEDGER"))

    def keep(case: str, version: str, **figures: int) -> None:
        ledger.add({"case": case, "apache": version} | figures)

    return keep

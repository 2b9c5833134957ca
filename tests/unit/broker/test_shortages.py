"""Descriptors or memory run out for a while: nothing is fenced, and everything goes on when there are some again."""

import asyncio
import errno
from collections import Counter
from contextlib import suppress

import pytest
from msgspec.structs import replace

from firearrow.broker.settings.config import BrokerSettings
from firearrow.errors import DiskError, RequestRefused
from firearrow.runtime.disk.door import SHORTAGES, refusal
from firearrow.store.queue.consume_queue import ENTRY_BYTES
from firearrow.store.queue.table import QueueConfig
from firearrow.store.views import views
from firearrow.store.views.pressure import Pressure
from firearrow.testing.sim import disk
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import UNIQUE, Client, Simulated, settings_of, simulate

SHORT_S = 3.0
STALLED_SENDS = 1000
LIMIT = 1000


def settings(*, sync: bool) -> BrokerSettings:
    return replace(
        settings_of(sync=sync, flush_interval_commit_log=100),
        queues=QueueConfig(mapped_file_size_consume_queue=200, dispatch_flush_interval=100, max_open_queue_files=8),
    )


async def send_for(client: Client, seconds: float) -> list[bytes]:
    """Send all the while to one topic after the other; what was acknowledged."""
    loop, sent = asyncio.get_running_loop(), list[bytes]()
    end = loop.time() + seconds
    while loop.time() < end:
        body = b"%d" % len(sent)
        with suppress(RequestRefused):
            await client.send("T", body, queue_id=0)
            sent.append(body)
        await asyncio.sleep(0.02)
    return sent


async def stored(client: Client) -> list[bytes]:
    bodies: list[bytes] = []
    while some := await client.stored("T", 0, len(bodies)):
        bodies += [message.body for message in some]
    return bodies


def go_through(operation: str, number: int, *, sync: bool) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sent = await send_for(client, 1)
        broker.node.image.fail(operation, number=number, times=1_000_000)
        sent += await send_for(client, SHORT_S)
        broker.node.image.mend()
        before = len(sent)
        sent += await send_for(client, 2)
        assert len(sent) > before, "nothing is taken after the shortage"
        await broker.node.crash()
        await broker.start()
        assert set(sent) <= set(await stored(Client(world.node("reader"), broker.address)))

    simulate(scenario, settings(sync=sync))


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("operation", ["open", "create", "list", "read"])
def test_a_shortage_passes(operation: str, number: int, *, sync: bool) -> None:
    go_through(operation, number, sync=sync)


def takes_shortages_for_failures(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: running out of descriptors is an error like any other, and any error of a flush fences the log."""

    def plain(error: OSError, doing: str) -> DiskError:
        refused = refusal(error, doing)
        return DiskError(str(refused), refused.errno) if error.errno in SHORTAGES else refused

    patch.setattr(disk, "refusal", plain)
    patch.setattr(views, "LOST", (DiskError,))


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_failing_queue_or_index_does_not_stop_the_log(operation: str) -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await send_for(client, 1)
        for below in ("consumequeue", "index"):
            broker.node.image.fail(operation, number=errno.EIO, times=1_000_000, below=below)
        await send_for(client, SHORT_S)
        broker.node.image.mend()
        assert await send_for(client, 2), "nothing is taken after the disk recovered"

    simulate(scenario, settings(sync=True))


@pytest.mark.parametrize("sync", [False, True])
def test_a_shortage_that_fences_is_caught(monkeypatch: pytest.MonkeyPatch, *, sync: bool) -> None:
    takes_shortages_for_failures(monkeypatch)
    with pytest.raises(AssertionError, match="nothing is taken after the shortage"):
        go_through("create", errno.EMFILE, sync=sync)


async def take_keys(client: Client) -> int:
    """Send messages with keys until one is refused; how many were taken."""
    for taken in range(STALLED_SENDS):
        try:
            await client.send("T", properties=f"{UNIQUE}KEYS\x01k{taken}\x02")
        except RequestRefused as refused:
            return taken if "maxPendingQueueBytes" in refused.remark else -1
        await asyncio.sleep(0.01)
    return STALLED_SENDS


def taken_while_stalled(broken: str) -> int:
    """The number of messages that are taken while queues or index cannot be written."""

    async def scenario(_world: World, broker: Simulated, client: Client) -> int:
        await client.send("T", b"before")
        broker.node.image.fail("write", number=errno.ENOSPC, times=1_000_000, below=broken)
        taken = await take_keys(client)
        broker.node.image.mend()
        await asyncio.sleep(5)
        await client.send("T", b"after")
        return taken

    queues = replace(settings(sync=False).queues, max_pending_queue_bytes=4000)
    return simulate(scenario, replace(settings(sync=False), queues=queues))


@pytest.mark.parametrize("broken", ["consumequeue/", "index/"])
def test_sends_are_refused_when_what_leads_to_them_cannot_be_written(broken: str) -> None:
    assert 0 < taken_while_stalled(broken) < 400


@pytest.mark.parametrize("broken", ["consumequeue/", "index/"])
def test_the_limit_holds_between_two_flushes(broken: str) -> None:
    """A thousand messages a second come while a flush is tried once a second."""
    queues = replace(settings(sync=False).queues, max_pending_queue_bytes=LIMIT, dispatch_flush_interval=1000)

    async def scenario(_world: World, broker: Simulated, client: Client) -> int:
        broker.node.image.fail("write", number=errno.ENOSPC, times=1_000_000, below=broken)
        await client.send("T", b"nobody can be led to this")
        await asyncio.sleep(1.5)  # until the first flush has failed
        taken = 0
        for _ in range(STALLED_SENDS):
            with suppress(RequestRefused):
                await client.send("T", properties=f"{UNIQUE}KEYS\x01k\x02")
                taken += 1
        broker.node.image.mend()
        return taken

    assert 0 < simulate(scenario, replace(settings(sync=False), queues=queues)) <= LIMIT // ENTRY_BYTES


def takes_messages_whatever_waits(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: nobody asks how much waits."""
    patch.setattr(Pressure, "_refuse_if_full", lambda _self: None)


def test_memory_that_fills_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    takes_messages_whatever_waits(monkeypatch)
    assert taken_while_stalled("index/") == STALLED_SENDS


@pytest.mark.complaints("cannot be written", "sends are refused")
def test_what_waits_for_room_is_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        for level in (2, 3, 4):
            await client.send(properties=f"{UNIQUE}DELAY\x01{level}\x02")
        await client.send(properties=f"{UNIQUE}TIMER_DELAY_SEC\x015\x02")
        broker.node.image.leave_free(0)
        await asyncio.sleep(600)
        lines = Counter(record.getMessage().partition(":")[0] for record in caplog.records)
        assert 50 <= lines["delayed messages wait"] <= 61
        assert max(lines.values()) <= 61, lines
        times = [record.__dict__["times"] for record in caplog.records if record.msg == "delayed messages wait"]
        assert sum(times) > 1000, "every repeat is counted"
        await broker.node.crash()

    simulate(scenario)

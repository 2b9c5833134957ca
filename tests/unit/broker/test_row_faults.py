"""Rows on whole, simulated brokers: one identity with several bodies, and what goes wrong while a window is rebuilt."""

import asyncio
import errno
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from firearrow.broker.dedup import queue_tail, row_windows
from firearrow.broker.dedup.queue_tail import FoundRow
from firearrow.broker.dedup.window import WindowBounds, Windows
from firearrow.errors import DiskError, Overloaded, RequestRefused
from firearrow.model import Message, keys
from firearrow.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.send import SendAnswer, SendBatchMessage
from firearrow.record.batch import encode_batch
from firearrow.record.encode import Draft
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.store import Store
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import World
from tests.unit.broker.test_rows import boot_again, everything, row, send, send_batch
from tests.unit.broker.whole import Client, Simulated, a_send, settings_of, simulate


async def bodies(client: Client) -> list[bytes]:
    return [message.body for message in await everything(client)]


# ---- one identity, several bodies


def test_a_row_with_the_identity_of_another_is_stored(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        forger = Client(world.node("forger"), broker.address)
        await forger.send(body=b"garbage", properties=row("order"))
        first = (await client.send(body=b"the order", properties=row("order"))).answer
        assert isinstance(first, SendAnswer)
        assert await bodies(client) == [b"garbage", b"the order"]
        for boots in (False, True):
            if boots:
                await boot_again(broker)
            for body in (b"garbage", b"the order"):
                await client.send(body=body, properties=row("order"))
            again = (await client.send(body=b"the order", properties=row("order"))).answer
            assert isinstance(again, SendAnswer)
            assert again.msg_id == first.msg_id
            assert await bodies(client) == [b"garbage", b"the order"], "a repeat of either was stored"

    simulate(scenario)
    said = [record for record in caplog.records if "another body" in record.getMessage()]
    assert [vars(record)["rows"] for record in said] == [1]


def test_bodies_of_one_identity_in_a_batch_are_all_stored() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        messages = [Message("T", body, {keys.ROW_ID: "r"}) for body in (b"a", b"b", b"a", b"c")]
        for boots in (False, True):
            if boots:
                await boot_again(broker)
            answer = (await client.ask(a_send(kind=SendBatchMessage, batch=True), encode_batch(messages))).answer
            assert isinstance(answer, SendAnswer)
            assert answer.msg_id is not None
            ids = answer.msg_id.split(",")
            assert ids[0] == ids[2]
            assert len(set(ids)) == 3
            assert await bodies(client) == [b"a", b"b", b"c"]

    simulate(scenario)


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_repeat_of_rows_whose_write_is_undone_is_told_so(*, is_batch: bool) -> None:
    async def run(world: World) -> None:
        broker = Simulated(world.node("broker", disk=DiskProfile(sync_mean_s=0.3)), settings_of(sync=False))
        await broker.start()
        clients = [Client(world.node(name), broker.address) for name in ("first", "second")]
        for client in clients:
            await send_batch(client, "warm", "warm too")
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/")
        refused = []
        for client in clients:
            work = send_batch(client, "r", "r2") if is_batch else send(client, "r")
            refused.append(asyncio.create_task(work))
            await asyncio.sleep(0.02)  # the write has failed, and the sync of its cut has not ended
        for outcome in await asyncio.gather(*refused, return_exceptions=True):
            assert isinstance(outcome, RequestRefused)
            assert outcome.code == ResponseCode.SERVICE_NOT_AVAILABLE, outcome
        assert "undoes a failed write" in str(refused[1].exception())
        await broker.node.stop()

    World(3).run(run)


@pytest.mark.parametrize("boots", [False, True])
def test_delayed_bodies_of_one_identity_are_all_delivered(*, boots: bool) -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        delayed = row("r", **{keys.DELAY: "3"})
        for body in (b"a", b"b"):
            await client.send(body=body, properties=delayed)
        if boots:
            await boot_again(broker)
        for body in (b"a", b"b"):
            await client.send(body=body, properties=delayed)
            await client.send(body=body, properties=row("r"))
        await client.send(body=b"c", properties=row("r"))
        await asyncio.sleep(20)
        assert sorted(await bodies(client)) == [b"a", b"b", b"c"]

    simulate(scenario)


# ---- errors while sends wait


@pytest.mark.parametrize("topic", ["T", "new"], ids=["row", "topic"])
def test_a_send_that_waited_and_raises_is_answered_and_the_others_are_served(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row of a queue waits for its window, the first message of a topic for the topic."""
    append = CommitLog.append

    def overloaded(self: CommitLog, tail: Any, draft: Draft) -> Any:
        if draft.body == b"bad":
            raise Overloaded("the disk is behind; send again in a moment")
        return append(self, tail, draft)

    monkeypatch.setattr(CommitLog, "append", overloaded)

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        world.expected = (Overloaded,)
        await client.send("T")
        sends = [
            client.send(topic, body, properties=row(f"row {number}"))
            for number, body in enumerate((b"bad", b"good", b"bad", b"good"))
        ]
        outcomes = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), 2)
        assert [isinstance(outcome, RequestRefused) for outcome in outcomes] == [True, False, True, False]
        assert "the disk is behind" in str(outcomes[0])
        assert broker.node.running
        await client.send("T", b"next", queue_id=1, properties=row("next"))

    simulate(scenario)


@pytest.mark.parametrize("error", [DiskError("a read failed"), ValueError("a bug")], ids=["disk", "bug"])
def test_a_failed_rebuild_is_answered_and_keeps_nothing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Windows] = []

    class Kept(Windows):
        def __init__(self, bounds: WindowBounds, most: int) -> None:
            super().__init__(bounds, most)
            made.append(self)

    monkeypatch.setattr(row_windows, "Windows", Kept)
    read = queue_tail.rows_at_end
    fails_at = ""

    async def failing(
        store: Store, topic: str, queue_id: int, bounds: WindowBounds, now_ms: int, life_of: Callable[[str], int]
    ) -> AsyncIterator[list[FoundRow]]:
        async for rows in read(store, topic, queue_id, bounds, now_ms, life_of):
            yield rows
        if topic == fails_at:
            raise error

    monkeypatch.setattr(row_windows, "rows_at_end", failing)

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        nonlocal fails_at
        world.expected = (ValueError,)
        for number in range(3):
            await send(client, f"d{number}", **{keys.DELAY: "18"})
            await send(client, f"p{number}")
        await boot_again(broker)
        for fails_at in (TIMER_TOPIC, "T"):
            for _ in range(3):
                with pytest.raises(RequestRefused):
                    await client.ask(a_send(properties=row("p0")), b"x", timeout_ms=2000)
                delayed = 3 if fails_at == "T" else 0
                assert made[-1].size == delayed, "a rebuild that failed left identities behind"
        fails_at = ""
        await send(client, "p0")
        assert made[-1].size == 6
        assert len(await bodies(client)) == 3

    simulate(scenario)


# ---- what waits for what


def test_rows_wait_for_the_window_of_their_own_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    read, goes_on, calls = queue_tail.rows_at_end, asyncio.Event(), Counter[str]()

    async def slow(
        store: Store, topic: str, queue_id: int, bounds: WindowBounds, now_ms: int, life_of: Callable[[str], int]
    ) -> AsyncIterator[list[FoundRow]]:
        calls[topic] += 1
        if topic == "T":
            await goes_on.wait()
        async for rows in read(store, topic, queue_id, bounds, now_ms, life_of):
            yield rows

    monkeypatch.setattr(row_windows, "rows_at_end", slow)

    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for topic in ("T", "U", "V"):
            await client.send(topic)
        waits = asyncio.create_task(send(client, "r"))
        for topic in ("U", "V"):
            await asyncio.wait_for(send(client, "r", topic=topic), 2)
        assert not waits.done()
        goes_on.set()
        await waits
        assert (calls["T"], calls[TIMER_TOPIC]) == (1, 1), "the delayed rows are read once for all queues"
        assert calls[SCHEDULE_TOPIC] == 18

    simulate(scenario)

"""A transaction ends once: behind other messages with its key, after it was given up, and after restarts."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from firearrow.broker.transaction.journal import Journal
from firearrow.errors import FireArrowError
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.model.names import HALF_TOPIC, OP_HALF_TOPIC
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.protocol.requests.transaction.transaction import ResumeCheckHalfMessage
from firearrow.testing.sim.world import World
from tests.unit.broker.producers import UNKNOWN, TransactionClient, until
from tests.unit.broker.test_transaction_faults import NEVER_MS, bodies, given_up_id
from tests.unit.broker.test_transactions import now, producer, refusal, settings
from tests.unit.broker.whole import Client, Simulated, simulate

OTHERS = 20
RECENT_MOST = 2 << 20


async def again(
    world: World, broker: Simulated, rule: Callable[[Any], int | None] = lambda _: None, *, is_killed: bool = False
) -> tuple[TransactionClient, Client]:
    """Start the broker again; return another producer, which is connected, and another client."""
    await (broker.node.crash() if is_killed else broker.node.stop())
    await broker.start()
    name = f"again-{len(world.nodes)}"
    sender = producer(world, broker, rule, name)
    await sender.join()
    return sender, Client(world.node(f"{name}-reader"), broker.address)


async def given_up(
    world: World, broker: Simulated, client: Client
) -> tuple[TransactionClient, SendAnswer, ResumeCheckHalfMessage]:
    """Return a producer, its transaction that was given up, and the request that resumes it."""
    sender = producer(world, broker, lambda _: UNKNOWN)
    await sender.join()
    half = await sender.half(now_ms=now(broker))
    await asyncio.sleep(10)
    return sender, half, ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=await given_up_id(client))


async def send_others(client: Client, topic: str = "T") -> None:
    """Send messages whose KEYS name the transaction."""
    for number in range(OTHERS):
        await client.send(topic, b"answer", properties=f"UNIQ_KEY\x01X{number}\x02KEYS\x01K\x02", queue_id=0)


# ---- other messages with the key


@pytest.mark.parametrize("who", ["producer", "check"])
def test_a_final_message_is_seen_behind_others_with_its_key(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker))
        with monkeypatch.context() as context:
            context.setattr(Journal, "append_ops", lambda self, _: self.tail)  # the crash loses the op message alone
            await sender.end(half)
        await send_others(client)
        sender, client = await again(world, broker, lambda _: COMMIT, is_killed=True)
        if who == "producer":
            await sender.end(half)
        await asyncio.sleep(10)
        assert await bodies(client) == [b"hello"]
        assert not sender.questions

    simulate(scenario, settings(transaction_check_interval=1_000 if who == "check" else NEVER_MS))


def test_a_committed_transaction_is_not_resumed_behind_others_with_its_key() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender, half, resume = await given_up(world, broker, client)
        await sender.end(half)
        await send_others(client)
        _, client = await again(world, broker, lambda _: COMMIT)
        assert "the transaction is committed" in (await refusal(client.ask(resume)))[1]
        await asyncio.sleep(5)
        assert await bodies(client) == [b"hello"]

    simulate(scenario, settings(transaction_check_max=3))


def test_a_pending_half_is_found_behind_others_with_its_key() -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await until(lambda: len(sender.questions) >= 2)
        for number in range(OTHERS):
            await sender.half(b"other", now_ms=now(broker), key=f"X{number}", topic="Other", KEYS="K")
        sender, client = await again(world, broker)
        await sender.end(half)
        assert await bodies(client) == [b"hello"]

    simulate(scenario, settings(transaction_check_max=100))


def test_a_resumed_transaction_is_one_behind_others_with_its_key() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender, _, resume = await given_up(world, broker, client)
        for number in range(OTHERS):
            other = await sender.half(b"other", now_ms=now(broker), key=f"X{number}", topic="Other", KEYS="K")
            await sender.end(other, ROLLBACK)
        _, client = await again(world, broker)
        await client.ask(resume)
        halves = await client.stored(HALF_TOPIC, 0, 0)
        while more := await client.stored(HALF_TOPIC, 0, halves[-1].queue_offset + 1):
            halves += more
        last = [half.queue_offset for half in halves if half.properties["UNIQ_KEY"] == "K"]
        assert halves[-1].properties["__previousHalf__"] == str(last[-2])

    simulate(scenario, settings(transaction_check_max=3))


# ---- a rollback of what was given up


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_given_up_transaction_is_rolled_back_once(is_killed: bool) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender, half, resume = await given_up(world, broker, client)
        for _ in range(2):
            await sender.end(half, ROLLBACK)
        sender.rule = lambda _: COMMIT
        assert "already rolled back" in (await refusal(sender.end(half)))[1]
        assert "the transaction is rolled back" in (await refusal(client.ask(resume)))[1]
        sender, client = await again(world, broker, lambda _: COMMIT, is_killed=is_killed)
        assert (await refusal(sender.end(half)))[0] == 604
        assert "the transaction is rolled back" in (await refusal(client.ask(resume)))[1]
        await asyncio.sleep(5)
        assert not sender.questions
        assert await bodies(client) == []
        assert [op.properties["UNIQ_KEY"] for op in await client.stored(OP_HALF_TOPIC)].count("K") == 1

    simulate(scenario, settings(transaction_check_max=3))


@pytest.mark.parametrize("by", ["answer", "end"])
def test_a_resumed_transaction_that_was_rolled_back_stays_so(by: str) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender, half, resume = await given_up(world, broker, client)
        sender.rule = lambda _: ROLLBACK if by == "answer" else None
        await client.ask(resume)
        if by == "answer":
            await sender.asked_again()
            await asyncio.sleep(5)
        else:
            await sender.end(half, ROLLBACK)
        assert "the transaction is rolled back" in (await refusal(client.ask(resume)))[1]
        sender, client = await again(world, broker, lambda _: COMMIT)
        assert "the transaction is rolled back" in (await refusal(client.ask(resume)))[1]
        await asyncio.sleep(5)
        assert not sender.questions
        assert await bodies(client) == []

    simulate(scenario, settings(transaction_check_max=3))


def test_a_rollback_whose_write_failed_is_kept_later() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender, half, resume = await given_up(world, broker, client)
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/")
        with pytest.raises(FireArrowError):
            await sender.end(half, ROLLBACK)
        await asyncio.sleep(5)
        await sender.end(half, ROLLBACK)
        _, client = await again(world, broker)
        assert "the transaction is rolled back" in (await refusal(client.ask(resume)))[1]

    simulate(scenario, settings(transaction_check_max=3))


def test_a_rollback_after_a_crash_that_cut_the_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: UNKNOWN)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await until(lambda: len(sender.questions) == 3)
        with monkeypatch.context() as context:
            context.setattr(Journal, "append_ops", lambda self, _: self.tail)
            await asyncio.sleep(3)
            resume = ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=await given_up_id(client))
        broker.settings = settings(transaction_check_interval=NEVER_MS)
        sender, client = await again(world, broker, is_killed=True)
        await sender.end(half, ROLLBACK)
        _, client = await again(world, broker)
        assert "the transaction is rolled back" in (await refusal(client.ask(resume)))[1]

    simulate(scenario, settings(transaction_check_max=3))


def test_a_rollback_of_another_transaction_with_the_key_hinders_no_resumption() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender, _, resume = await given_up(world, broker, client)
        sender.rule = lambda _: ROLLBACK
        await sender.half(b"another", now_ms=now(broker))
        await sender.asked_again()
        await asyncio.sleep(2)
        _, client = await again(world, broker)
        assert [op.properties["UNIQ_KEY"] for op in await client.stored(OP_HALF_TOPIC)].count("K") == 1
        await client.ask(resume)

    simulate(scenario, settings(transaction_check_max=3))


def test_the_rollbacks_of_new_transactions_share_an_op_message() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        halves = [await sender.half(now_ms=now(broker), key=f"K{number}") for number in range(20)]
        await asyncio.gather(*(sender.end(half, ROLLBACK) for half in halves))
        assert len(await client.stored(OP_HALF_TOPIC)) < 20

    simulate(scenario, settings(transaction_check_interval=NEVER_MS))


# ---- memory


@pytest.mark.parametrize("size", [100, 300_000, 900_000, 4_000_000])
def test_the_last_half_messages_take_two_megabytes(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    fold = Journal._fold_halves

    def measured(self: Journal, pulled: Any) -> None:
        nonlocal most
        fold(self, pulled)
        records = (*self._recent.values(), *self._less_recent.values())
        most = max(most, sum({id(one.data): len(one.data) for one in records}.values()))

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        halves = [await sender.half(b"x" * size, now_ms=now(broker), key=f"K{number}") for number in range(10)]
        for half in halves:
            await sender.end(half)
        assert len(await bodies(client)) == 10

    monkeypatch.setattr(Journal, "_fold_halves", measured)
    simulate(scenario, settings(transaction_check_interval=NEVER_MS))
    assert most <= RECENT_MOST
    assert bool(most) == (size < 1 << 20)

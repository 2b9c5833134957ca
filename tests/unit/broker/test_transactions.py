"""Transactions on simulated brokers: ends, questions, restarts, retention."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.transaction_settings import TransactionConfig
from firearrow.broker.transaction.checks import AT_ONCE
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.journal import Journal
from firearrow.errors import RequestRefused
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from firearrow.protocol.requests.group.offset import QueryConsumerOffset
from firearrow.protocol.requests.message.query import ViewMessageById
from firearrow.protocol.requests.transaction.transaction import ResumeCheckHalfMessage
from firearrow.store.deletion import RetentionConfig
from firearrow.testing.sim.world import World
from tests.unit.broker.producers import UNKNOWN, TransactionClient, until
from tests.unit.broker.whole import Client, Simulated, settings_of, simulate

INTERVAL_MS = 1_000
TIMEOUT_MS = 2_000
HALVES = 3 * AT_ONCE + 8


def settings(*, sync: bool = False, **transactions: Any) -> BrokerSettings:
    values: dict[str, Any] = {"transaction_check_interval": INTERVAL_MS, "transaction_time_out": TIMEOUT_MS}
    return replace(settings_of(sync=sync), transactions=TransactionConfig(**{**values, **transactions}))


def producer(world: World, broker: Simulated, rule: Any = lambda _: None, name: str = "producer") -> TransactionClient:
    return TransactionClient(world.node(name), broker.address, rule)


def now(broker: Simulated) -> int:
    return broker.node.clock.now_ms()


async def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(RequestRefused) as refused:
        await call
    return int(refused.value.code), str(refused.value)


async def stored_offsets(client: Client) -> list[int]:
    """The offsets of the transactions' own group: in the half topic, and in the op topic."""
    offsets = []
    for topic in (HALF_TOPIC, OP_HALF_TOPIC):
        reply = await client.ask(QueryConsumerOffset(consumer_group=TRANSACTION_GROUP, topic=topic, queue_id=0))
        offsets.append(reply.answer.offset)
    return offsets


# ---- ends


@pytest.mark.parametrize("sync", [False, True])
def test_a_commit_makes_the_message_visible_once(sync: bool) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker))
        assert (half.queue_id, half.queue_offset, half.transaction_id) == (1, 0, "K")
        assert await client.stored(queue_id=1) == []
        await sender.end(half)
        [message] = await client.stored(queue_id=1)
        assert (message.body, message.flag, message.queue_id) == (b"hello", 7, 1)
        assert message.sys_flag & 12 == COMMIT
        assert message.prepared_transaction_offset == int(half.msg_id[-16:], 16)
        assert message.properties["__transactionId__"] == "K"
        assert not {"REAL_TOPIC", "REAL_QID", "TRAN_MSG", "__previousHalf__"} & set(message.properties)
        await sender.end(half)
        assert len(await client.stored(queue_id=1)) == 1, "a repeated commit is stored once"
        code, text = await refusal(sender.end(half, ROLLBACK))
        assert code == 604
        assert "already committed" in text
        assert await stored_offsets(client) == [1, 1]

    simulate(scenario, settings(sync=sync))


def test_a_rollback_leaves_nothing() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await sender.end(half, ROLLBACK)
        await sender.end(half, ROLLBACK)
        assert (await refusal(sender.end(half, COMMIT)))[0] == 604
        await asyncio.sleep(10)
        assert await client.stored(queue_id=1) == []
        assert sender.questions == []
        assert await stored_offsets(client) == [1, 1]

    simulate(scenario, settings())


def test_ends_of_one_turn_share_an_op_message() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        halves = [await sender.half(now_ms=now(broker), key=f"K{number}") for number in range(20)]
        await asyncio.gather(*(sender.end(half) for half in halves))
        assert len(await client.stored(queue_id=1)) == 20
        ops = await client.stored(OP_HALF_TOPIC)
        assert len(ops) < 20
        assert all(op.properties["TAGS"] == "d" for op in ops)
        named = [int(part) for op in ops for part in op.body.split(b",") if part]
        assert sorted(named) == list(range(20))

    simulate(scenario, settings())


def test_one_op_message_for_each_half_for_an_old_broker() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        halves = [await sender.half(now_ms=now(broker), key=f"K{number}") for number in range(5)]
        await asyncio.gather(*(sender.end(half) for half in halves))
        assert sorted(op.body for op in await client.stored(OP_HALF_TOPIC)) == [b"0", b"1", b"2", b"3", b"4"]

    simulate(scenario, settings(transaction_op_per_message=True))


WRONG = [
    ("group", {"producer_group": "Q"}, 1, "The producer group wrong"),
    ("queue offset", {"tran_state_table_offset": 5}, 1, "The transaction state table offset wrong"),
    ("place", {"commit_log_offset": 77}, 1, "Find prepared transaction message failed"),
    ("other", {"msg_id": "A" * 32, "transaction_id": "B" * 32}, 1, "Find prepared transaction message failed"),
]


@pytest.mark.parametrize(("changed", "code", "text"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_ends_are_refused(changed: dict[str, Any], code: int, text: str) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker))
        got, said = await refusal(sender.ask(replace(sender.end_of(half), **changed)))
        assert got == code
        assert text in said
        await sender.end(half)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


def test_a_message_of_a_topic_is_not_a_half_message() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        reply = await client.send(properties="UNIQ_KEY\x01K\x02PGROUP\x01P\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02")
        assert "Find prepared" in (await refusal(sender.end(reply.answer)))[1]

    simulate(scenario, settings())


def test_an_unknown_outcome_is_answered_and_changes_nothing() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker))
        await sender.end(half, UNKNOWN)
        await sender.end(half, COMMIT)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


def test_refused_by_setting() -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        code, text = await refusal(producer(world, broker).half(now_ms=now(broker)))
        assert code == 16
        assert "sending transaction message is forbidden" in text

    simulate(scenario, settings(reject_transaction_message=True))


def test_a_delay_counts_from_the_commit() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker), DELAY="2")
        await asyncio.sleep(8)
        await sender.end(half)
        assert await client.stored(queue_id=1) == []
        await asyncio.sleep(6)
        assert [message.body for message in await client.stored(queue_id=1)] == [b"hello"]

    simulate(scenario, settings())


# ---- questions


@pytest.mark.parametrize(("answer", "count"), [(COMMIT, 1), (ROLLBACK, 0)])
def test_a_producer_of_the_group_is_asked(answer: int, count: int) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker))
        other = producer(world, broker, lambda _: answer, "other")
        await other.join()
        await asyncio.sleep(TIMEOUT_MS / 1000 - 0.2)
        assert other.questions == [], "not before its time"
        await until(lambda: other.questions)
        [(request, message)] = other.questions
        assert (message.topic, message.queue_id, message.body, message.flag) == ("T", 1, b"hello", 7)
        assert request.tran_state_table_offset == 1
        assert request.msg_id == request.transaction_id == "K"
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
        await asyncio.sleep(5)
        assert len(await client.stored(queue_id=1)) == count
        assert len(other.questions) == 1
        assert await stored_offsets(client) == [2, 2]
        await refusal(sender.end(half, COMMIT if answer == ROLLBACK else ROLLBACK))

    simulate(scenario, settings())


def test_a_late_end_finds_its_transaction_under_the_new_offset() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await until(lambda: len(sender.questions) >= 3)
        await sender.end(half)
        assert len(await client.stored(queue_id=1)) == 1
        asked = len(sender.questions)
        await asyncio.sleep(10)
        assert len(sender.questions) == asked
        request, _ = sender.questions[-1]
        await sender.ask(
            sender.end_request(request.tran_state_table_offset, request.commit_log_offset, COMMIT, "K", True)
        )
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


def test_given_up_after_the_last_question_and_resumed() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: UNKNOWN)
        await sender.join()
        await sender.half(now_ms=now(broker))
        await asyncio.sleep(15)
        assert len(sender.questions) == 3
        [given_up] = await client.stored(CHECK_MAX_TIME_TOPIC)
        assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "3"
        assert given_up.properties["REAL_TOPIC"] == "T"
        half_done, _ = await stored_offsets(client)
        assert half_done == 4
        sender.rule = lambda _: COMMIT
        host = given_up.store_host
        message_id = "".join(f"{int(part):02X}" for part in host.ip.split(".")) + f"{host.port:08X}"
        await client.ask(
            ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=f"{message_id}{given_up.physical_offset:016X}")
        )
        await until(lambda: len(sender.questions) == 4)
        await asyncio.sleep(1)
        assert [message.body for message in await client.stored(queue_id=1)] == [b"hello"]

    simulate(scenario, settings(transaction_check_max=3))


def test_only_a_half_message_is_resumed() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        reply = await client.send()
        assert (
            "not a half message" in (await refusal(client.ask(ResumeCheckHalfMessage(msg_id=reply.answer.msg_id))))[1]
        )
        for wrong in ("", "zz", reply.answer.msg_id[:-1] + "5"):
            assert "Exception was thrown" in (await refusal(client.ask(ResumeCheckHalfMessage(msg_id=wrong))))[1]

    simulate(scenario, settings())


def test_nobody_is_counted_as_asked_when_nobody_is_there() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        await producer(world, broker).half(now_ms=now(broker))
        await asyncio.sleep(60)
        assert (await refusal(client.stored(CHECK_MAX_TIME_TOPIC)))[0] == 17, "there is no such topic yet"
        late = producer(world, broker, lambda _: COMMIT, "late")
        await late.join()
        await asyncio.sleep(5)
        assert len(await client.stored(queue_id=1)) == 1
        assert late.questions[0][1].properties["TRANSACTION_CHECK_TIMES"] == "1"

    simulate(scenario, settings())


def test_the_time_of_immunity_is_the_messages_own() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        await sender.join()
        half = await sender.half(now_ms=now(broker), CHECK_IMMUNITY_TIME_IN_SECONDS="20")
        await asyncio.sleep(19)
        assert sender.questions == []
        await until(lambda: sender.questions)
        code, _ = await refusal(sender.end(half))
        assert code == 604
        await asyncio.sleep(1)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


def test_another_producer_is_asked_when_one_is_gone() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        first = producer(world, broker, lambda _: None, "first")
        await first.join()
        await first.half(now_ms=now(broker))
        await first.caller.close()
        second = producer(world, broker, lambda _: COMMIT, "second")
        await second.join()
        await until(lambda: second.questions)
        await asyncio.sleep(1)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


# ---- restarts


@pytest.mark.parametrize("way", ["stop", "crash", "power_loss"])
def test_a_restart_knows_what_is_pending(way: str) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        committed = await sender.half(b"committed", now_ms=now(broker), key="K1")
        rolled_back = await sender.half(b"rolled back", now_ms=now(broker), key="K2")
        await sender.half(b"open", now_ms=now(broker), key="K3")
        await sender.end(committed)
        await sender.end(rolled_back, ROLLBACK)
        await getattr(broker.node, way)()
        await sender.caller.close()  # a loss of power does not tell it
        sender, client = (
            producer(world, broker, lambda _: COMMIT, "again"),
            Client(world.node("reader"), broker.address),
        )
        await broker.start()
        assert (await refusal(sender.end(rolled_back)))[0] == 604
        await sender.join()
        await until(lambda: sender.questions)
        await asyncio.sleep(5)
        bodies = [message.body for message in await client.stored(queue_id=1)]
        assert bodies == [b"committed", b"open"]
        assert [message.body for _, message in sender.questions] == [b"open"]

    # Synced, so that a loss of power loses nothing that was acknowledged.
    simulate(scenario, settings(sync=True, transaction_check_interval=3_000))


READ_S = 0.05
"""The time that a lookup waits for the device."""


def slow_device(patch: pytest.MonkeyPatch) -> None:
    """Let every lookup of a record wait for the device."""
    record_at = Journal.record_at

    async def slow(self: Journal, physical: int, size: int = 0) -> HalfRecord | None:
        await asyncio.sleep(READ_S)
        return await record_at(self, physical, size)

    patch.setattr(Journal, "record_at", slow)


@pytest.mark.parametrize("by", ["producer", "question"])
def test_old_half_messages_are_looked_up_side_by_side(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has forgotten the records of half messages; a device that is slow is not waited for once for each."""

    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker)
        halves = [await sender.half(now_ms=now(broker), key=f"K{number}") for number in range(AT_ONCE)]
        await broker.node.stop()
        await sender.caller.close()
        sender = producer(world, broker, lambda _: COMMIT, "again")
        await broker.start()
        slow_device(monkeypatch)
        began = asyncio.get_running_loop().time()
        if by == "producer":
            await asyncio.gather(*(sender.end(half) for half in halves))
        else:
            await sender.join()
            await until(lambda: len(sender.questions) == AT_ONCE)
        took_s = asyncio.get_running_loop().time() - began
        assert took_s < AT_ONCE * READ_S, f"{took_s:.1f} s for {AT_ONCE} half messages"

    simulate(scenario, settings(sync=True, transaction_check_interval=300 if by == "question" else 60_000))


@pytest.mark.parametrize("seed", range(5))
def test_the_counter_survives_crashes(seed: int) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: UNKNOWN)
        await sender.half(now_ms=now(broker))
        for _ in range(4):
            await sender.join()
            await sender.asked_again()
            await broker.node.crash()
            await broker.start()
        await sender.join()
        await until(lambda: len(sender.questions) >= 5)
        await asyncio.sleep(10)
        counted = [int(message.properties["TRANSACTION_CHECK_TIMES"]) for _, message in sender.questions]
        assert counted == [1, 2, 3, 4, 5]
        assert len(await client.stored(CHECK_MAX_TIME_TOPIC)) == 1

    simulate(scenario, settings(transaction_check_max=5), seed=seed)


# ---- retention


def test_a_pending_half_message_outlives_its_log_file() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        halves = [await sender.half(b"%d" % number, now_ms=now(broker), key=f"K{number}") for number in range(HALVES)]
        await sender.end(halves[0])
        for _ in range(80):
            await client.send("other", b"x" * 60_000)
        await asyncio.sleep(60)
        assert (await refusal(client.ask(ViewMessageById(offset=0))))[0] == 1, "the first file is deleted"
        assert "Find prepared" in (await refusal(sender.end(halves[1])))[1], "the broker asks about it instead"
        late = producer(world, broker, lambda message: COMMIT if message.body != b"5" else ROLLBACK, "late")
        await late.join()
        await until(lambda: len(late.questions) == HALVES - 1)
        await asyncio.sleep(1)
        seen = [0]  # deleted with its file
        while messages := await client.stored(queue_id=1, offset=len(seen)):
            seen += [int(message.body) for message in messages]
        assert sorted(seen) == [number for number in range(HALVES) if number != 5]
        half_done, _ = await stored_offsets(client)
        assert half_done > HALVES

    base = settings()
    small = replace(
        base,
        log=replace(base.log, mapped_file_size_commit_log=1 << 20),
        retention=RetentionConfig(
            file_reserved_time=0, delete_when=";".join(map(str, range(24))), clean_resource_interval=1_000
        ),
    )
    simulate(scenario, small)


# ---- a crash between the final message and the op message


@pytest.mark.parametrize("who", ["check", "producer", "rollback"])
def test_a_commit_whose_op_message_was_lost_is_not_stored_again(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The op message is not appended and the process dies: only the final message says that the transaction is over."""

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        half = await sender.half(b"once", now_ms=now(broker), key="AC11000100002A0000000000000000AA")
        await sender.half(b"open", now_ms=now(broker), key="AC11000100002A0000000000000000BB")
        with monkeypatch.context() as context:
            context.setattr(Journal, "append_ops", lambda self, _: self.tail)
            await sender.end(half)
        await broker.node.crash()
        await broker.start()
        sender, client = (
            producer(world, broker, lambda _: COMMIT, "again"),
            Client(world.node("reader"), broker.address),
        )
        if who == "producer":
            await sender.end(half)
        elif who == "rollback":
            assert "already committed" in (await refusal(sender.end(half, ROLLBACK)))[1]
        await sender.join()
        await until(lambda: sender.questions)
        await asyncio.sleep(5)
        assert [message.body for message in await client.stored(queue_id=1)] == [b"once", b"open"]
        assert [message.body for _, message in sender.questions] == [b"open"]
        half_done, _ = await stored_offsets(client)
        assert half_done == 3

    simulate(scenario, settings())

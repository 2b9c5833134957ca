"""Transactions on brokers whose disk is full or late, with producers that do not read: nothing is lost or doubled."""

import asyncio
import errno
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow import fastjson
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.transaction.journal import Journal
from firearrow.errors import FireArrowError, Overloaded, RequestRefused
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.protocol.requests.transaction.transaction import ResumeCheckHalfMessage
from firearrow.store.deletion import RetentionConfig
from firearrow.testing.sim.world import World
from tests.unit.broker.producers import UNKNOWN, TransactionClient, until
from tests.unit.broker.test_transactions import now, producer, refusal, settings
from tests.unit.broker.whole import Client, Simulated, simulate

NEVER_MS = 86_400_000


def small_files(interval_ms: int = 1_000, base: BrokerSettings | None = None) -> BrokerSettings:
    """Log files of 1 MiB, which expire at once."""
    base = base or settings()
    hours = ";".join(map(str, range(24)))
    retention = RetentionConfig(file_reserved_time=0, delete_when=hours, clean_resource_interval=interval_ms)
    return replace(base, log=replace(base.log, mapped_file_size_commit_log=1 << 20), retention=retention)


async def is_taken(call: Any) -> bool:
    try:
        await call
    except FireArrowError:
        return False
    return True


async def bodies(client: Client, topic: str = "T", queue_id: int = 1) -> list[bytes]:
    found: list[bytes] = []
    while messages := await client.stored(topic, queue_id, len(found)):
        found += [message.body for message in messages]
    return found


# ---- a write that fails


def test_commits_answered_with_success_are_stored_although_a_write_fails() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        halves = [await sender.half(bytes([n]) * 1500, now_ms=now(broker), key=f"K{n}") for n in range(10)]
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/")
        first = await asyncio.gather(*(is_taken(sender.end(half)) for half in halves))
        assert not all(first)
        await asyncio.sleep(3)
        assert all([await is_taken(sender.end(half)) for half in halves])
        await sender.join()
        await asyncio.sleep(20)
        assert sorted(body[0] for body in await bodies(client)) == list(range(10))

    base = settings()
    simulate(scenario, replace(base, log=replace(base.log, max_pending_bytes=4096)))


def test_a_check_whose_write_fails_loses_no_half() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        for n in range(10):
            await sender.half(bytes([n]) * 1500, now_ms=now(broker), key=f"K{n}")
        await asyncio.sleep(5)
        await sender.join()
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/")
        await asyncio.sleep(5)
        sender.rule = lambda _: COMMIT
        await asyncio.sleep(10)
        assert sorted(body[0] for body in await bodies(client)) == list(range(10))

    base = settings(transaction_check_max=1000)
    simulate(scenario, replace(base, log=replace(base.log, max_pending_bytes=4096)))


@pytest.mark.parametrize("sync", [True, False])
def test_a_repeated_commit_is_not_confirmed_before_the_first_is_kept(sync: bool) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender, second = producer(world, broker), producer(world, broker, name="second")
        half = await sender.half(now_ms=now(broker))
        await second.join()
        await asyncio.sleep(0.5)
        broker.node.image.slow("commitlog/", 0.5)
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/")
        first = asyncio.create_task(is_taken(sender.end(half)))
        await asyncio.sleep(0.1)
        again = await is_taken(second.end(half))
        assert not await first
        assert len(await client.stored(queue_id=1)) == again

    simulate(scenario, settings(sync=sync, transaction_check_interval=NEVER_MS))


def test_a_resumed_half_whose_write_fails_is_asked_about() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        half = await sender.half(now_ms=now(broker))
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/")
        await refusal(client.ask(ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=half.msg_id)))
        await asyncio.sleep(2)
        await sender.join()
        await asyncio.sleep(5)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


# ---- halves that cannot be written again


def test_properties_leave_room_for_the_brokers_own() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        code, text = await refusal(sender.half(now_ms=now(broker), key="BIG", big="x" * 32_400))
        assert code == 13
        assert "32511 bytes" in text
        await sender.half(now_ms=now(broker), key="FITS", big="x" * 32_200)
        await sender.join()
        await asyncio.sleep(5)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


def test_a_half_that_cannot_be_written_again_hinders_no_other() -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        await sender.half(b"x" * 2_000_000, now_ms=now(broker), key="BIG")
        for n in range(3):
            await sender.half(b"%d" % n, now_ms=now(broker), key=f"K{n}")
        await broker.node.stop()
        broker.settings = replace(broker.settings, log=replace(broker.settings.log, max_message_size=1 << 20))
        await sender.caller.close()
        await broker.start()
        again, reader = producer(world, broker, lambda _: COMMIT, "again"), Client(world.node("reader"), broker.address)
        await again.join()
        await asyncio.sleep(5)
        assert sorted(await bodies(reader)) == [b"0", b"1", b"2"]
        assert b"x" * 2_000_000 in [message.body for _, message in again.questions], "it is asked about where it is"

    simulate(scenario, settings())


def test_a_half_with_a_delay_that_is_too_long_is_refused() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        await refusal(sender.half(now_ms=now(broker), TIMER_DELAY_SEC=str(10**9)))
        await sender.end(await sender.half(now_ms=now(broker), TIMER_DELAY_SEC="5"))
        assert await client.stored(queue_id=1) == []
        await asyncio.sleep(10)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings())


# ---- retention


def test_retention_survives_a_disk_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Journal.append
    raised: list[Any] = []

    def overloaded(journal: Journal, draft: Any, *, even_if_full: bool = False) -> Any:
        if even_if_full and draft.topic == HALF_TOPIC and not raised:
            raised.append(draft)
            raise Overloaded("the disk is more than a log file behind with writing; send again in a moment")
        return append(journal, draft, even_if_full=even_if_full)

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        for n in range(5):
            await sender.half(b"%d" % n, now_ms=now(broker), key=f"K{n}")
        for _ in range(40):
            await client.send("other", b"x" * 60_000)
        await asyncio.sleep(10)
        assert raised
        assert "00000000000000000000" not in broker.node.image.directory("commitlog").names

    monkeypatch.setattr(Journal, "append", overloaded)
    simulate(scenario, small_files())


def test_a_full_disk_is_freed_although_a_half_is_pending() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        await producer(world, broker).half(b"pending", now_ms=now(broker))
        for _ in range(100):
            await client.send("other", b"x" * 60_000)
        await asyncio.sleep(5)
        image = broker.node.image
        for below in ("commitlog/", "firearrow/next-segment"):
            for operation in ("write", "allocate"):
                image.fail(operation, number=errno.ENOSPC, times=1 << 60, below=below)
        await asyncio.sleep(120)
        assert len(image.directory("commitlog").names) < 5

    simulate(scenario, small_files(20_000))


def test_pending_halves_are_not_rewritten_without_end() -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker)
        for n in range(300):
            await sender.half(b"x" * 60_000, now_ms=now(broker), key=f"K{n}")
        await asyncio.sleep(2)
        image = broker.node.image
        image.capacity_bytes = int(image.used_bytes / 0.87)  # with room for a file to be written again
        before = int((await sender.half(b"end", now_ms=now(broker), key="E")).msg_id[-16:], 16)
        await asyncio.sleep(30)
        image.mend()
        after = int((await sender.half(b"end", now_ms=now(broker), key="F")).msg_id[-16:], 16)
        assert after - before < 6_000_000

    base = small_files()
    simulate(scenario, replace(base, retention=RetentionConfig(clean_resource_interval=1_000)))


# ---- questions


@pytest.mark.parametrize("first", ["mute", "knows"])
def test_another_member_is_asked_the_next_time(first: str) -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        mute, knows = producer(world, broker, lambda _: UNKNOWN, "mute"), producer(world, broker, lambda _: COMMIT)
        other = TransactionClient(world.node("other"), broker.address, lambda _: UNKNOWN, group="Q")
        for one in (mute, knows) if first == "mute" else (knows, mute):
            await one.join()
        await other.join()
        await mute.half(now_ms=now(broker))
        await other.half(now_ms=now(broker), key="Q")
        await until(lambda: knows.questions, 10)
        assert len(mute.questions) <= 1

    simulate(scenario, settings())


def test_a_question_that_could_not_be_sent_is_not_counted() -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        for n in range(200):
            await sender.half(bytes([n]) * 15_000, now_ms=now(broker), key=f"K{n}")
        await sender.join()
        node = world.nodes["producer"]
        node.freeze()
        await asyncio.sleep(10)
        node.thaw()
        await until(lambda: len({message.body[0] for _, message in sender.questions}) == 200)
        latest_first = reversed(sender.questions)
        firsts = {message.body[0]: message.properties["TRANSACTION_CHECK_TIMES"] for _, message in latest_first}
        assert set(firsts.values()) == {"1"}

    simulate(scenario, settings(transaction_check_max=2))


def test_another_interval_takes_effect_at_once() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: COMMIT)
        await sender.join()
        await sender.half(now_ms=now(broker))
        await client.ask(UpdateBrokerConfig(), b"transactionCheckInterval=1000\n")
        await until(lambda: sender.questions, 10)

    simulate(scenario, settings(transaction_check_interval=NEVER_MS))


# ---- ends that come late or again


def test_the_same_end_again_under_the_first_offset() -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await until(lambda: len(sender.questions) >= 18)
        await sender.end(half, ROLLBACK)
        await asyncio.sleep(1)
        await sender.end(half, ROLLBACK)
        assert (await refusal(sender.end(half)))[0] == 604

    simulate(scenario, settings(transaction_check_max=100))


def test_an_end_under_the_first_offset_after_a_restart_and_again_after_another() -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await until(lambda: len(sender.questions) >= 3)
        for _ in range(2):
            await broker.node.stop()
            await broker.start()
            await sender.end(half)
        assert len(await Client(world.node("reader"), broker.address).stored(queue_id=1)) == 1

    simulate(scenario, settings())


def test_a_commit_after_the_last_question_is_stored_once() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: UNKNOWN)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await asyncio.sleep(10)
        assert len(await client.stored(CHECK_MAX_TIME_TOPIC)) == 1
        for _ in range(2):
            await sender.end(half)
        assert len(await client.stored(queue_id=1)) == 1

    simulate(scenario, settings(transaction_check_max=3))


@pytest.mark.parametrize(
    "key", ["FE80000000000000000000000000000100012A00000000000{}", "order-{}"], ids=["IPv6", "own"]
)
def test_an_end_that_names_another_transaction_is_refused(key: str) -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker), key=key.format(1))
        request = sender.end_request(half.queue_offset, int(half.msg_id[-16:], 16), COMMIT, key.format(2))
        with pytest.raises(RequestRefused, match="Find prepared"):
            await sender.ask(request)

    simulate(scenario, settings())


# ---- resumption


def test_resuming_the_first_place_of_a_pending_half_does_not_double_it() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await until(lambda: len(sender.questions) >= 2)
        await client.ask(ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=half.msg_id))
        sender.rule = lambda _: COMMIT
        await asyncio.sleep(5)
        assert len(await client.stored(queue_id=1)) == 1
        text = (await refusal(client.ask(ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=half.msg_id))))[1]
        assert "the transaction is committed" in text

    simulate(scenario, settings())


def test_resuming_waits_until_everything_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        sender = producer(world, broker)
        half = await sender.half(now_ms=now(broker))
        may_fold = asyncio.Event()
        catch_up = Journal.catch_up

        async def held(self: Journal) -> None:
            await may_fold.wait()
            await catch_up(self)

        monkeypatch.setattr(Journal, "catch_up", held)
        await broker.node.stop()
        await broker.start()
        reader = Client(world.node("reader"), broker.address)
        asked = asyncio.create_task(
            reader.ask(ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=half.msg_id), timeout_ms=NEVER_MS)
        )
        await asyncio.sleep(5)
        assert not asked.done()
        assert len(await reader.stored(HALF_TOPIC)) == 1
        may_fold.set()
        await asked
        [resumed] = await reader.stored(HALF_TOPIC, 0, 1)
        assert resumed.properties["__previousHalf__"] == "0"

    simulate(scenario, settings(transaction_check_interval=NEVER_MS))


async def given_up_id(client: Client) -> str:
    [message] = await client.stored(CHECK_MAX_TIME_TOPIC)
    host = "".join(f"{int(part):02X}" for part in message.store_host.ip.split("."))
    return f"{host}{message.store_host.port:08X}{message.physical_offset:016X}"


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("ends_first", [False, True])
def test_a_given_up_transaction_that_is_resumed_ends_once(is_restarted: bool, ends_first: bool) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker, lambda _: UNKNOWN)
        await sender.join()
        half = await sender.half(now_ms=now(broker))
        await asyncio.sleep(15)
        resume = ResumeCheckHalfMessage(topic=HALF_TOPIC, msg_id=await given_up_id(client))
        if ends_first:
            await sender.end(half)
        if is_restarted:
            await broker.node.stop()
            await broker.start()
            sender, client = producer(world, broker, name="again"), Client(world.node("reader"), broker.address)
            await sender.join()
        sender.rule = lambda _: None
        if ends_first:
            assert "the transaction is committed" in (await refusal(client.ask(resume)))[1]
        else:
            await client.ask(resume)
            await client.ask(resume)
            await sender.asked_again()
            request, _ = sender.questions[-1]
            answer = sender.end_request(
                request.tran_state_table_offset, request.commit_log_offset, COMMIT, half.transaction_id or "", True
            )
            await asyncio.gather(sender.end(half), sender.ask(answer))
        sender.rule = lambda _: COMMIT
        await asyncio.sleep(15)
        assert await bodies(client) == [b"hello"]
        text = (await refusal(client.ask(resume)))[1]
        assert "the transaction is committed" in text

    simulate(scenario, settings(transaction_check_max=3))


def test_operators_see_how_many_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sender = producer(world, broker)
        halves = [await sender.half(now_ms=now(broker), key=f"K{n}") for n in range(3)]
        may_fold = asyncio.Event()
        catch_up = Journal.catch_up

        async def held(self: Journal) -> None:
            await may_fold.wait()
            await catch_up(self)

        monkeypatch.setattr(Journal, "catch_up", held)
        ends = [asyncio.create_task(sender.end(half)) for half in halves]
        await asyncio.sleep(1)

        async def waiting() -> str:
            table = fastjson.decode((await client.ask(GetBrokerRuntimeInfo())).body, KVTable).table
            assert table["EndTransactionThreadPoolQueueCapacity"] == "100000"
            return table["EndTransactionQueueSize"]

        assert await waiting() == "3"
        may_fold.set()
        await asyncio.gather(*ends)
        assert await waiting() == "0"

    simulate(scenario, settings())

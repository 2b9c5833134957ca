"""Transactions at a broker that answers as the test wants."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from firearrow import blocking
from firearrow.client import Message, Producer, StoredMessage, Transaction, TransactionalProducer, TransactionState
from firearrow.client.producer.transaction.check_back import MOST_WAITING
from firearrow.errors import ClientClosed, FireArrowError, SendFailed, TransactionRefused, TransactionUnconfirmed
from firearrow.model import flags
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.remoting.handlers import Answer, Call, Later
from tests.unit.client.scripted_broker import logged, record_of_half, scripted, until

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


def test_a_block_that_ends_well_commits_once_with_the_offsets_of_its_half() -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop") as producer:
            async with producer.transaction(Message("T", b"x")) as transaction:
                assert (len(broker.halves), broker.ends, transaction.state) == (1, [], None)
            assert transaction.state is COMMIT
            [end] = broker.ends
            assert (end.tran_state_table_offset, end.commit_log_offset, end.commit_or_rollback) == (5, 64, flags.COMMIT)
            assert (end.msg_id, end.producer_group) == (transaction.message_id, "shop")
            assert not end.from_transaction_check
            with pytest.raises(ClientClosed, match="has ended already, with COMMIT"):
                await transaction.rollback()
            assert len(broker.ends) == 1

    asyncio.run(main())


def test_an_error_rolls_back_and_goes_on_even_if_the_broker_does_not_confirm() -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop", send_timeout_ms=300) as producer:
            for answer in (lambda _call: None, lambda call: call.later()):
                broker.on_end = answer
                broker.ends.clear()
                with pytest.raises(ZeroDivisionError):
                    async with producer.transaction(Message("T", b"x")):
                        raise ZeroDivisionError
                assert {end.commit_or_rollback for end in broker.ends} == {flags.ROLLBACK}

    with logged() as lines:
        asyncio.run(main())
    assert len(lines) == 1
    assert "has not confirmed the rollback" in lines[0]


async def fail_after(step: Callable[[], None], transaction: Transaction) -> None:
    async with transaction:
        step()
        raise ZeroDivisionError


def test_a_cancelled_block_and_one_that_is_left_unknown_send_no_end() -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop") as producer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2), producer.transaction(Message("T", b"x")) as cancelled:
                    await asyncio.Event().wait()
            left = producer.transaction(Message("T", b"x"))
            with pytest.raises(ZeroDivisionError):
                await fail_after(left.leave_unknown, left)
            assert (cancelled.state, left.state, broker.ends) == (UNKNOWN, UNKNOWN, [])

    asyncio.run(main())


@pytest.mark.parametrize("how", ["no answer", "refused", "cut"])
def test_a_commit_that_is_not_confirmed_is_told_and_not_repeated(how: str) -> None:
    def answer(call: Call) -> Answer | Later | None:
        if how == "refused":
            return Answer(code=604, remark="too late")
        if how == "cut":
            call.peer.close()
        return call.later()

    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop", send_timeout_ms=300) as producer:
            broker.on_end = answer
            kind: type[FireArrowError] = TransactionUnconfirmed
            text = "will ask the producers"
            if how == "refused":
                kind, text = TransactionRefused, "if it is open, the broker asks and this producer repeats its decision"
            with pytest.raises(kind, match=f"commit of transaction .*{text}") as told:
                async with producer.transaction(Message("T", b"x")) as transaction:
                    pass
            assert told.value.may_have_happened is (how != "refused")
            assert len(broker.ends) == 1
            broker.on_end = lambda _call: None
            await producer._opened().beat()
            broker.ask_back(record_of_half("shop", transaction.message_id))
            await until(lambda: len(broker.ends) == 2)
            again = broker.ends[1]
            assert (again.commit_or_rollback, again.from_transaction_check) == (flags.COMMIT, True)
            assert (again.tran_state_table_offset, again.commit_log_offset) == (9, 900)

    asyncio.run(main())


def test_a_commit_that_is_refused_unhandled_is_repeated() -> None:
    answers = [Answer(code=ResponseCode.SYSTEM_BUSY, remark="busy"), None]

    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop") as producer:
            broker.on_end = lambda _call: answers.pop(0)
            async with producer.transaction(Message("T", b"x")):
                pass
            assert len(broker.ends) == 2

    asyncio.run(main())


def test_a_half_that_is_not_stored_as_configured_is_rolled_back_and_the_block_does_not_begin() -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop", retry_not_ok=True) as producer:
            broker.half_code = ResponseCode.FLUSH_DISK_TIMEOUT
            with pytest.raises(SendFailed, match="rolled back"):
                async with producer.transaction(Message("T", b"x")):
                    raise AssertionError("it began")
            assert [end.commit_or_rollback for end in broker.ends] == [flags.ROLLBACK]
            assert len(broker.halves) == 1

    asyncio.run(main())


def test_a_producer_that_is_closed_inside_a_block_commits_nothing() -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop") as producer:
            with pytest.raises(TransactionUnconfirmed, match="the producer is closed"):
                async with producer.transaction(Message("T", b"x")):
                    await producer.close()
            assert broker.ends == []

    with logged() as lines:
        asyncio.run(main())
    assert any("closed while 1 of its transactions" in line for line in lines)


# -- check-backs


async def answered(check: Any, body: bytes, *, group: str = "shop") -> EndTransaction:
    async with scripted() as (broker, at), Producer(at, group=group, check=check) as producer:
        if check is None:
            await producer.queues("T")
            await producer._opened().beat()
        await until(lambda: broker.beats)
        broker.ask_back(body)
        await until(lambda: broker.ends)
        return broker.ends[0]


def test_a_producer_with_a_check_function_is_known_to_all_brokers_before_it_sends() -> None:
    seen: list[StoredMessage] = []

    def check(message: StoredMessage) -> TransactionState:
        seen.append(message)
        return ROLLBACK

    end = asyncio.run(answered(check, record_of_half("shop", "K", b"order 7")))
    assert (end.commit_or_rollback, end.msg_id, end.transaction_id) == (flags.ROLLBACK, "K", "t")
    assert [(each.unique_key, each.body, each.topic) for each in seen] == [("K", b"order 7", "T")]


async def says_commit(_message: StoredMessage) -> TransactionState:
    return COMMIT


def fails(_message: StoredMessage) -> TransactionState:
    raise ZeroDivisionError("the database is away")


@pytest.mark.complaints("the database is away")
@pytest.mark.parametrize(
    ("check", "code", "told"),
    [
        (says_commit, flags.COMMIT, None),
        (lambda message: says_commit(message), flags.COMMIT, None),
        (fails, 0, "check failed for transaction K of topic T"),
        (lambda _: "COMMIT!", 0, "returned 'COMMIT!'"),
        (lambda _: None, 0, "returned None"),
        (None, 0, "give the producer check=..."),
    ],
)
def test_what_a_check_function_says_is_answered(check: Any, code: int, told: str | None) -> None:
    with logged() as lines:
        end = asyncio.run(answered(check, record_of_half("shop", "K")))
    assert (end.commit_or_rollback, end.from_transaction_check) == (code, True)
    assert [told in line for line in lines] == [True] if told else lines == []


def test_an_open_transaction_is_answered_unknown_without_the_check_function() -> None:
    def check(_message: StoredMessage) -> TransactionState:
        raise AssertionError("it was asked")

    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop", check=check) as producer:
            await until(lambda: broker.beats)
            async with producer.transaction(Message("T", b"x")) as transaction:
                broker.ask_back(record_of_half("shop", transaction.message_id))
                await until(lambda: broker.ends)
                assert broker.ends[0].commit_or_rollback == 0

    asyncio.run(main())


def test_a_slow_check_function_bounds_what_waits_and_close_does_not_wait_for_all() -> None:
    async def main() -> None:
        held = asyncio.Event()

        async def check(_message: StoredMessage) -> TransactionState:
            await held.wait()
            return COMMIT

        async with scripted() as (broker, at), Producer(at, group="shop", check=check) as producer:
            await until(lambda: broker.beats)
            for number in range(MOST_WAITING + 10):
                broker.ask_back(record_of_half("shop", f"K{number}"))
            broker.ask_back(record_of_half("another", "K"))
            broker.ask_back(b"no record")
            backs = producer._transactions._backs
            assert backs is not None
            await until(lambda: "unread" in backs._trouble._kinds)
            assert len(backs._waiting) == MOST_WAITING

    with logged() as lines:
        asyncio.run(main())
    assert any("further ones are dropped" in line for line in lines)


# -- functions


async def pays(_message: Message) -> TransactionState:
    return COMMIT


@pytest.mark.parametrize(
    ("execute", "state", "ends"),
    [
        (pays, COMMIT, [flags.COMMIT]),
        (lambda _: ROLLBACK, ROLLBACK, [flags.ROLLBACK]),
        (lambda _: UNKNOWN, UNKNOWN, []),
        (lambda _: None, UNKNOWN, []),
    ],
)
def test_a_local_transaction_decides(execute: Any, state: TransactionState, ends: list[int]) -> None:
    async def main() -> None:
        async with scripted() as (broker, at), TransactionalProducer(at, group="shop", check=says_commit) as producer:
            result = await producer.send_in_transaction(Message("T", b"x"), execute)
            assert result.state is state
            assert [end.commit_or_rollback for end in broker.ends] == ends
            assert result.message_id == result.half.message_id

    asyncio.run(main())


def test_a_local_transaction_that_fails_stays_unknown_and_its_error_goes_on() -> None:
    seen: list[str] = []

    def execute(message: Message) -> TransactionState:
        seen.append(message.unique_key)
        raise ZeroDivisionError

    async def main() -> None:
        async with scripted() as (broker, at), TransactionalProducer(at, group="shop", check=says_commit) as producer:
            with pytest.raises(ZeroDivisionError):
                await producer.send_in_transaction(Message("T", b"x"), execute)
            assert broker.ends == []
            assert len(seen[0]) == 32

    asyncio.run(main())


def test_a_plain_check_function_that_runs_at_the_close_ends_and_so_does_the_close() -> None:
    runs, goes_on = threading.Event(), threading.Event()

    def check(_message: StoredMessage) -> TransactionState:
        runs.set()
        assert goes_on.wait(10)
        return COMMIT

    async def main() -> None:
        async with scripted() as (broker, at):
            producer = Producer(at, group="shop", check=check)
            await producer.open()
            await until(lambda: broker.beats)
            broker.ask_back(record_of_half("shop", "K"))
            await until(runs.is_set)
            closing = asyncio.create_task(producer.close())
            await asyncio.sleep(0)
            goes_on.set()
            async with asyncio.timeout(10):
                await closing
            assert broker.ends == []

    asyncio.run(main())


@pytest.mark.parametrize("remark", ["the transaction is already rolled back", "the transaction was given up"])
def test_a_commit_that_is_refused_for_good_promises_no_question(remark: str) -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop") as producer:
            broker.on_end = lambda _call: Answer(code=604, remark=remark)
            with pytest.raises(TransactionRefused, match=f"{remark}.*TRANS_CHECK_MAX_TIME_TOPIC") as told:
                async with producer.transaction(Message("T", b"x")):
                    pass
            assert "will ask" not in str(told.value)

    asyncio.run(main())


def test_a_closed_producer_does_not_promise_to_repeat_its_decision() -> None:
    async def main() -> None:
        async with scripted() as (_broker, at), Producer(at, group="shop") as producer:
            with pytest.raises(TransactionUnconfirmed, match="this one is closed"):
                async with producer.transaction(Message("T", b"x")):
                    await producer.close()

    asyncio.run(main())


def test_a_rollback_that_is_not_confirmed_is_not_called_done() -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop", send_timeout_ms=500) as producer:
            broker.half_code = int(ResponseCode.FLUSH_DISK_TIMEOUT)
            broker.on_end = lambda call: call.later()
            with pytest.raises(SendFailed, match="its rollback is not confirmed"):
                async with producer.transaction(Message("T", b"x")):
                    pass

    asyncio.run(main())


def test_an_old_decision_does_not_answer_for_a_later_transaction_with_the_same_key() -> None:
    checked: list[object] = []

    async def check(message: object) -> TransactionState:
        checked.append(message)
        return TransactionState.COMMIT

    async def main() -> None:
        async with (
            scripted() as (broker, at),
            TransactionalProducer(at, group="shop", check=check, send_timeout_ms=300) as producer,
        ):
            broker.on_end = lambda call: call.later()
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction(Message("T", b"x")) as first:
                    raise ZeroDivisionError
            broker.on_end = lambda _call: None
            with pytest.raises(asyncio.CancelledError):
                async with producer.transaction(first.message):
                    raise asyncio.CancelledError
            await until(lambda: broker.beats)
            broker.ends.clear()
            broker.ask_back(record_of_half("shop", first.message_id))
            await until(lambda: broker.ends)
            assert checked

    asyncio.run(main())


def test_a_broker_that_confirms_nothing_delays_no_other_answer() -> None:
    async def main() -> None:
        async with (
            scripted() as (broker, at),
            TransactionalProducer(at, group="shop", check=lambda _message: TransactionState.COMMIT),
        ):
            broker.on_end = lambda call: call.later()
            await until(lambda: broker.beats)
            for number in range(20):
                broker.ask_back(record_of_half("shop", f"K{number}"))
            async with asyncio.timeout(2.5):  # one confirmation alone is waited for longer
                await until(lambda: len(broker.ends) == 20)

    asyncio.run(main())


def test_a_forked_process_ends_no_transaction_of_its_parent() -> None:
    async def main() -> None:
        async with scripted() as (broker, at), Producer(at, group="shop") as producer:
            async with producer.transaction(Message("T", b"x")) as transaction:
                child = os.fork()
                if not child:
                    try:
                        await transaction.commit()
                    except ClientClosed as told:
                        os._exit(0 if "before a fork" in str(told) else 2)
                    os._exit(1)
                _, status = await asyncio.to_thread(os.waitpid, child, 0)
                assert os.waitstatus_to_exitcode(status) == 0
                assert broker.ends == []
            assert [end.commit_or_rollback for end in broker.ends] == [flags.COMMIT]

    asyncio.run(main())


def test_a_blocking_producer_that_is_closed_inside_a_block_lets_the_error_of_the_block_go_on() -> None:
    async def main() -> None:
        async with scripted() as (broker, at):
            await asyncio.to_thread(closed_inside, at)
            assert broker.ends == []

    def closed_inside(at: str) -> None:
        with pytest.raises(ZeroDivisionError):
            close_and(at, lambda: 1 // 0)
        with pytest.raises(ClientClosed):
            close_and(at, lambda: 1)

    def close_and(at: str, then: Callable[[], int]) -> None:
        with blocking.Producer(at, group="shop") as producer, producer.transaction(Message("T", b"x")):
            producer.close()
            then()

    asyncio.run(main())

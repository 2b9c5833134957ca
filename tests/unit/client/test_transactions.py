"""Decisions about transactions."""

import asyncio
import random
from datetime import UTC
from typing import Any

import pytest

from firearrow.client import (
    Message,
    MessageQueue,
    Producer,
    SendResult,
    SendStatus,
    TransactionalProducer,
    TransactionState,
)
from firearrow.client.producer.retry_policy import Attempts
from firearrow.client.producer.settings import ProducerSettings
from firearrow.client.producer.transaction import state as states
from firearrow.client.producer.transaction.half import StoredHalf, check_half, may_repeat, prepare_half
from firearrow.client.producer.transaction.state import TransactionTable
from firearrow.errors import (
    ConnectionFailed,
    ConnectionLost,
    FireArrowError,
    IllegalMessage,
    NoRoute,
    Overloaded,
    RequestRefused,
    RequestTimedOut,
    SettingsError,
)
from firearrow.model import EpochMs, flags, keys
from firearrow.protocol.codes import ResponseCode
from firearrow.record.message_id import UniqueKeys
from firearrow.record.properties import parse_properties

NOW = EpochMs(1_800_000_000_000)
SETTINGS = ProducerSettings(group="shop")
COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


# -- what is remembered


def test_an_open_transaction_is_unknown_and_a_decision_is_repeated_until_it_is_confirmed() -> None:
    table = TransactionTable()
    table.begin("a")
    assert table.state_of("a") is UNKNOWN
    table.keep("a", COMMIT)
    assert (table.state_of("a"), len(table)) == (COMMIT, 0)
    table.begin("b")
    table.end("b")
    assert table.state_of("b") is None
    assert table.state_of("never seen") is None


def test_the_oldest_decision_is_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MOST_DECISIONS", 2)
    table = TransactionTable()
    for key in "abc":
        table.keep(key, ROLLBACK)
    assert [table.state_of(key) for key in "abc"] == [None, ROLLBACK, ROLLBACK]


# -- what is repeated


@pytest.mark.parametrize(
    ("error", "commit", "rollback"),
    [
        (ConnectionFailed("nobody there"), True, True),
        (Overloaded("too many"), True, True),
        (NoRoute("no master"), True, True),
        (ConnectionLost("before it was sent", sent=False), True, True),
        (ConnectionLost("after it was sent", sent=True), False, True),
        (RequestTimedOut("no answer"), False, True),
        (RequestRefused(ResponseCode.SYSTEM_BUSY, "busy"), True, True),
        (RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, "disk full"), True, True),
        (RequestRefused(ResponseCode.SYSTEM_ERROR, "the half is not there"), False, False),
        (RequestRefused(604, "too late"), False, False),
    ],
)
def test_a_commit_is_repeated_only_if_it_cannot_have_happened(
    error: FireArrowError, commit: bool, rollback: bool
) -> None:
    assert (may_repeat(error, COMMIT), may_repeat(error, ROLLBACK)) == (commit, rollback)


def test_a_half_that_may_be_stored_is_not_sent_again() -> None:
    for error, goes_on in (
        (ConnectionFailed("nobody"), True),
        (RequestRefused(ResponseCode.SYSTEM_BUSY, "busy"), True),
        (RequestTimedOut("no answer"), False),
        (ConnectionLost("gone"), False),
    ):
        assert Attempts(2, is_fixed=False, only_once=True).failed(error, "a", was_asked=True) is goes_on
        assert Attempts(2, is_fixed=False).failed(error, "a", was_asked=True) is True


# -- halves


def test_a_half_is_the_message_with_its_group_and_the_prepared_bit() -> None:
    unique_keys = UniqueKeys("10.0.0.1", 7, 99, UTC)
    message, half = prepare_half(Message("T", b"x" * 5000, tag="A"), SETTINGS, unique_keys, NOW)
    assert half.sys_flag & flags.TRANSACTION_MASK == flags.PREPARED
    assert half.sys_flag & flags.COMPRESSED
    assert message.unique_key == half.unique_key
    assert parse_properties(half.properties) == {
        keys.TAGS: "A",
        keys.UNIQ_KEY: half.unique_key,
        keys.TRAN_MSG: "true",
        keys.PGROUP: "shop",
    }
    assert keys.TRAN_MSG not in message.properties


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Message("T", b"x", delay_level=3), "delayed"),
        (Message("T", b"x", {keys.TIMER_DELAY_SEC: "5"}), "delayed"),
        ([Message("T", b"x")], "one Message"),
        (Message("%RETRY%g", b"x"), "retry topic"),
        (Message("T", b""), "empty"),
    ],
)
def test_what_cannot_be_in_a_transaction_is_refused(message: Any, told: str) -> None:
    with pytest.raises(IllegalMessage, match=told):
        check_half(message, SETTINGS)
    with pytest.raises(IllegalMessage, match=told):
        Producer("127.0.0.1:1", group="shop").transaction(message)


def test_the_default_group_has_no_transactions() -> None:
    with pytest.raises(SettingsError, match="group of its own"):
        Producer("127.0.0.1:1").transaction(Message("T", b"x"))
    with pytest.raises(SettingsError, match="group of its own"):
        TransactionalProducer("127.0.0.1:1", group="DEFAULT_PRODUCER", check=lambda _: COMMIT)


@pytest.mark.parametrize("check", [7, lambda: COMMIT])
def test_what_cannot_check_is_refused(check: Any) -> None:
    with pytest.raises(SettingsError, match=r"check.*takes the message|check.*let it take the message"):
        Producer("127.0.0.1:1", group="shop", check=check)


def test_a_property_of_transactions_makes_no_half_by_accident() -> None:
    async def send() -> None:
        async with Producer("127.0.0.1:1", group="shop") as producer:
            await producer.send(Message("T", b"x", {keys.TRAN_MSG: "true"}))

    with pytest.raises(IllegalMessage, match=r"TRAN_MSG.*producer.transaction"):
        asyncio.run(send())


def test_a_half_names_its_offsets_whatever_the_answer() -> None:
    chance = random.Random(7)
    for _ in range(200):
        offset, queue_offset = chance.getrandbits(62), chance.getrandbits(62)
        half = StoredHalf(Message("T", b"x"), sent_at(f"7F0000010000367D{offset:016X}", queue_offset))
        end = half.end("shop", chance.choice(list(TransactionState)))
        assert (end.commit_log_offset, end.tran_state_table_offset) == (offset, queue_offset)


def sent_at(offset_message_id: str, queue_offset: int) -> SendResult:
    return SendResult(SendStatus.OK, "K", offset_message_id, MessageQueue("T", "a", 0), queue_offset)

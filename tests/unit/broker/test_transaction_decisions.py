"""Decisions about a pending half message at a check, the producer to ask, and the requests that may wait."""

import asyncio
from typing import Any, cast

import pytest

from firearrow.broker.settings.transaction_settings import TransactionConfig
from firearrow.broker.tables.clients import Client, ClientTable
from firearrow.broker.transaction.decisions import Check, judge, repeated
from firearrow.broker.transaction.ends import MAX_WAITING, EndRequests
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Half, Outcome
from firearrow.broker.transaction.producers import ConnectedProducers
from firearrow.broker.transaction.resumption import resume
from firearrow.errors import ConnectionLost
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.model.names import CHECK_MAX_TIME_TOPIC
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState, EndTransaction
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.properties import encode_properties

DAY_MS = 86_400_000
BORN_MS = 1_000 * DAY_MS
CONFIG = TransactionConfig()


def judged(after_ms: int, *, is_reachable: bool = True, is_far_behind: bool = False, **fields: Any) -> Check:
    half = Half(0, 0, 300, BORN_MS, "P", **fields)
    return judge(half, BORN_MS + after_ms, CONFIG, 3 * DAY_MS, is_reachable=is_reachable, is_far_behind=is_far_behind)


def test_asked_when_its_time_is_over() -> None:
    assert judged(0) is judged(6_000) is Check.WAIT
    assert judged(6_001) is Check.ASK
    assert judged(6_001, is_reachable=False) is Check.WAIT
    assert judged(6_001, is_reachable=False, is_far_behind=True) is Check.RENEW
    assert judged(6_000, is_far_behind=True) is Check.RENEW


def test_immune_for_as_long_as_it_says() -> None:
    assert judged(3_600_000, immunity_s=3_600) is Check.WAIT
    assert judged(3_600_001, immunity_s=3_600) is Check.ASK
    assert judged(1, immunity_s=0) is Check.ASK


def test_a_wrong_clock_of_a_producer_delays_no_question_for_long() -> None:
    assert judged(-5_000) is Check.WAIT
    assert judged(-DAY_MS) is Check.ASK


def test_given_up_after_the_last_question_or_for_its_age() -> None:
    assert judged(7_000, checks=14) is Check.ASK
    assert judged(7_000, checks=15) is Check.GIVE_UP
    assert judged(3 * DAY_MS, immunity_s=30 * 86_400) is Check.WAIT
    assert judged(3 * DAY_MS + 1, immunity_s=30 * 86_400, is_reachable=False) is Check.GIVE_UP


def test_a_repeated_end_gets_the_answer_of_the_first() -> None:
    assert repeated(Outcome.COMMITTED, Outcome.COMMITTED) is None
    assert repeated(Outcome.ROLLED_BACK, Outcome.ROLLED_BACK) is None
    for outcome, wanted, text in (
        (Outcome.COMMITTED, Outcome.ROLLED_BACK, "already committed"),
        (Outcome.ROLLED_BACK, Outcome.COMMITTED, "already rolled back"),
        (Outcome.MOVED, Outcome.COMMITTED, "is over"),
        (None, Outcome.COMMITTED, "its message is in TRANS_CHECK_MAX_TIME_TOPIC"),
    ):
        refusal = repeated(outcome, wanted)
        assert refusal is not None
        assert refusal.code == 604
        assert text in refusal.remark


class Connection:
    """A connection that takes pushes, or loses them."""

    def __init__(self, *, is_open: bool = True, fails: bool = False) -> None:
        self.is_open = is_open
        self.is_writable = True
        self.fails = fails
        self.pushed = 0

    def push(self, _request: Any, _body: bytes) -> None:
        if self.fails:
            raise ConnectionLost("gone")
        self.pushed += 1


def test_one_producer_is_asked_in_turn_and_another_when_it_is_gone() -> None:
    connections = [Connection(), Connection(is_open=False), Connection(fails=True), Connection()]
    table = ClientTable()
    producers = ConnectedProducers(table)
    question = CheckTransactionState(tran_state_table_offset=1, commit_log_offset=2)
    assert not producers.is_reachable("P")
    assert not producers.has_room("P")
    assert not producers.ask("P", 0, question, b"")
    for number, connection in enumerate(connections):
        table.produce(Client(connection, str(number), "JAVA", 1, 0), "P")
    assert producers.is_reachable("P")
    assert all(producers.ask("P", turn, question, b"") for turn in range(40))
    assert [connection.pushed for connection in connections] == [10, 0, 0, 30]
    for connection in connections:
        connection.is_writable = False
    assert not producers.has_room("P")
    assert not producers.ask("P", 0, question, b""), "nobody reads"


def test_too_many_ends_are_refused() -> None:
    ends = EndRequests(cast("Journal", None), cast("Any", None), cast("Any", None), cast("Any", None))
    request = EndTransaction(
        producer_group="P", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8, msg_id=""
    )
    for _ in range(MAX_WAITING):
        ends.add(request, Outcome.COMMITTED, None)
    with pytest.raises(Refused, match="wait already"):
        ends.add(request, Outcome.COMMITTED, None)


@pytest.mark.parametrize(("topic", "properties"), [("T", {"REAL_TOPIC": "T"}), (CHECK_MAX_TIME_TOPIC, {"TAGS": "a"})])
def test_only_half_messages_and_those_given_up_are_resumed(topic: str, properties: dict[str, str]) -> None:
    host = HostBytes(b"\x7f\0\0\1\0\0\0\1")
    draft = Draft(topic, 0, b"body", encode_properties(properties), EpochMs(1), host, host)
    record = encode(draft, QueueOffset(0), PhysicalOffset(0), EpochMs(1))
    with pytest.raises(Refused, match="not a half message"):
        asyncio.run(resume(cast("Journal", None), HalfRecord.read(record)))

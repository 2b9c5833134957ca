"""What becomes of a pending half message at a check, who is asked, and how many requests may wait."""

from typing import Any, cast

import pytest

from firearrow.broker.settings.transaction_settings import TransactionConfig
from firearrow.broker.tables.clients import Client, ClientTable
from firearrow.broker.transaction.decisions import Check, judge, repeated
from firearrow.broker.transaction.ends import MAX_WAITING, Ends
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Half, Ledger, Outcome
from firearrow.broker.transaction.producers import ConnectedProducers
from firearrow.errors import ConnectionLost
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState, EndTransaction

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
    ledger = Ledger(0, 0)
    for offset, outcome in enumerate((Outcome.COMMITTED, Outcome.ROLLED_BACK, Outcome.MOVED)):
        ledger.took_half(Half(offset, offset, 300, BORN_MS, "P"))
        ledger.announce(offset, outcome)
    ledger.took_op(0, [0, 1, 2])
    assert repeated(ledger, 0, Outcome.COMMITTED) is None
    assert repeated(ledger, 1, Outcome.ROLLED_BACK) is None
    for offset, wanted, text in (
        (0, Outcome.ROLLED_BACK, "already committed"),
        (1, Outcome.COMMITTED, "already rolled back"),
        (2, Outcome.COMMITTED, "is over"),
        (9, Outcome.COMMITTED, "is over"),
    ):
        refusal = repeated(ledger, offset, wanted)
        assert refusal is not None
        assert refusal.code == 604
        assert text in refusal.remark


class Connection:
    """A connection that takes pushes, or loses them."""

    def __init__(self, *, is_open: bool = True, fails: bool = False) -> None:
        self.is_open = is_open
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
    assert not producers.ask("P", question, b"")
    for number, connection in enumerate(connections):
        table.produce(Client(connection, str(number), "JAVA", 1, 0), "P")
    assert producers.is_reachable("P")
    assert all(producers.ask("P", question, b"") for _ in range(40))
    assert sum(connection.pushed for connection in connections) == 40
    assert min(connections[0].pushed, connections[3].pushed) >= 10


def test_too_many_ends_are_refused() -> None:
    ends = Ends(cast("Journal", None), cast("Any", None), cast("Any", None))
    request = EndTransaction(
        producer_group="P", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8, msg_id=""
    )
    for _ in range(MAX_WAITING):
        ends.add(request, Outcome.COMMITTED, None)
    with pytest.raises(Refused, match="wait already"):
        ends.add(request, Outcome.COMMITTED, None)

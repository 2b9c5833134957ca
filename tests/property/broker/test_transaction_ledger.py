"""The ledger of transactions: a restart at any time gives the ledger that ran on; every transaction ends once."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.transaction.ledger import LOOKED_AT_ONCE, Half, Ledger, Outcome

Step = tuple[str, int]

steps = st.lists(
    st.tuples(st.sampled_from(["half", "commit", "rollback", "renew", "copy", "stop"]), st.integers(0, 30)), max_size=80
)


def half(offset: int, replaces: int = -1, *, is_copy: bool = False) -> Half:
    return Half(offset, offset * 300, 300, 1_000, "P", replaces=replaces, is_copy=is_copy)


class Queues:
    """The two queues of a log, and a ledger that runs along. Transactions have a number that no queue knows."""

    def __init__(self) -> None:
        self.halves: list[Half] = []
        self.ops: list[list[int]] = []
        self.ledger = Ledger(0, 0)
        self.transaction: list[int] = []
        """The transaction of every half message."""
        self.ended: dict[int, int] = {}

    def begin(self) -> None:
        self._half(half(len(self.halves)), len(self.transaction))

    def _half(self, one: Half, transaction: int) -> None:
        self.halves.append(one)
        self.transaction.append(transaction)
        self.ledger.took_half(one)

    def _op(self, offsets: list[int]) -> None:
        self.ops.append(offsets)
        self.ledger.took_op(len(self.ops) - 1, offsets)

    def end(self, offset: int, outcome: Outcome) -> None:
        """A producer ends what it knows as ``offset``, an earlier offset included."""
        now_at = self.ledger.now_at(offset)
        if self.ledger.open_at(now_at) is None:
            return
        assert self.transaction[now_at] == self.transaction[offset], "an old offset leads to its own transaction"
        self.ended[self.transaction[now_at]] = self.ended.get(self.transaction[now_at], 0) + 1
        self.ledger.announce(now_at, outcome)
        assert self.ledger.open_at(now_at) is None
        self._op([now_at])
        assert self.ledger.outcome_at(now_at) is outcome

    def renew(self, offset: int, *, is_copy: bool) -> None:
        open_half = self.ledger.open_at(offset)
        if open_half is None:
            return
        self.ledger.announce(offset, Outcome.MOVED)
        first = next(one for one, number in enumerate(self.transaction) if number == self.transaction[offset])
        replaces = first if is_copy else offset
        self._half(half(len(self.halves), replaces, is_copy=is_copy), self.transaction[offset])
        if not is_copy:
            self._op([offset])

    def restarted(self, half_done: int, op_done: int) -> Ledger:
        ledger = Ledger(half_done, op_done)
        for one in self.halves[half_done:]:
            ledger.took_half(one)
        for number, offsets in enumerate(self.ops[op_done:], op_done):
            ledger.took_op(number, offsets)
        return ledger


@given(steps)
def test_a_restart_gives_the_same_ledger_and_every_transaction_ends_once(history: list[Step]) -> None:
    queues = Queues()
    stored = [(0, 0)]
    for verb, number in history:
        offset = number % max(len(queues.halves), 1)
        if verb == "half" or not queues.halves:
            queues.begin()
        elif verb in ("commit", "rollback"):
            queues.end(offset, Outcome.COMMITTED if verb == "commit" else Outcome.ROLLED_BACK)
        elif verb in ("renew", "copy"):
            # Apache copies only messages that nobody was asked about: never one that a check of ours wrote.
            is_copy = verb == "copy" and not any(one.replaces >= 0 and not one.is_copy for one in queues.halves)
            queues.renew(offset, is_copy=is_copy)
        else:
            stored.append((queues.ledger.half_done, queues.ledger.op_done))
    running = queues.ledger
    for half_done, op_done in [*stored, (running.half_done, running.op_done)]:
        again = queues.restarted(half_done, op_done)
        assert again.pending.keys() == running.pending.keys()
        assert (again.half_done, again.op_done) == (running.half_done, running.op_done)
        assert (again.half_next, again.op_next) == (running.half_next, running.op_next)
    assert all(count == 1 for count in queues.ended.values())
    open_transactions = {queues.transaction[offset] for offset in running.pending}
    assert len(open_transactions) == len(running.pending), "a transaction is pending under one offset"
    assert open_transactions | queues.ended.keys() == set(queues.transaction)
    assert not open_transactions & queues.ended.keys()


@given(steps)
def test_the_stored_offsets_only_grow(history: list[Step]) -> None:
    queues = Queues()
    before = (0, 0)
    for verb, number in history:
        offset = number % max(len(queues.halves), 1)
        if verb == "half" or not queues.halves:
            queues.begin()
        elif verb == "renew":
            queues.renew(offset, is_copy=False)
        else:
            queues.end(offset, Outcome.COMMITTED)
        after = (queues.ledger.half_done, queues.ledger.op_done)
        assert after[0] >= before[0]
        assert after[1] >= before[1]
        before = after


def test_an_ended_copy_of_apaches_stays_ended_after_a_restart() -> None:
    """Half 20 is Apache's copy of half 3, and op [3] ends it; half 16 is pending."""
    waits, copy = half(16), half(20, 3, is_copy=True)
    ledger = Ledger(15, 0)
    for one in (waits, copy):
        ledger.took_half(one)
    ledger.took_op(0, [3])
    assert set(ledger.pending) == {16}
    assert ledger.op_done == 0, "the op message is needed as long as the copy is folded"


def test_the_lowest_pending_offset_is_looked_for_in_steps() -> None:
    ledger = Ledger(0, 0)
    count = 3 * LOOKED_AT_ONCE
    for offset in range(count):
        ledger.took_half(half(offset))
    assert ledger.pending_bytes == 300 * count
    ledger.took_op(0, list(range(count)))
    assert ledger.half_done <= 2 * LOOKED_AT_ONCE
    while not ledger.find_lowest():
        pass
    assert (ledger.half_done, ledger.op_done, ledger.pending_bytes) == (count, 1, 0)

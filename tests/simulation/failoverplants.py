"""Faults of replication and failover, put in one at a time: the bugs that such systems have had, ours among them.

One is hunted in random groups of three, the others by the test of their part or by one scenario.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, cast

import pytest

from firearrow.broker import broker
from firearrow.broker.failover import elections, membership
from firearrow.broker.failover.elections import GroupNews, OwnState, ProposeStep, Step, WaitStep, elected
from firearrow.broker.failover.group_master import GroupFeed, GroupMaster
from firearrow.broker.failover.group_part import GroupPart
from firearrow.broker.failover.in_sync_set import InSyncSet
from firearrow.broker.gate.gate import Gate
from firearrow.broker.replication.metadata import Metadata
from firearrow.broker.replication.offset_copies import OffsetCopies
from firearrow.broker.replication.slave import Slave
from firearrow.broker.replication.table_source import MasterOfEpoch
from firearrow.broker.tables.offset_rows import OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.transaction.ends import EndRequests
from firearrow.broker.transaction.ledger import Outcome
from firearrow.model.group_state import GroupState
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.protocol.sends import SEND_CODES
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Later, ManyLater
from firearrow.store.epochs.promise import PromiseFile
from firearrow.store.recovery import open_log
from tests.simulation.broker.failovers import FailoverOptions, run_failovers
from tests.simulation.early_log import EarlyLog
from tests.simulation.partplants import PartPlant
from tests.simulation.staticplants import STATIC_PLANTS
from tests.unit.broker import (
    test_failover_gaps,
    test_failover_group,
    test_failover_identity,
    test_gate,
    test_owed_cut,
    test_table_source,
)
from tests.unit.store.epochs import test_epochs

PutBack = Callable[[pytest.MonkeyPatch], None]


def acknowledges_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """A slave reports what it has written, not what it has flushed."""
    made = Slave.__init__

    def init(self: Slave, *arguments: Any) -> None:
        made(self, *arguments)
        self._log = cast("Any", EarlyLog(self._log))

    patch.setattr(Slave, "__init__", init)


def promises_in_memory(patch: pytest.MonkeyPatch) -> None:
    """The promise of an epoch is not on disk when the replica answers in it."""

    async def make(self: PromiseFile, epoch: int, master: int) -> None:
        self.check(epoch, master)
        self.epoch, self.master = epoch, master

    patch.setattr(PromiseFile, "make", make)


def elects_anybody(patch: pytest.MonkeyPatch) -> None:
    """A replica that is not in sync takes over when the master is gone."""
    right = elections.next_step

    def next_step(own: OwnState, heard: GroupNews, min_iss: int) -> Step:
        step, group = right(own, heard, min_iss), heard.group
        if isinstance(step, WaitStep) and "not in sync" in step.why and group is not None and own.promised.epoch:
            return ProposeStep(elected(group, own.replica, heard.alive), "the master is gone")
        return step

    patch.setattr(membership, "next_step", next_step)


def takes_offsets_before_the_log(patch: pytest.MonkeyPatch) -> None:
    """A slave takes offsets whose deliveries its log has not got."""

    async def take_told(self: Metadata) -> None:
        told, self._told = self._told, None
        if told is not None:
            await self._offsets.take(told.offsets, told.told_at)
            self._take_delays(told.delays)

    patch.setattr(Metadata, "_take_told", take_told)


def keeps_offsets_ahead_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """Offsets ahead of a log that was cut stay, and skip what comes in its place."""
    patch.setattr(OffsetTable, "cut", lambda _self, _end_of: 0)
    patch.setattr(OffsetRows, "_shown", lambda _self, _topic, _queue_id, offset: offset)


def takes_tables_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """A slave takes the tables of whoever answers at the master's address."""

    async def log_end(_self: MasterOfEpoch, _master: object) -> int:
        return 900

    patch.setattr(MasterOfEpoch, "log_end", log_end)


def leaves_stale_bytes(patch: pytest.MonkeyPatch) -> None:
    """A cut moves the end in memory, and the bytes behind it stay in the files."""

    async def cut_off(*_arguments: object) -> int:
        return 0

    patch.setattr(open_log, "cut_off", cut_off)


def shrinks_without_the_coordinator(patch: pytest.MonkeyPatch) -> None:
    """A master counts a smaller in-sync set without a swap at the coordinator."""
    right = GroupMaster.wanted

    def wanted(self: GroupMaster) -> GroupState | None:
        found = right(self)
        if found is None or len(found.iss) >= len(self.in_sync.group.iss):
            return found
        self.in_sync = InSyncSet(found)
        self._acknowledged()
        return None

    patch.setattr(GroupMaster, "wanted", wanted)


def shows_what_others_lack(patch: pytest.MonkeyPatch) -> None:
    """A new master serves consumers before the replicas in sync have its log."""

    async def serves(_self: GroupPart) -> bool:
        return True

    patch.setattr(GroupPart, "serves", serves)


def acknowledges_when_it_connects(patch: pytest.MonkeyPatch) -> None:
    """The first report of a slave tells what it has written, whether that is synced or not."""

    async def kept_end(self: Slave) -> int:
        return self._copy.end

    patch.setattr(Slave, "_kept_end", kept_end)


def is_caught_up_by_connecting(patch: pytest.MonkeyPatch) -> None:
    """A slave counts as caught up whenever it connects, and does not tell that its disk failed."""
    patch.setattr(GroupFeed, "goes_on", lambda _self, _caught_up_s: None)
    patch.setattr(GroupPart, "_know_ailing", lambda _self, _master: None)


def answers_for_the_log_alone(patch: pytest.MonkeyPatch) -> None:
    """E2: send-backs, recalls and resumed questions are answered when the master's own log keeps them."""

    placed = Gate.placed

    def answer(
        self: Gate, call: Call | ManyLater, end: int, answer: Answer = SUCCESS, *more: Any, **named: Any
    ) -> Answer | Later:
        if isinstance(call, ManyLater) or call.asked.heading.code in SEND_CODES:
            return placed(self, call, end, answer, *more, **named)
        later = call.later()
        self.lines[self.syncs].add(end, later, answer)
        return later

    patch.setattr(Gate, "placed", answer)


def ends_transactions_alone(patch: pytest.MonkeyPatch) -> None:
    """E2: the end of a transaction is answered when the master keeps it."""
    patch.setattr(Gate, "confirm", lambda _self, _code, _end, later: later.answer(SUCCESS))


def takes_what_waits_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """E2: messages and send-backs are taken while too few replicas are in sync."""
    patch.setattr(Gate, "check", lambda _self: None)


def takes_every_request_at_a_slave(patch: pytest.MonkeyPatch) -> None:
    """E7: a slave deletes, creates and changes whatever it is asked to."""
    patch.setattr(broker, "of_slave", lambda handlers, **_role: handlers)


def trusts_open_connections(patch: pytest.MonkeyPatch) -> None:
    """E6: a master counts a replica as heard while its connection is open, half open or not."""

    def heard_until_s(self: GroupMaster) -> float:
        others = self.in_sync.largest - {self.in_sync.group.master}
        return inf if others <= set(self.copies()) else -inf

    patch.setattr(GroupMaster, "_heard_until_s", heard_until_s)


def copies_no_offsets(patch: pytest.MonkeyPatch) -> None:
    """F13: a slave asks for offsets, and takes none."""

    async def take(_self: OffsetCopies, _told: object, _told_at: int, **_: object) -> bool:
        return True

    patch.setattr(OffsetCopies, "take", take)


def drops_ends_of_transactions(patch: pytest.MonkeyPatch) -> None:
    """F11: the end of a transaction is answered, and nothing is done."""
    right = EndRequests.add

    def add(self: EndRequests, request: EndTransaction, outcome: Outcome, later: Later | None) -> None:
        if later is None or request.from_transaction_check:
            right(self, request, outcome, later)
        else:
            later.answer()

    patch.setattr(EndRequests, "add", add)


def keeps_offsets_of_deleted_names(patch: pytest.MonkeyPatch) -> None:
    """F14: no broker deletes the offsets of a deleted group, or of a deleted topic."""
    for name in ("forget_topic", "forget_row", "forget_offset", "forget_queue"):
        patch.setattr(OffsetTable, name, lambda _self, *_names: None)


def owes_no_report(patch: pytest.MonkeyPatch) -> None:
    """A slave that is connected and silent is waited for as long as one that lags."""
    patch.setattr(GroupFeed, "owed_s", property(lambda _self: inf, lambda _self, _since_s: None), raising=False)


@dataclass(frozen=True)
class GroupPlant:
    """A fault, and the groups in which it is hunted."""

    finding: str
    what: str
    put_back: PutBack
    rule: str
    """The beginning of the first complaint, as a regular expression."""
    kinds: tuple[str, ...]
    crashes: float = 0.3
    """The odds that a broker dies within a partition."""

    def hunt(self, seed: int) -> None:
        """Raise what is wrong in one group."""
        options = FailoverOptions(
            sync_flush=True,
            lies=False,
            steps=4,
            sync_s=0.05,
            latency_s=0.005,
            kinds=self.kinds,
            crashes=self.crashes,
        )
        run_failovers(seed, options)


def _reset_connections_of_some_clusters() -> None:
    for seed in range(1, 9):
        test_failover_identity.reset_connections_while_slaves_sync(seed)


FAILOVER_PLANTS: Final = (
    GroupPlant(
        "H1", "a slave acknowledges before its flush", acknowledges_before_the_flush, "F[1-5]", ("power of all",),
    ),
    GroupPlant(
        "E2", "send-backs and recalls are answered without replicas", answers_for_the_log_alone, "F(9|10)",
        ("master|slaves",), crashes=1.0,
    ),
    GroupPlant(
        "E7", "slaves take deletions and commits", takes_every_request_at_a_slave, "F15",
        ("master|clients",), crashes=0.0,
    ),
    GroupPlant("F13", "slaves take no offsets", copies_no_offsets, "F13", ("master|clients",), crashes=0.0),
    GroupPlant(
        "F11", "ends of transactions are answered and dropped", drops_ends_of_transactions, "F11", ("slave alone",),
        crashes=0.0,
    ),
    GroupPlant(
        "F14", "offsets of deleted names are kept", keeps_offsets_of_deleted_names, "F14: group .* was deleted",
        ("slave alone",), crashes=0.0,
    ),
)  # fmt: skip
FAILOVER_PART_PLANTS: Final = (
    PartPlant(
        "H2", "the promise of an epoch is not durable", promises_in_memory,
        test_epochs.test_every_crash_within_a_promise_keeps_a_promise, "found",
    ),
    PartPlant(
        "H3", "a replica that is not in sync is elected", elects_anybody,
        test_failover_group.start_one_that_lacks_messages, "not in sync leads",
    ),
    PartPlant(
        "H4", "a slave takes offsets before the log that belongs to them", takes_offsets_before_the_log,
        test_table_source.test_offsets_are_taken_after_the_log_that_belongs_to_them, "before the log",
    ),
    PartPlant(
        "H5", "a cut leaves stale bytes", leaves_stale_bytes, test_failover_group.cut_after_a_switch, "stale bytes",
    ),
    PartPlant(
        "H6", "the in-sync set shrinks without compare-and-swap", shrinks_without_the_coordinator,
        test_failover_group.send_without_the_coordinator, "acknowledged messages are lost|TimeoutError",
    ),
    PartPlant(
        "H7", "offsets ahead of the log after a switch are kept", keeps_offsets_ahead_of_the_log,
        test_owed_cut.test_offsets_ahead_of_the_cut_are_lowered_and_new_messages_are_read, "assert",
    ),
    PartPlant(
        "H8", "a new master shows what others in sync lack", shows_what_others_lack,
        test_failover_group.read_at_a_new_master, "unconfirmed",
    ),
    PartPlant(
        "H9", "a slave takes tables of another epoch", takes_tables_of_any_epoch,
        test_table_source.test_tables_are_taken_from_the_master_of_the_epoch_only, "DID NOT RAISE",
    ),
    PartPlant(
        "H10", "the first report of a slave acknowledges what is not synced", acknowledges_when_it_connects,
        _reset_connections_of_some_clusters, "acknowledged message is lost",
    ),
    PartPlant(
        "H11", "a slave is caught up because it connects", is_caught_up_by_connecting,
        test_failover_gaps.fail_the_disk_of_a_slave_that_does_not_tell, "wait too long|TimeoutError",
    ),
    PartPlant(
        "H12", "a silent slave is waited for as one that lags", owes_no_report,
        test_failover_gaps.freeze_a_slave, "wait too long",
    ),
    PartPlant(
        "E6", "a half-open connection keeps a master's lease", trusts_open_connections,
        test_gate.cut_a_master_off, "whose lease is over",
    ),
    PartPlant(
        "E7", "slaves take changes of tables", takes_every_request_at_a_slave,
        test_gate.change_tables_at_a_slave, "DID NOT RAISE",
    ),
    PartPlant(
        "E2", "send-backs and recalls are answered without replicas", answers_for_the_log_alone,
        test_gate.ask_a_master_that_loses_its_slaves, "no replica has it",
    ),
    PartPlant(
        "E2", "ends of transactions are answered without replicas", ends_transactions_alone,
        lambda: test_gate.ask_a_sync_master(1), "no slave has it",
    ),
    PartPlant(
        "E2", "too few replicas refuse plain sends alone", takes_what_waits_for_nothing,
        lambda: test_gate.ask_a_sync_master(2), "without replicas",
    ),
    *STATIC_PLANTS,
)  # fmt: skip

"""Faults of the tables that the brokers of a group have in common, put in one at a time."""

import asyncio
from collections.abc import Callable
from itertools import islice
from sys import maxsize
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace

from firearrow.access.change_gate import OpenGate
from firearrow.access.copies import AccountCopies
from firearrow.broker import broker
from firearrow.broker.failover.group_master import GroupMaster
from firearrow.broker.failover.table_reports import TableReports
from firearrow.broker.gate.gate import Gate
from firearrow.broker.gate.promises import of_slave
from firearrow.broker.gate.waiting_answers import OwedAnswer
from firearrow.broker.handlers.admin import topic
from firearrow.broker.handlers.admin.replication import ReplicationHandlers
from firearrow.broker.handlers.admin.topic_deletion import TopicDeletionHandlers
from firearrow.broker.handlers.group.offset import OffsetHandlers
from firearrow.broker.replication import table_source
from firearrow.broker.replication.held_questions import HELD_S, HeldQuestions
from firearrow.broker.replication.metadata import Metadata
from firearrow.broker.replication.offset_copies import OffsetCopies, ToldOffsets
from firearrow.broker.replication.table_source import AnyMaster, MasterOfEpoch
from firearrow.broker.replication.topic_copies import TopicCopies
from firearrow.broker.tables import groups
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.groups import SubscriptionGroups
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.protocol.bodies.group.group import SubscriptionGroupTable
from firearrow.protocol.requests.replication.replication import GetAllConsumerOffsetAnswer, GetBrokerEpochCache
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Later
from firearrow.runtime.network import Address
from firearrow.store.placement import Rows
from tests.simulation.partplants import PartPlant
from tests.unit.broker import (
    test_account_changes,
    test_deleted_lives,
    test_gate,
    test_next_lives,
    test_slave_tables,
    test_table_changes,
    test_table_copies,
    test_table_parts,
    test_tables_of_another_log,
)
from tests.unit.broker.test_held_questions import ask_a_group, ask_a_plain_broker
from tests.unit.broker.test_table_source import ask_a_master_that_holds_nothing


def keeps_offsets_of_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    """A slave adds and changes offsets, and deletes none."""

    patch.setattr(OffsetTable, "forget_row", lambda _self, _topic, _group: None)
    patch.setattr(OffsetTable, "forget_offset", lambda _self, _topic, _group, _queue_id: None)


def keeps_queues_of_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    """A slave deletes the row of a topic, and keeps its queues."""
    patch.setattr(TopicCopies, "_is_stray", lambda _self, _topic: False)


def pauses_after_a_slow_copy(patch: pytest.MonkeyPatch) -> None:
    """A slave of an elected group copies whole tables, and rests twenty times as long as that took."""
    patch.setattr(MasterOfEpoch, "is_ours", False)


def answers_before_replicas_have_it(patch: pytest.MonkeyPatch) -> None:
    """A change of the tables is answered when the master has it."""

    def answer(_self: TableChanges, later: OwedAnswer, answer: Answer = SUCCESS) -> None:
        later.answer(answer)

    patch.setattr(TableChanges, "answer", answer)


def joins_without_the_tables(patch: pytest.MonkeyPatch) -> None:
    """A replica is in sync when it has the log."""
    patch.setattr(TableReports, "has_tables", lambda _self, _replica: True)


def knows_no_lives(patch: pytest.MonkeyPatch) -> None:
    """A replica sees that a topic is there, and not that it was deleted meanwhile."""

    async def end_lives(_self: TopicCopies, _deleted: object) -> None:
        pass

    patch.setattr(TopicCopies, "end_lives", end_lives)


def takes_commits_at_every_slave(patch: pytest.MonkeyPatch) -> None:
    """A slave of an elected group takes what a slave of a static group does."""
    patch.setattr(broker, "of_slave", lambda handlers, **_role: of_slave(handlers, is_elected=False))


def makes_groups_at_slaves(patch: pytest.MonkeyPatch) -> None:
    """The first use of a group makes it, also at a slave."""
    make = GroupBook.__init__

    def init(self: GroupBook, *arguments: Any, **_is_copy: bool) -> None:
        make(self, *arguments, is_copy=False)

    patch.setattr(GroupBook, "__init__", init)


def answers_users_at_once(patch: pytest.MonkeyPatch) -> None:
    """A change of users is answered when the master has it."""
    patch.setattr(Gate, "changed", OpenGate.changed)


def tells_without_the_users(patch: pytest.MonkeyPatch) -> None:
    """A replica tells that it has a change of users when it has asked for them."""

    async def take(_self: AccountCopies, _data: bytes) -> bool:
        return True

    patch.setattr(AccountCopies, "take", take)


def forgets_moves(patch: pytest.MonkeyPatch) -> None:
    """A move of a group that its consumers have not taken is not told to replicas."""
    patch.setattr(OffsetTable, "adopt_moved", lambda _self, _topic, _group, _queues: None)


def joins_a_silent_master(patch: pytest.MonkeyPatch) -> None:
    """A replica joins a master that does not serve yet by its log alone."""
    right = GroupMaster._with_tables

    def with_tables(self: GroupMaster, copies: dict[int, Any]) -> dict[int, Any]:
        return copies if self.confirm < self._epoch_start else right(self, copies)

    patch.setattr(GroupMaster, "_with_tables", with_tables)


def holds_questions_of_everybody(patch: pytest.MonkeyPatch) -> None:
    """A question is held before it is known whether there are epochs, and answered inside the operator's act."""

    def epochs(self: ReplicationHandlers, request: GetBrokerEpochCache, call: Call) -> Later:
        later = call.later()

        def answer() -> None:
            later.answer(self._epochs(request.taken or 0))

        self._changes.on_change = answer
        return later

    patch.setattr(ReplicationHandlers, "epochs", epochs)


def keeps_answered_questions(patch: pytest.MonkeyPatch) -> None:
    """A question stays where it was held after its time, with its answer."""

    def hold(self: HeldQuestions, replica: int, later: Later, answer: Callable[[], Answer]) -> Later:
        number = replica + 1000 * len(self._held)
        asyncio.get_running_loop().call_later(HELD_S, lambda: later.answer(answer()))
        self._held[number] = cast("Any", later)
        return later

    patch.setattr(HeldQuestions, "hold", hold)


def asks_without_a_pause(patch: pytest.MonkeyPatch) -> None:
    """A replica asks again as soon as it is answered."""
    patch.setattr(table_source, "AGAIN_S", 0.0)


def takes_tables_of_any_log(patch: pytest.MonkeyPatch) -> None:
    """A slave takes the tables of a master whose log is another one."""

    right = AnyMaster.log_end

    async def log_end(self: AnyMaster, master: Address) -> int:
        self._agreement.end = lambda: 0
        return await right(self, master)

    async def still_agrees(_self: AnyMaster, _agreed: int) -> bool:
        return True

    patch.setattr(AnyMaster, "log_end", log_end)
    patch.setattr(AnyMaster, "agreed", 0)
    patch.setattr(AnyMaster, "deletes", True)
    patch.setattr(AnyMaster, "still_agrees", still_agrees)


def counts_reports_of_lost_directories(patch: pytest.MonkeyPatch) -> None:
    """A replica's report counts for every directory that it has later."""

    def has(self: TableReports, replica: int) -> int:
        return max((told for (one, _), told in self._taken.items() if one == replica), default=-1)

    patch.setattr(TableReports, "left", lambda _self, _replicas: None)
    patch.setattr(TableReports, "_has", has)


def leads_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """One-way messages and commits of pulls are taken whoever may lead."""
    patch.setattr(Gate, "leads", True)


def tells_of_rows_that_it_left_out(patch: pytest.MonkeyPatch) -> None:
    """A life ends where the log here ends, and a replica tells of rows that it takes for those of an earlier life."""
    right = OffsetCopies.take

    def begins_anew(self: Metadata, topic: str, queue_id: int, _end: int) -> None:
        self._tables.offsets.table.forget_queue(topic, queue_id)
        self._offsets.ended(topic, self._store.log.tail)

    async def take(self: OffsetCopies, told: ToldOffsets, told_at: int, *, deletes: bool = True) -> bool:
        await right(self, told, told_at, deletes=deletes)
        return True

    patch.setattr(Metadata, "_begins_anew", begins_anew)
    patch.setattr(OffsetCopies, "take", take)


def compares_with_the_last_look_alone(patch: pytest.MonkeyPatch) -> None:
    """A row that is the same as at the last look is not taken, also where its offsets were deleted here since."""
    patch.setattr(OffsetCopies, "_lacks", lambda _self, _topic, _group, _queues: False)


def takes_the_first_part_alone(patch: pytest.MonkeyPatch) -> None:
    """A replica counts a copy as complete when it has its first part."""
    right = OffsetHandlers._part_of_offsets

    async def part(self: OffsetHandlers, since: str | None) -> Answer:
        answer = await right(self, since)
        assert isinstance(answer.fields, GetAllConsumerOffsetAnswer)
        return Answer(replace(answer.fields, more=None), answer.body)

    patch.setattr(OffsetHandlers, "_part_of_offsets", part)


def fills_pages_with_rows_of_any_size(patch: pytest.MonkeyPatch) -> None:
    """A page of topics or groups has as many rows as were asked for, also where no frame holds them."""
    for module in (topic, groups):
        patch.setattr(module, "names_of_page", lambda names, most, _left, _size_of: list(islice(names, most)))


def tells_of_groups_that_exist(patch: pytest.MonkeyPatch) -> None:
    """A page of groups tells forbidden topics of its own groups, and no page those of groups that do not exist."""
    right = SubscriptionGroups.page

    def page(self: SubscriptionGroups, start: int, count: int) -> SubscriptionGroupTable:
        told = right(self, start, count)
        own = {name: topics for name, topics in told.forbidden_table.items() if name in told.subscription_group_table}
        return replace(told, forbidden_table=own)

    patch.setattr(SubscriptionGroups, "page", page)


def makes_deleted_topics_again(patch: pytest.MonkeyPatch) -> None:
    """Any record of a topic that is not there makes it again."""
    patch.setattr(TableChanges, "life_begins_at", lambda _self, _topic: 0)


def ends_lives_late(patch: pytest.MonkeyPatch) -> None:
    """The life of a deleted topic ends where the log ends when its files are removed."""
    right = TopicDeletionHandlers._delete_queues

    async def delete(self: TopicDeletionHandlers, topics: list[str], ended: Callable[[str, int], None]) -> None:
        await right(self, topics, ended)
        self._changes._ends |= dict.fromkeys(topics, self._store.log.tail)
        self._changes.deleted(topics)

    patch.setattr(TopicDeletionHandlers, "_delete_queues", delete)


def looks_for_strays_before_the_log(patch: pytest.MonkeyPatch) -> None:
    """A replica looks for queues without a topic when the tables come, before the records that make such queues."""
    right, copy = TopicCopies._is_stray, Metadata._copy
    found: dict[TopicCopies, set[str]] = {}

    async def early(self: Metadata, master: Address, agreed: int) -> None:
        await copy(self, master, agreed)
        copies = self._topic_copies
        found[copies] = {topic for topic in self._store.queues.topics() if right(copies, topic)}

    patch.setattr(Metadata, "_copy", early)
    patch.setattr(TopicCopies, "_is_stray", lambda self, topic: topic in found.get(self, ()) and right(self, topic))
    patch.setattr(TopicCopies, "look_again", lambda _self, _gone=(): None)


def takes_topics_for_complete_up_to_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """A replica deletes queues whose records its master has, and has not passed on to its topics."""
    patch.setattr(MasterOfEpoch, "passed_on", property(lambda _self: maxsize, lambda _self, _told: None), raising=False)


def looks_for_strays_of_any_master(patch: pytest.MonkeyPatch) -> None:
    """A slave of a static group deletes the queue of a late record, as one of an elected group does."""
    right, delete = Metadata._arrived, TopicCopies.delete_strays

    def arrived(self: Metadata, rows: Rows) -> None:
        self._topic_copies.look_again()
        right(self, rows)

    patch.setattr(Metadata, "_arrived", arrived)
    patch.setattr(TopicCopies, "delete_strays", lambda self, below, *, known: delete(self, below))  # noqa: ARG005


def _ask_for_pages() -> None:
    test_table_parts.ask_for_pages(3000)


TABLE_PLANTS: Final = (
    PartPlant(
        "E5", "messages that were on their way bring a deleted topic back", makes_deleted_topics_again,
        test_deleted_lives.delete_beside_sends, "is undone|is back",
    ),
    PartPlant(
        "E5", "commits beside a deletion are lost at a failover", ends_lives_late,
        test_deleted_lives.commit_beside_a_deletion, "at the next one",
    ),
    PartPlant(
        "E5", "a deleted topic comes back with a replica that was away", looks_for_strays_before_the_log,
        test_deleted_lives.return_after_a_deletion, "is back",
    ),
    PartPlant(
        "E5", "commits behind a deletion are lost at a failover", takes_topics_for_complete_up_to_the_end_of_the_log,
        test_deleted_lives.commit_behind_a_deletion, "are at the next master",
    ),
    PartPlant(
        "E5", "a slave deletes what is committed after a deletion", looks_for_strays_of_any_master,
        test_deleted_lives.commit_behind_a_deletion_of_a_static_group, "the slave 5",
    ),
    PartPlant(
        "E5", "a replica cannot be told a page that is larger than a frame", fills_pages_with_rows_of_any_size,
        _ask_for_pages, "a page of .* bytes",
    ),
    PartPlant(
        "E5", "a forbidden topic of a group that does not exist is lost at a failover", tells_of_groups_that_exist,
        test_table_changes.forbid_a_group_that_does_not_exist, "read again",
    ),
    PartPlant(
        "E5", "an offset that is the same in the topic's next life is lost", compares_with_the_last_look_alone,
        test_table_copies.take_the_same_offset_in_the_next_life, "is lost",
    ),
    PartPlant(
        "E5", "a replica joins with the first part of the offsets", takes_the_first_part_alone,
        test_table_parts.join_a_master_with_large_tables, "with a part of the offsets",
    ),
    PartPlant(
        "E5", "a replica tells of offsets that it left out", tells_of_rows_that_it_left_out,
        test_next_lives.move_in_the_next_life, "is lost",
    ),
    PartPlant(
        "E5", "a replaced disk counts as one that has the tables", counts_reports_of_lost_directories,
        test_table_changes.replace_the_disk_of_a_replica, "without the tables",
    ),
    PartPlant(
        "E7", "a master without a lease takes commits of pulls", leads_without_a_lease,
        test_gate.use_a_master_without_a_lease, "without a lease",
    ),
    PartPlant(
        "E5", "a replica joins a master that does not serve yet without the tables", joins_a_silent_master,
        test_table_changes.join_a_master_that_does_not_serve_yet, "without the tables",
    ),
    PartPlant(
        "E5", "one question fails the changes of operators", holds_questions_of_everybody, ask_a_plain_broker,
        "holds a question|only for controllerMode",
    ),
    PartPlant(
        "E5", "answered questions are kept", keeps_answered_questions, ask_a_group, "several places|are held",
    ),
    PartPlant(
        "E5", "a replica asks without a pause", asks_without_a_pause, ask_a_master_that_holds_nothing,
        "questions in 10 s",
    ),
    PartPlant(
        "E1", "a slave takes the tables of a master with another log", takes_tables_of_any_log,
        test_tables_of_another_log.lose_the_disk_of_the_master, "deleted the last copy",
    ),
    PartPlant(
        "E5", "a failover undoes the move of a group", forgets_moves, test_table_changes.move_a_group, "has undone it",
    ),
    PartPlant(
        "E5", "a change of users is answered before replicas have it", answers_users_at_once,
        test_account_changes.change_users_and_lose_the_master, "is lost|is back",
    ),
    PartPlant(
        "E5", "a replica tells of users that it has not got", tells_without_the_users,
        test_account_changes.change_users_and_lose_the_master, "is lost|is back",
    ),
    PartPlant(
        "E7", "a slave of an elected group takes commits", takes_commits_at_every_slave,
        test_slave_tables.use_slaves_of_an_elected_group, "DID NOT RAISE",
    ),
    PartPlant(
        "E7", "a slave makes groups", makes_groups_at_slaves,
        test_slave_tables.use_slaves_of_an_elected_group, "has made a group",
    ),
    PartPlant(
        "E1", "a slave keeps the offsets of deleted topics", keeps_offsets_of_deleted_topics,
        test_table_copies.test_a_slave_loses_what_its_master_has_deleted, "TimeoutError",
    ),
    PartPlant(
        "E1", "a slave keeps the queues of deleted topics", keeps_queues_of_deleted_topics,
        test_table_copies.test_a_slave_loses_what_its_master_has_deleted, "TimeoutError",
    ),
    PartPlant(
        "E8", "a slow copy makes a long pause", pauses_after_a_slow_copy,
        test_table_copies.copy_offsets_over_a_slow_network, "s old|no offset|did not answer",
    ),
    PartPlant(
        "E5", "a change is answered before replicas have it", answers_before_replicas_have_it,
        test_table_changes.change_topics_and_groups, "is lost|read again",
    ),
    PartPlant(
        "E5", "a replica joins the in-sync set without the tables", joins_without_the_tables,
        test_table_changes.lose_the_directory_of_a_replica, "without the tables",
    ),
    PartPlant(
        "E5", "a topic that is made again has queues of its earlier life", knows_no_lives,
        test_table_changes.make_the_topic_again_at_once, "are back",
    ),
)  # fmt: skip

"""The tables of the consuming side: clients, groups, offsets, locks, pulls that wait."""

import pytest

from firearrow import fastjson
from firearrow.broker.pull.long_poll import PULL_BYTES, SLOT_MS, TAG_BYTES, ParkedPulls
from firearrow.broker.pull.subscription import codes_of, tags_of, wanted_codes
from firearrow.broker.tables import groups, pages
from firearrow.broker.tables.clients import Client, ClientTable
from firearrow.broker.tables.disagreement import LASTING_MS, Disagreements, between, disagreement, disagreement_with
from firearrow.broker.tables.groups import READ_FORBIDDEN, SubscriptionGroups
from firearrow.broker.tables.locks import QueueLocks
from firearrow.broker.tables.offset_rows import OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.model.java_hash import tag_code
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, ConsumeType, SubscriptionData
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable


def client(connection: str, heard_ms: int = 0) -> Client:
    return Client(connection, f"id-{connection}", "JAVA", 479, heard_ms)


def wants(group: str = "g", *topics: str, version: int = 1, model: str | int = "CLUSTERING") -> ConsumerData:
    return ConsumerData(
        group_name=group,
        consume_type=1,
        message_model=model,
        consume_from_where=0,
        subscription_data_set=[SubscriptionData(topic=topic, sub_string="*", sub_version=version) for topic in topics],
    )


class TestClients:
    def test_everybody_is_told_when_somebody_joins(self) -> None:
        table = ClientTable()
        assert table.consume(client("a"), wants("g", "T")) == "g"
        assert table.consume(client("b"), wants("g", "T")) == "g"
        assert table.consume(client("b"), wants("g", "T")) is None

    def test_words_may_be_numbers(self) -> None:
        table = ClientTable()
        table.consume(client("a"), wants("g", "T", model=1))
        group = table.group("g")
        assert group is not None
        assert (group.consume_type, group.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert group.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
        assert group.consume_type == ConsumeType.CONSUME_PASSIVELY

    def test_a_changed_set_of_topics_is_told_and_a_newer_version_is_not(self) -> None:
        table = ClientTable()
        table.consume(client("a"), wants("g", "T"))
        assert table.consume(client("a"), wants("g", "T", version=5)) is None
        assert table.consume(client("a"), wants("g", "T", "U", version=5)) is not None
        assert table.consume(client("a"), wants("g", "U", version=5)) is not None
        group = table.group("g")
        assert group is not None
        assert list(group.subscriptions) == ["U"]
        table.consume(client("a"), wants("g", "U", version=3))
        assert group.subscriptions["U"].sub_version == 5

    def test_a_short_heartbeat_leaves_subscriptions_as_they_were(self) -> None:
        table = ClientTable()
        table.consume(client("a"), wants("g", "T"))
        assert table.consume(client("a", 50), wants("g"), without_sub=True) is None
        group = table.group("g")
        assert group is not None
        assert list(group.subscriptions) == ["T"]
        assert list(group.members["a"].subscriptions) == ["T"]

    def test_broadcasting_groups_divide_nothing(self) -> None:
        table = ClientTable()
        assert table.consume(client("a"), wants("g", "T", model="BROADCASTING")) is None
        assert table.consume(client("b"), wants("g", "T", model="BROADCASTING")) is None
        assert table.stop_consuming("a", "g") is None

    def test_leaving(self) -> None:
        table = ClientTable()
        table.consume(client("a"), wants("g", "T"))
        table.consume(client("b"), wants("g", "T"))
        table.produce(client("a"), "p")
        assert table.stop_consuming("a", "g") == "g"
        assert table.stop_consuming("a", "g") is None
        assert table.disconnected("b") == ()
        assert table.group("g") is None
        assert table.producers("p") is not None
        table.stop_producing("a", "p")
        assert table.producers("p") is None
        assert table.disconnected("a") == ()

    def test_silence(self) -> None:
        table = ClientTable()
        table.produce(client("c", 5), "p")
        table.consume(client("a", 10), wants("g", "T"))
        table.consume(client("b", 15), wants("g", "T"))
        table.consume(client("b", 20), wants("g", "T"))
        expired = table.expire(20)
        assert expired.connections == ("c", "a")
        assert expired.changed == ("g",)
        assert [group.name for group in table.groups()] == ["g"]
        assert table.expire(20) == ((), ())


class TestDisagreement:
    def test_what_members_say_differently_is_told_once_it_has_lasted(self) -> None:
        table, watch = ClientTable(), Disagreements()
        table.consume(client("a"), wants("g", "T"))
        table.consume(client("b"), wants("g", "T", "U"))
        table.consume(client("c"), wants("h", "T"))
        assert list(watch.look(table, 0)) == [None]
        (told,) = watch.look(table, LASTING_MS)
        assert told is not None
        assert (told.group, told.field) == ("g", "topics")
        assert "id-a says T" in str(told)
        assert list(watch.look(table, LASTING_MS + 1)) == [None]
        assert list(watch.lasting) == ["g"]
        table.consume(client("a"), wants("g", "T", "U"))
        assert list(watch.look(table, LASTING_MS + 2)) == []
        assert watch.lasting == {}

    def test_the_last_connection_of_a_client_counts(self) -> None:
        table = ClientTable()
        table.consume(client("a"), wants("g", "T"))
        table.consume(client("b"), wants("g", "T", "U"))
        again = client("a")
        again.connection = "a, connected again"
        table.consume(again, wants("g", "T", "U"))
        group = table.group("g")
        assert group is not None
        assert disagreement(group) is None
        assert disagreement_with(group, group.members["b"]) is None
        table.stop_consuming("a, connected again", "g")
        found = disagreement(group)
        assert found is not None
        assert found.field == "topics"

    @pytest.mark.parametrize(
        ("other", "field"),
        [
            (SubscriptionData(topic="T", sub_string="A"), "expression of T"),
            (SubscriptionData(topic="T", sub_string="*", expression_type="SQL92"), "expressionType of T"),
            (SubscriptionData(topic="T", sub_string=None), None),
        ],
    )
    def test_expressions_and_their_types_count(self, other: SubscriptionData, field: str | None) -> None:
        one, two = client("a"), client("b")
        one.subscriptions = {"T": SubscriptionData(topic="T", sub_string="*", sub_version=9)}
        two.subscriptions = {"T": other}
        found = between("g", one, two)
        assert (None if found is None else found.field) == field


class TestGroups:
    def test_the_file_is_read_as_it_was_written(self) -> None:
        table = SubscriptionGroups()
        table.put(SubscriptionGroupConfig(group_name="g", retry_max_times=3, attributes={"+a": "1", "b": "2"}), 7)
        table.allow_reading("g", "T", allowed=False, now_ms=8)
        again = SubscriptionGroups()
        again.restore(b"".join(table.pieces()))
        group = again.get("g")
        assert group is not None
        assert (group.retry_max_times, group.attributes) == (3, {"a": "1", "b": "2"})
        assert not again.may_read("g", "T")
        assert again.version == table.version

    def test_attributes_change_one_by_one(self) -> None:
        table = SubscriptionGroups()
        table.put(SubscriptionGroupConfig(group_name="g", attributes={"+a": "1", "+b": "2"}), 1)
        table.put(SubscriptionGroupConfig(group_name="g", attributes={"-a": ""}), 2)
        group = table.get("g")
        assert group is not None
        assert group.attributes == {"b": "2"}

    def test_deleting_and_forbidding(self) -> None:
        table = SubscriptionGroups()
        assert table.create("bad name!", 1) is None
        assert table.create("g", 1) is not None
        table.allow_reading("g", "T", allowed=False, now_ms=2)
        table.allow_reading("g", "T", allowed=True, now_ms=3)
        assert table.may_read("g", "T")
        assert table.delete("g", 4)
        assert not table.delete("g", 5)
        assert table.version.counter == 4
        assert "CID_RMQ_SYS_TRANS" in table

    def test_pages(self) -> None:
        table = SubscriptionGroups()
        names = list(table)
        assert list(table.page(1, 2).subscription_group_table) == names[1:3]

    def test_the_first_page_tells_the_forbidden_topics_of_groups_that_do_not_exist(self) -> None:
        table = SubscriptionGroups()
        for name in ("later", "made"):
            table.allow_reading(name, "T", allowed=False, now_ms=1)
        table.put(SubscriptionGroupConfig(group_name="made"), 2)
        last = list(table).index("made")
        assert [*table.page(0, 1).forbidden_table] == ["later"]
        assert table.page(last, 1).forbidden_table == {"made": {"T": READ_FORBIDDEN}}
        assert not table.page(0, 0).forbidden_table, "a question for the version alone is answered with rows"
        again, copy = SubscriptionGroups(), SubscriptionGroups()
        again.restore(b"".join(table.pieces()))
        copy.adopt(again.page(0, 100), is_first=True)
        assert [*again.page(0, 1).forbidden_table] == [*copy.page(0, 1).forbidden_table] == ["later"]
        again.apply(table.line("made"))
        table.allow_reading("later", "T", allowed=True, now_ms=3)
        table.delete("made", 4)
        again.apply(table.line("later"))
        again.apply(table.line("made"))
        assert [*table.page(0, 100).forbidden_table] == [*again.page(0, 100).forbidden_table] == []

    def test_forbidden_topics_take_a_bounded_number_of_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(groups, "FORBIDDEN_BYTES_MAX", 30)
        table = SubscriptionGroups()
        table.put(SubscriptionGroupConfig(group_name="g"), 1)
        for name in ("g", "later"):
            assert table.forbidden_fault(name, "T1") is None
            table.allow_reading(name, "T1", allowed=False, now_ms=1)
            assert table.forbidden_fault(name, "T1") is None, "what is forbidden already cannot be forbidden again"
        assert "create group other first" in str(table.forbidden_fault("other", "T1"))
        assert table.forbidden_fault("CID_RMQ_SYS_TRANS", "T1") is None
        table.allow_reading("g", "T2", allowed=False, now_ms=1)
        table.allow_reading("g", "T3", allowed=False, now_ms=1)
        assert "allow it some of them" in str(table.forbidden_fault("g", "T4"))


class TestOffsets:
    def test_a_restart_undoes_no_move(self) -> None:
        table, written = OffsetTable(), OffsetTable()
        table.commit("g", "T", 0, 5)
        table.move("g", "T", 0, 2)
        rows, again = OffsetRows(table, lambda _topic, _queue_id: 9), OffsetRows(written, lambda _topic, _queue_id: 9)
        again.restore(b"".join(rows.pieces()))
        assert (written.committed("g", "T", 0), written.commit("g", "T", 0, 6)) == (2, False)
        table.move("g", "T", 0, 3)
        table.changes.clear()
        table.move("g", "T", 1, 12)
        for key in table.changes:
            again.apply(rows.line(key))
        assert (written.committed("g", "T", 0), written.committed("g", "T", 1)) == (3, 9)
        assert (written.commit("g", "T", 0, 6), written.commit("g", "T", 1, 6)) == (False, False)
        table.changes.clear()
        table.take_move("g", "T", 0)
        for key in table.changes:
            again.apply(rows.line(key))
        assert (written.commit("g", "T", 0, 6), written.commit("g", "T", 1, 6)) == (True, False)

    def test_commits_are_ignored_until_a_moved_group_has_heard_of_it(self) -> None:
        table = OffsetTable()
        assert table.commit("g", "T", 0, 5)
        table.move("g", "T", 0, 2)
        assert not table.commit("g", "T", 0, 6)
        assert table.committed("g", "T", 0) == 2
        assert table.commit("g", "T", 1, 9)
        assert table.take_move("g", "T", 0) == 2
        assert table.take_move("g", "T", 0) is None
        assert table.commit("g", "T", 0, 3)
        assert table.committed("g", "T", 0) == 3

    def test_nothing_is_written_or_read_above_the_end_of_a_queue(self) -> None:
        table = OffsetTable()
        table.commit("g", "T", 0, 50)
        table.commit("g", "T", 1, 5)
        rows = OffsetRows(table, lambda _topic, queue_id: 10 if queue_id == 0 else 100)
        written = b"".join(rows.pieces())
        assert fastjson.decode(written, ConsumerOffsetTable).offset_table == {"T@g": {0: 10, 1: 5}}
        again = OffsetTable()
        OffsetRows(again, lambda _topic, _queue_id: 100).restore(written)
        assert again.cut(lambda _topic, _queue_id: 7) == 1
        assert [again.committed("g", "T", queue_id) for queue_id in (0, 1)] == [7, 5]

    def test_an_offset_that_was_deleted_before_a_save_does_not_come_back(self) -> None:
        table, written = OffsetTable(), OffsetTable()
        table.commit("g", "T", 0, 7)
        table.commit("g", "T", 1, 9)
        table.changes.clear()
        table.move("g", "T", 0, 3)
        table.take_move("g", "T", 0)
        table.commit("g", "T", 1, 12)
        table.forget_queue("T", 1)
        rows, again = OffsetRows(table, lambda _topic, _queue_id: 100), OffsetRows(written, lambda _topic, _queue_id: 9)
        for key in table.changes:
            again.apply(rows.line(key))
        assert written.of("g", "T") == table.of("g", "T") == {0: 3}

    def test_apaches_own_file_is_read(self) -> None:
        stored = b'{\n\t"dataVersion":{"counter":1},\n\t"offsetTable":{"%RETRY%g@g":{0:1},"T@g":{0:3,1:4\n\t\t}\n\t}\n}'
        table = OffsetTable()
        OffsetRows(table, lambda _topic, _queue_id: 100).restore(stored)
        assert sorted(table.topics_with("g")) == ["%RETRY%g", "T"]
        assert table.of("g", "T") == {0: 3, 1: 4}

    def test_looking_around(self) -> None:
        table = OffsetTable()
        table.commit("g", "T", 0, 5)
        table.commit("h", "T", 0, 3)
        table.note_pulled("g", "T", 0, 8)
        assert table.groups_of("T") == ["g", "h"]
        assert (table.pulled("g", "T", 0), table.pulled("h", "T", 0), table.pulled("x", "T", 0)) == (8, 3, -1)
        table.clone("g", "copy", "T")
        assert table.committed("copy", "T", 0) == 5
        table.forget_row("T", "g")
        table.forget_topic("T")
        assert table.groups_of("T") == []
        assert table.pulled("g", "T", 0) == -1


class TestLocks:
    QUEUES = (MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))

    def test_a_lock_keeps_others_out_until_it_lapses(self) -> None:
        locks = QueueLocks()
        first, second = self.QUEUES
        assert locks.lock("g", [first], "a", 0) == [first]
        assert locks.lock("g", self.QUEUES, "b", 1) == [second]
        assert locks.lock("g", [first], "a", 50_000) == [first]
        assert locks.lock("g", [first], "b", 110_000) == []
        assert locks.lock("g", [first], "b", 110_001) == [first]
        assert locks.lock("h", [first], "c", 110_001) == [first]

    def test_only_the_owner_lets_go(self) -> None:
        locks = QueueLocks()
        locks.lock("g", self.QUEUES, "a", 0)
        locks.unlock("g", self.QUEUES, "b")
        assert locks.lock("g", self.QUEUES, "b", 1) == []
        locks.unlock("g", self.QUEUES, "a")
        assert locks.lock("g", self.QUEUES, "b", 2) == list(self.QUEUES)
        assert locks.is_any_held("g", 2)
        list(locks.expire(100_000))
        assert not locks.is_any_held("g", 2)


class TestParkedPulls:
    def test_an_arrival_wakes_its_queue_and_its_tags(self) -> None:
        parked: ParkedPulls[str] = ParkedPulls()
        parked.park(("T", 0), 5, None, 1000, "all", owner="c")
        parked.park(("T", 0), 5, frozenset({7}), 1000, "seven", owner="c")
        parked.park(("T", 0), 6, None, 1000, "later", owner="c")
        parked.park(("T", 1), 0, None, 1000, "other", owner="c")
        assert [one.ticket for one in parked.arrived(("T", 0), 5, 3)] == ["all"]
        assert [one.ticket for one in parked.arrived(("T", 0), 6, 7)] == ["seven", "later"]
        assert parked.arrived(("T", 0), 7, 7) == []
        assert len(parked) == 1

    def test_time_passes_in_slots(self) -> None:
        parked: ParkedPulls[str] = ParkedPulls()
        parked.park(("T", 0), 0, None, 101, "a", owner="c")
        parked.park(("T", 0), 0, None, 119, "b", owner="c")
        parked.park(("T", 0), 0, None, 121, "c", owner="c")
        assert parked.next_deadline_ms == 6 * SLOT_MS
        assert parked.expired(119) == []
        assert [one.ticket for one in parked.expired(120)] == ["a", "b"]
        assert [one.ticket for one in parked.expired(10_000)] == ["c"]
        assert parked.next_deadline_ms is None
        assert parked.queues == {}

    def test_a_slot_is_used_again_after_its_pulls_were_woken(self) -> None:
        parked: ParkedPulls[int] = ParkedPulls()
        for number in range(3):
            parked.park(("T", 0), number, None, 100, number, owner="c")
            assert len(parked.arrived(("T", 0), number, 0)) == 1
        parked.park(("T", 0), 9, None, 100, 9, owner="c")
        assert [one.ticket for one in parked.expired(100)] == [9]

    def test_an_owner_gives_up_what_waited_longest_for_what_it_parks(self) -> None:
        parked: ParkedPulls[int] = ParkedPulls(owner_bytes=3 * PULL_BYTES, all_bytes=100 * PULL_BYTES)
        parked.park(("T", 9), 0, None, 100, -1, owner="other")
        gone = [
            one.ticket for number in range(6) for one in parked.park(("T", number), 0, None, 100, number, owner="c")
        ]
        assert gone == [0, 1, 2]
        assert len(parked) == 4
        assert parked.held == 4 * PULL_BYTES

    def test_whoever_has_the_most_makes_room_for_others(self) -> None:
        parked: ParkedPulls[str] = ParkedPulls(owner_bytes=100 * PULL_BYTES, all_bytes=20 * PULL_BYTES)
        parked.park(("T", 0), 0, None, 100, "small", owner="small")
        for number in range(19):
            assert parked.park(("T", 0), 0, None, 100, f"large {number}", owner="large") == []
        gone = parked.park(("T", 0), 0, None, 100, "new", owner="new")
        assert [one.ticket for one in gone] == ["large 0", "large 1", "large 2"]
        assert parked.held == 18 * PULL_BYTES

    def test_tags_of_its_own_count(self) -> None:
        parked: ParkedPulls[str] = ParkedPulls(owner_bytes=3 * PULL_BYTES)
        tags = frozenset(range(2 * PULL_BYTES // TAG_BYTES))
        parked.park(("T", 0), 0, tags, 100, "first", owner="c", own_tags=len(tags))
        gone = parked.park(("T", 0), 0, tags, 100, "second", owner="c", own_tags=len(tags))
        assert [one.ticket for one in gone] == ["first"]

    def test_an_owner_that_leaves_takes_everything_along(self) -> None:
        parked: ParkedPulls[str] = ParkedPulls()
        parked.park(("T", 0), 0, None, 100, "mine", owner="c")
        parked.park(("T", 1), 0, None, 100, "mine", owner="c")
        parked.park(("T", 1), 0, None, 100, "other", owner="d")
        parked.leave("c")
        parked.leave("nobody")
        assert (len(parked), parked.held) == (1, PULL_BYTES)
        assert [one.ticket for one in parked.expired(100)] == ["other"]
        assert parked.held == 0

    def test_pulls_that_a_message_does_not_concern_are_not_looked_at(self) -> None:
        parked: ParkedPulls[int] = ParkedPulls()
        for number in range(2000):
            parked.park(("T", 0), 0, frozenset({1, 10 + number}), 100, number, owner="c")
        parked.park(("T", 0), 0, frozenset({5, 6}), 100, 5, owner="c")
        looked_at = list(parked.queues["T", 0].wanting(6))
        assert [one.ticket for one in looked_at] == [5]
        assert [one.ticket for one in parked.arrived(("T", 0), 0, 6)] == [5]
        assert [one.ticket for one in parked.arrived(("T", 0), 0, 17)] == [7]
        assert [one.ticket for one in parked.arrived(("T", 0), 0, 17)] == []
        assert len(parked.arrived(("T", 0), 0, 1)) == 1999
        assert parked.queues == {}

    def test_many_are_taken_some_at_a_time(self) -> None:
        parked: ParkedPulls[int] = ParkedPulls()
        for number in range(30):
            parked.park(("T", 0), 0, None, 100, number, owner="c")
        assert [one.ticket for one in parked.arrived(("T", 0), 0, 0, 5)] == [0, 1, 2, 3, 4]
        assert [one.ticket for one in parked.expired(100, 5)] == [5, 6, 7, 8, 9]
        assert parked.next_deadline_ms == 100
        assert not parked.leave("c", 15)
        assert parked.leave("c", 15)
        assert (len(parked), parked.held) == (0, 0)
        assert parked.expired(100, 5) == []
        assert parked.next_deadline_ms is None

    def test_pulls_are_recalled_by_what_they_are(self) -> None:
        parked: ParkedPulls[str] = ParkedPulls()
        parked.park(("T", 0), 0, None, 100, "g", owner="c")
        parked.park(("T", 0), 0, None, 100, "h", owner="c")
        assert [one.ticket for one in parked.recall(("T", 0), lambda ticket: ticket == "g")] == ["g"]
        assert [one.ticket for one in parked.expired(100)] == ["h"]


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        (None, None),
        ("", None),
        ("*", None),
        ("A", ("A",)),
        (" A || B||  || C ", ("A", "B", "C")),
        ("||", ()),
    ],
)
def test_tag_expressions(expression: str | None, tags: tuple[str, ...] | None) -> None:
    assert tags_of(expression) == tags
    assert codes_of(expression) == (None if tags is None else frozenset(map(tag_code, tags)))


def test_codes_do_not_come_from_the_client() -> None:
    wanted = SubscriptionData(topic="T", sub_string="A", code_set=[1, 2, 3])
    assert wanted_codes(wanted) == frozenset({tag_code("A")})
    assert wanted_codes(SubscriptionData(topic="T", tags_set=["B"])) == frozenset({tag_code("B")})
    assert wanted_codes(SubscriptionData(topic="T")) is None


def test_a_page_that_ends_by_its_bytes_leaves_no_single_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache's clients ask for no further page when one row is left."""
    monkeypatch.setattr(pages, "PAGE_BYTES", 10)
    sizes = {"a": 6, "b": 6, "c": 6}
    assert pages.names_of_page(iter(sizes), 10, 3, sizes.__getitem__) == ["a", "b", "c"]
    assert pages.names_of_page(iter(sizes), 10, 4, sizes.__getitem__) == ["a", "b"]
    assert pages.names_of_page(iter(sizes), 1, 3, sizes.__getitem__) == ["a"]
    assert pages.names_of_page(iter(sizes), 0, 3, sizes.__getitem__) == []

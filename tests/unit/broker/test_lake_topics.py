"""The topics that a broker keeps for a lake, and the offsets of lakes and groups."""

from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topic_attributes import lake_topics
from firearrow.broker.tables.topics import TopicTable
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.store.lake_topics import LakeTopic


def offsets(rows: dict[str, dict[int, int]]) -> OffsetTable:
    table = OffsetTable()
    for group, queues in rows.items():
        for queue_id, offset in queues.items():
            table.commit(group, "T", queue_id, offset)
    return table


def found(value: str, rows: dict[str, dict[int, int]]) -> LakeTopic:
    kept_topic = TopicConfig(topic_name="T", attributes={"lake.retention": value})
    table = TopicTable([kept_topic, TopicConfig(topic_name="U")])
    table.put(kept_topic, 1)
    kept = lake_topics(table.for_lakes, offsets(rows))
    assert list(kept) == ["T"]
    return kept["T"]


def test_a_topic_is_kept_until_it_is_changed_or_deleted() -> None:
    kept, plain = TopicConfig(topic_name="T", attributes={"lake.retention": "KEEP"}), TopicConfig(topic_name="T")
    table = TopicTable()
    table.put(kept, 1)
    assert list(table.for_lakes) == ["T"]
    table.put(plain, 2)
    assert not table.for_lakes
    table.put(kept, 3)
    again = TopicTable()
    again.restore(b"".join(table.pieces()))
    assert list(again.for_lakes) == ["T"]
    table.delete("T", 4)
    again.apply(table.line("T"))
    assert not table.for_lakes
    assert not again.for_lakes


def test_a_topic_without_marks_is_in_no_lake() -> None:
    assert found("KEEP", {"consumers": {0: 9}}) == LakeTopic({})
    assert found("RELEASE", {"consumers": {0: 9}}) == LakeTopic({}, {})


def test_the_slowest_lake_counts_and_a_queue_that_one_lacks_is_in_none() -> None:
    rows = {"FIREARROW_LAKE_a": {0: 7, 1: 5}, "FIREARROW_LAKE_b": {0: 4}, "consumers": {0: 1}}
    assert found("KEEP", rows) == LakeTopic({0: 4})


def test_messages_are_released_when_the_groups_have_them_too() -> None:
    rows = {"FIREARROW_LAKE_a": {0: 7, 1: 5}, "fast": {0: 9, 1: 9}, "slow": {0: 2, 1: 5}}
    assert found("RELEASE", rows) == LakeTopic({0: 7, 1: 5}, {0: 2, 1: 5})
    rows["away"] = {0: 9}
    assert found("RELEASE", rows) == LakeTopic({0: 7, 1: 5}, {0: 2}), "a group that never read queue 1"

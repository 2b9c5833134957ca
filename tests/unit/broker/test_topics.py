"""The table of topics: made, changed, deleted, stored, and made by a first send."""

import pytest

from firearrow.broker.settings.config import BrokerConfig
from firearrow.broker.tables.topic_attributes import altered, parse_changes
from firearrow.broker.tables.topics import TopicTable, describe, system_topics
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.refusal import Refused


def table(config: BrokerConfig | None = None) -> TopicTable:
    return TopicTable(system_topics(config or BrokerConfig(), "broker-a"))


def test_system_topics_are_those_of_apache() -> None:
    queues = {name: (topic.write_queue_nums, topic.perm) for name, topic in table().topics.items()}
    assert queues == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "rmq_sys_wheel_timer": (1, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": (1, 6),
    }


def test_settings_decide_about_some_system_topics() -> None:
    config = BrokerConfig(
        auto_create_topic_enable=False, trace_topic_enable=True, cluster_topic_enable=False, broker_topic_enable=False
    )
    topics = table(config)
    assert "TBW102" not in topics
    assert "RMQ_SYS_TRACE_TOPIC" in topics
    assert topics.topics["DefaultCluster"].perm == topics.topics["broker-a"].perm == 1


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (16, 8), (0, 0), (-3, 0)])
def test_first_send_makes_the_smaller_number_of_queues(asked: int, made: int) -> None:
    topics = table()
    changed = topics.create_like("T", "TBW102", asked, 0, 5)
    assert [topic.topic_name for topic in changed.topics] == ["T"]
    topic = topics.topics["T"]
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (made, made, 6)
    assert (topics.version.counter, topics.version.timestamp) == (1, 5)


@pytest.mark.parametrize("default", ["SELF_TEST_TOPIC", "nobody"])
def test_first_send_makes_nothing_after_a_topic_that_lends_nothing(default: str) -> None:
    topics = table()
    assert topics.create_like("T", default, 4, 0, 5).topics == ()
    assert "T" not in topics
    assert topics.version.counter == 0


def test_retry_topics_are_made_once() -> None:
    topics = table()
    assert topics.ensure("%RETRY%g", 1, 1).topics
    assert not topics.ensure("%RETRY%g", 2, 2).topics
    assert topics.topics["%RETRY%g"].read_queue_nums == 1


def test_order_is_taken_over_and_stays() -> None:
    topics = table()
    topics.put(TopicConfig(topic_name="T"), 1)
    assert [topic.order for topic in topics.order(["T", "unknown"], 2).topics] == [True]
    assert not topics.order(["T"], 3).topics
    assert not topics.order([], 4).topics
    assert topics.topics["T"].order


def test_a_stored_table_lies_over_the_system_topics() -> None:
    before = table()
    before.put(TopicConfig(topic_name="T", read_queue_nums=3), 7)
    before.put(TopicConfig(topic_name="TBW102", perm=6), 8)
    after = table()
    after.restore(b"".join(before.pieces()))
    assert after.topics == before.topics
    assert after.version == before.version


def test_deleted_topics_are_gone() -> None:
    topics = table()
    topics.put(TopicConfig(topic_name="T"), 1)
    assert topics.delete("T", 2)
    assert not topics.delete("T", 3)
    assert topics.version.counter == 2


def test_description_is_java_s() -> None:
    topic = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)
    assert describe(topic) == (
        "TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={}]"
    )


def test_attributes_are_added_changed_and_removed() -> None:
    new = altered(None, parse_changes("+message.type=FIFO,+queue.type=SimpleCQ"))
    assert new == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert altered(new, parse_changes("+message.type=NORMAL")) == {"message.type": "NORMAL", "queue.type": "SimpleCQ"}
    assert altered(new, parse_changes("-message.type")) == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize("kind", ["NORMAL", "UNSPECIFIED", "FIFO", "DELAY", "TRANSACTION"])
def test_types_of_messages_that_are_offered_are_accepted(kind: str) -> None:
    assert altered(None, parse_changes(f"+message.type={kind}")) == {"message.type": kind}


@pytest.mark.parametrize(
    ("current", "changes", "remark"),
    [
        (None, "-message.type", "only add attribute"),
        ({}, "-message.type", "nonexistent key"),
        ({}, "+queue.type=SimpleCQ", "unchangeable"),
        (None, "+colour=red", "unsupported key"),
        (None, "+message.type=MIXED", "MIXED"),
        (None, "+message.type=WRONG", "not in set"),
        (None, "+message.type=LITE", "not offered"),
        (None, "+message.type=PRIORITY", "not ordered by priority"),
        ({"message.type": "NORMAL"}, "+message.type=PRIORITY", "not ordered by priority"),
        (None, "+queue.type=BatchCQ", "not offered"),
        (None, "+cleanup.policy=COMPACTION", "not offered"),
        (None, "message.type=FIFO", "format is wrong"),
        (None, "message.type", "format is wrong"),
    ],
)
def test_attributes_that_make_no_sense_are_refused(current: dict[str, str] | None, changes: str, remark: str) -> None:
    with pytest.raises(Refused, match=remark):
        altered(current, parse_changes(changes))

"""The life of a topic: kept by changes and by the file, taken over by slaves, another one when it is created again."""

from firearrow.broker.tables.topics import UNKNOWN_LIFE, TopicTable
from firearrow.protocol.bodies.admin.topic import TopicConfig


def topic(queues: int) -> TopicConfig:
    return TopicConfig(topic_name="orders", read_queue_nums=queues, write_queue_nums=queues)


def life(table: TopicTable) -> int | None:
    return table.topics["orders"].life


def test_a_topic_that_is_created_again_has_another_life() -> None:
    table = TopicTable()
    table.put(topic(4), 1000)
    table.put(topic(1), 2000)
    assert life(table) == 1000, "a change keeps it"
    restored = TopicTable()
    restored.restore(b"".join(table.pieces()))
    assert life(restored) == 1000, "the file has it"
    table.delete("orders", 3000)
    table.put(topic(1), 4000)
    assert life(table) == 4000
    replayed = TopicTable()
    replayed.apply(table.line("orders"))
    assert life(replayed) == 4000, "the journal has it"


def test_a_life_that_is_not_known_is_not_made_up() -> None:
    old = TopicTable()
    old.restore(b'{"dataVersion":{"counter":1},"topicConfigTable":{"orders":{"topicName":"orders"}}}')
    old.put(topic(2), 1000)
    assert life(old) is None, "a topic of an earlier version, or of Apache's broker"
    missing = TopicTable()
    missing.ensure("orders", 2, 1000, life=UNKNOWN_LIFE)
    missing.put(topic(3), 2000)
    assert life(missing) == UNKNOWN_LIFE, "a topic that is made for messages in the log"


def test_a_slave_has_the_life_of_its_master() -> None:
    slave = TopicTable()
    slave.put_all((TopicConfig(topic_name="orders", life=1000),), 5000)
    assert life(slave) == 1000

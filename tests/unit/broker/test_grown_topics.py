"""Topics that were made again for messages in the log grow with the queues of further messages."""

from firearrow.broker.failover.group_part import _MissingTopics
from firearrow.broker.settings.config import BrokerConfig
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.tables.topics import system_topics
from firearrow.store.placement import QueueTail
from firearrow.testing.sim.world import World


def test_a_restored_topic_grows_with_the_queues_of_its_messages() -> None:
    async def scenario(world: World) -> None:
        node = world.node("machine")
        node.disk.make_directory("")
        topics = TopicBook(node.disk, node.clock, system_topics(BrokerConfig(), "broker-a"))
        missing = _MissingTopics(topics, TableChanges())
        for queue_id, readable in ((2, 3), (0, 3), (7, 8)):
            missing.arrived([(QueueTail("delayed", queue_id), 0, 0, 0, 0, 0, 0)])  # type: ignore[list-item]
            found = topics.get("delayed")
            assert found is not None
            assert (found.read_queue_nums, found.write_queue_nums) == (readable, 3)

    World(1).run(scenario)

"""Brokers of a size: how many topics they have, how many offsets."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from benchmarks.overload.frames import frame
from benchmarks.size.probe import Line, connect, run
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopicList
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroupList
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from judges import FireArrowNameServer

A_TIME = 1000
SENDS = 100
QUEUES = 4


def topic_name(number: int) -> str:
    """The name of a topic, as long as names are."""
    return f"orders-of-shop-{number:06d}"


@contextmanager
def broker_with(topics: int) -> Iterator[tuple[FireArrowInEarnest, FireArrowNameServer]]:
    """A broker with so many topics, and its name server."""
    with FireArrowNameServer(arguments=["--log-level", "ERROR"]) as names:
        broker = FireArrowInEarnest(name_servers=[names.address], settings={})
        with broker:
            run(make_topics(broker.port, range(topics)))
            yield broker, names


async def make_topics(port: int, numbers: range) -> None:
    """Make topics, a thousand a request."""
    line = await connect(port)
    for first in range(numbers.start, numbers.stop, A_TIME):
        await make_some(line, range(first, min(first + A_TIME, numbers.stop)))
    line.transport.close()


async def make_some(line: Line, numbers: range) -> None:
    """Make topics in one request."""
    topics = [
        TopicConfig(topic_name=topic_name(number), read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        for number in numbers
    ]
    assert await line.ask(UpdateAndCreateTopicList(), encode_body(CreateTopicListBody(topic_config_list=topics))) == 0


async def send_to_each(port: int, topics: int) -> None:
    """One message for the first queue of every topic."""
    line = await connect(port)
    waiting = [topic_name(number) for number in range(topics)]
    while waiting:
        some, waiting = waiting[:SENDS], waiting[SENDS:]
        codes = await asyncio.gather(*(line.send(name, 0) for name in some))
        assert set(codes) <= {0, ResponseCode.SYSTEM_BUSY}, f"sends were refused with {set(codes)}"
        waiting += [name for name, code in zip(some, codes, strict=True) if code]
    line.transport.close()


async def commit_offsets(port: int, groups: int, topics: int) -> None:
    """Every group has read something of every queue of every topic."""
    line = await connect(port)
    names = [f"group-{number:05d}" for number in range(groups)]
    made = SubscriptionGroupList(group_config_list=[SubscriptionGroupConfig(group_name=name) for name in names])
    assert await line.ask(UpdateAndCreateSubscriptionGroupList(), encode_body(made)) == 0
    for name in names:
        for number in range(topics):
            for queue_id in range(QUEUES):
                line.transport.write(commit(name, topic_name(number), queue_id, 1))
        asked = QueryConsumerOffset(consumer_group=name, topic=topic_name(0), queue_id=0)
        assert await line.ask(asked) == 0
    line.transport.close()


def commit(group: str, topic: str, queue_id: int, offset: int) -> bytes:
    """A commit that nobody answers to whom it matters."""
    request = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
    return frame(request, 0)


class HeartbeatOfConsumer(msgspec.Struct):
    """The heartbeat of a member of a group."""

    clientID: str  # noqa: N815 - the name on the wire
    consumerDataSet: list[dict[str, object]]  # noqa: N815
    producerDataSet: list[dict[str, object]] = []  # noqa: N815


def member_body(client: str, group: str, topic: str) -> bytes:
    """The heartbeat of a member of a group."""
    consumer: dict[str, object] = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [{"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}],
    }
    return msgspec.json.encode(HeartbeatOfConsumer(client, [consumer]))

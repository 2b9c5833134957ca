"""The topics of one broker: asked by any name of the broker, page by page, and changed with signed attributes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from firearrow.admin.broker_topics import PAGE, BrokerTopics, attribute_text
from firearrow.admin.brokers import BrokerMember, Brokers, Server
from firearrow.admin.topics import divided
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.topic import GetAllTopicConfig, GetAllTopicConfigAnswer
from firearrow.remoting.reply import Reply
from firearrow.runtime.network import Address

AT = Address("10.0.0.1", 10911)


class Broker:
    """A caller whose server answers with pages of topics, one after the other."""

    def __init__(self, pages: Sequence[tuple[int, Sequence[str]]], total: int | None) -> None:
        self._pages = iter(pages)
        self._total = total
        self.asked: list[tuple[Address, Request[Any]]] = []

    async def call(self, address: Address, request: Request[Any], _body: bytes, **_limits: object) -> Reply[Any]:
        self.asked.append((address, request))
        counter, names = next(self._pages)
        version = DataVersion(counter=counter)
        table = {name: TopicConfig(topic_name=name) for name in names}
        body = encode_body(TopicConfigTable(data_version=version, topic_config_table=table))
        return Reply(GetAllTopicConfigAnswer(total_topic_num=self._total), body)


def read(broker: Broker, at: Server = AT) -> list[str]:
    brokers = Brokers(broker, None, 1.0)  # type: ignore[arg-type]
    return list(asyncio.run(BrokerTopics(brokers).table(at)).topic_config_table)


@pytest.mark.parametrize("at", [AT, str(AT), BrokerMember("cluster", "broker-a", 0, str(AT))], ids=repr)
def test_a_broker_is_asked_by_address_by_text_or_as_a_member(at: Server) -> None:
    broker = Broker([(1, ["a"])], None)
    assert read(broker, at) == ["a"]
    assert [address for address, _ in broker.asked] == [AT]


def test_pages_follow_one_another_until_all_topics_are_there() -> None:
    broker = Broker([(1, ["a", "b"]), (1, ["c"])], 3)
    assert read(broker) == ["a", "b", "c"]
    first, second = (request for _, request in broker.asked)
    assert isinstance(first, GetAllTopicConfig)
    assert isinstance(second, GetAllTopicConfig)
    assert (first.topic_seq, first.max_topic_num, second.topic_seq) == (0, PAGE, 2)


def test_a_table_that_changes_between_two_pages_is_read_from_its_beginning() -> None:
    broker = Broker([(1, ["a", "b"]), (2, ["x"]), (2, ["y", "z"])], 3)
    assert read(broker) == ["x", "y", "z"]


def test_a_broker_without_pages_is_asked_once() -> None:
    broker = Broker([(1, ["a", "b"])], None)
    assert read(broker) == ["a", "b"]


def test_attributes_are_sent_with_their_signs() -> None:
    assert attribute_text({"+message.type": "FIFO", "-old": ""}) == "+message.type=FIFO,-old"


def test_queues_are_divided_in_blocks_with_the_remainder_at_the_first_members() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in range(5)]
    assert divided(queues, ["x", "y"]) == {"x": queues[:3], "y": queues[3:]}

"""Routes: what a name server's answer means to a client."""

import pytest

from firearrow.client.routes import (
    MAX_QUEUES,
    MOST_BROKERS,
    MOST_QUEUES,
    RouteTable,
    borrowed,
    read_masters,
    read_route,
)
from firearrow.errors import BadBody
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.naming.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from firearrow.runtime.network import Address


def queue_data(broker: str, *, perm: int = 6, read: int = 2, write: int = 2) -> QueueData:
    return QueueData(broker_name=broker, perm=perm, read_queue_nums=read, write_queue_nums=write)


def broker_data(broker: str, **addresses: str) -> BrokerData:
    numbered = {int(number.removeprefix("id")): text for number, text in addresses.items()}
    return BrokerData(broker_name=broker, cluster="c", broker_addrs=numbered)


def queues(broker: str, *numbers: int) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("T", broker, number) for number in numbers)


def test_queues_are_merged_in_order_of_broker_names() -> None:
    data = TopicRouteData(
        broker_datas=[broker_data("b", id0="1.1.1.1:1"), broker_data("a", id0="2.2.2.2:2")],
        queue_datas=[queue_data("b", write=1), queue_data("a", read=3)],
    )
    route = read_route("T", data)
    assert route.write_queues == queues("a", 0, 1) + queues("b", 0)
    assert route.read_queues == queues("a", 0, 1, 2) + queues("b", 0, 1)


def test_only_brokers_with_a_master_and_permission_are_written_to() -> None:
    data = TopicRouteData(
        broker_datas=[broker_data("a", id1="1.1.1.1:1"), broker_data("b", id0="2.2.2.2:2")],
        queue_datas=[queue_data("a"), queue_data("b", perm=4), queue_data("unknown")],
    )
    route = read_route("T", data)
    assert route.write_queues == ()
    assert {queue.broker_name for queue in route.read_queues} == {"a", "b", "unknown"}


def test_strict_order_names_its_queues_whether_their_broker_is_there_or_not() -> None:
    data = TopicRouteData(
        broker_datas=[broker_data("a", id0="1.1.1.1:1")], queue_datas=[queue_data("a")], order_topic_conf="a:1;gone:2"
    )
    route = read_route("T", data)
    assert route.is_strictly_ordered
    assert route.write_queues == queues("a", 0) + queues("gone", 0, 1)


@pytest.mark.parametrize(
    "data",
    [
        TopicRouteData(order_topic_conf="a"),
        TopicRouteData(order_topic_conf="a:x"),
        TopicRouteData(queue_datas=[queue_data("a", read=10**9)]),
        TopicRouteData(queue_datas=[queue_data("a", read=-1)]),
        TopicRouteData(broker_datas=[broker_data("a", id0="nowhere")]),
    ],
)
def test_nonsense_is_refused(data: TopicRouteData) -> None:
    with pytest.raises(BadBody):
        read_route("T", data)


def test_a_topic_that_does_not_exist_borrows_the_queues_of_the_auto_create_topic() -> None:
    data = TopicRouteData(broker_datas=[broker_data("a", id0="1.1.1.1:1")], queue_datas=[queue_data("a", write=8)])
    route = borrowed(read_route("TBW102", data), "T", 4)
    assert route.write_queues == queues("a", 0, 1, 2, 3)
    assert route.read_queues == ()


def test_the_table_tells_changes_and_finds_somebody_to_read_from() -> None:
    both = TopicRouteData(
        broker_datas=[broker_data("a", id0="1.1.1.1:1", id1="2.2.2.2:2")], queue_datas=[queue_data("a")]
    )
    table = RouteTable()
    assert table.update(read_route("T", both))
    assert not table.update(read_route("T", both))
    assert table.master("a") == Address("1.1.1.1", 1)
    assert table.readable("a") == (0, Address("1.1.1.1", 1))
    assert table.readable("a", 1) == (1, Address("2.2.2.2", 2))
    assert table.readable("a", 7) == (0, Address("1.1.1.1", 1))
    assert table.readable("b") is None

    slave_only = TopicRouteData(broker_datas=[broker_data("a", id1="2.2.2.2:2")], queue_datas=[queue_data("a")])
    assert table.update(read_route("T", slave_only))
    assert table.master("a") is None
    assert table.readable("a") == (1, Address("2.2.2.2", 2))


def test_of_a_broker_the_address_that_was_heard_last_counts() -> None:
    def at(address: str) -> TopicRouteData:
        return TopicRouteData(broker_datas=[broker_data("a", id0=address)], queue_datas=[queue_data("a")])

    table = RouteTable()
    table.update(read_route("T", at("1.1.1.1:1")))
    table.update(read_route("deleted", at("1.1.1.1:1")))
    assert table.update(read_route("T", at("2.2.2.2:2")))
    assert table.master("a") == Address("2.2.2.2", 2)
    table.update(read_route("deleted", at("1.1.1.1:1")))  # an answer of a name server that is behind
    assert not table.update(read_route("T", at("2.2.2.2:2")))
    assert table.master("a") == Address("2.2.2.2", 2)
    assert table.topics() == ["T", "deleted"]


@pytest.mark.parametrize(
    "data",
    [
        TopicRouteData(broker_datas=[broker_data(f"b{one}", id0="1.1.1.1:1") for one in range(MOST_BROKERS + 1)]),
        TopicRouteData(
            broker_datas=[BrokerData(broker_name="b", broker_addrs=dict.fromkeys(range(MOST_BROKERS + 1), "1.1.1.1:1"))]
        ),
        TopicRouteData(queue_datas=[queue_data("b", read=MAX_QUEUES)] * (MOST_QUEUES // MAX_QUEUES + 1)),
        TopicRouteData(queue_datas=[queue_data("b", read=0, write=0, perm=0)] * (MOST_QUEUES + 1)),
        TopicRouteData(order_topic_conf=f"a:{MAX_QUEUES};" * (MOST_QUEUES // MAX_QUEUES + 1)),
        TopicRouteData(order_topic_conf=f"a:{'9' * 5000}"),
    ],
    ids=["brokers", "addresses", "queues", "entries", "ordered queues", "digits"],
)
def test_a_route_that_would_exhaust_a_client_is_refused(data: TopicRouteData) -> None:
    with pytest.raises(BadBody) as caught:
        read_route("T", data)
    assert len(str(caught.value)) < 1000


def test_a_cluster_that_would_exhaust_a_client_is_refused() -> None:
    brokers = {f"b{one}": broker_data(f"b{one}", id0="1.1.1.1:1") for one in range(MOST_BROKERS + 1)}
    with pytest.raises(BadBody):
        read_masters(ClusterInfo(broker_addr_table=brokers))

"""The answers of a consumer to requests of brokers."""

from types import SimpleNamespace
from typing import cast

from firearrow import fastjson
from firearrow.client.consumer.broker_requests import BrokerRequests
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.consumer.window import Window
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.group.offset import GetConsumerStatusBody
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo
from firearrow.protocol.requests.group.heartbeat import NotifyConsumerIdsChanged
from firearrow.protocol.requests.group.push import GetConsumerRunningInfo
from firearrow.protocol.requests.group.reset import GetConsumerStatusFromClient, ResetConsumerClientOffset
from firearrow.remoting.handlers import Call

GROUP = "readers"
ORDERS, OTHERS = MessageQueue("orders", "a", 0), MessageQueue("others", "a", 0)
RESET_BODY = b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"orders"}:7}}'


class Queues:
    """The queues of a consumer that reads two topics."""

    def __init__(self) -> None:
        self.flows = {queue: OwnedQueue(queue, ordered=False) for queue in (ORDERS, OTHERS)}
        self.resets: list[tuple[MessageQueue, int]] = []
        self.counts = {"failedDeliveries": 2, "rejectedMessages": 5}
        self.flows[ORDERS].window = Window(41)

    def reset(self, queue: MessageQueue, offset: int) -> bool:
        """Note the offset."""
        self.resets.append((queue, offset))
        return True


def asked(rebalanced: list[str]) -> tuple[BrokerRequests, Queues]:
    requests = BrokerRequests(
        ConsumerSettings(group=GROUP, workers=3),
        {"orders": Subscription("orders")},
        lambda: rebalanced.append("again"),
        lambda _at: 1_700_000_000_000,
        1_600_000_000_000,
    )
    requests.receiver = queues = Queues()
    return requests, queues


def call(body: bytes = b"") -> Call:
    return cast("Call", SimpleNamespace(body=body))


def test_a_change_of_members_divides_the_queues_anew() -> None:
    rebalanced: list[str] = []
    requests, _ = asked(rebalanced)
    requests.members_changed(NotifyConsumerIdsChanged(consumer_group=GROUP), call())
    assert rebalanced == ["again"]


def test_a_reset_moves_the_queues_of_its_body() -> None:
    requests, queues = asked([])
    requests.reset(ResetConsumerClientOffset(topic="orders", group=GROUP, timestamp=0, is_force=True), call(RESET_BODY))
    assert queues.resets == [(ORDERS, 7)]


def test_a_reset_of_another_group_moves_nothing() -> None:
    requests, queues = asked([])
    requests.reset(
        ResetConsumerClientOffset(topic="orders", group="strangers", timestamp=0, is_force=True), call(RESET_BODY)
    )
    assert queues.resets == []


def test_the_status_tells_the_offsets_of_the_topic_that_was_asked_for() -> None:
    requests, _ = asked([])
    answer = requests.status(GetConsumerStatusFromClient(topic="orders", group=GROUP), call())
    assert fastjson.decode(bytes(answer.body), GetConsumerStatusBody).message_queue_table == {ORDERS: 41}


def test_a_consumer_tells_about_itself() -> None:
    requests, _ = asked([])
    answer = requests.running_info(GetConsumerRunningInfo(consumer_group=GROUP, client_id="me"), call())
    info = fastjson.decode(bytes(answer.body), ConsumerRunningInfo)
    assert info.properties["consumerGroup"] == GROUP
    assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == "3"
    assert info.properties["PROP_CONSUMER_START_TIMESTAMP"] == "1600000000000"
    assert info.properties["rejectedMessages"] == "5"
    assert info.mq_table[ORDERS].commit_offset == 41
    assert [data.topic for data in info.subscription_set] == ["orders"]

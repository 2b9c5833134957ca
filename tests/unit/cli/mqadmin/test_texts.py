"""Texts of ``mqadmin`` in Java's forms."""

import pytest

from firearrow.admin.broker_topics import attribute_text
from firearrow.cli.mqadmin.cluster.listing import incoming, outgoing, timers
from firearrow.cli.mqadmin.group.changes import group_text
from firearrow.cli.mqadmin.group.clients import ORDERLY, START, TYPE, info_text, same_subscription, stuck_queues
from firearrow.cli.mqadmin.java_text import formed, java, read_time, second_text, time_digits, time_text
from firearrow.cli.mqadmin.message.message_text import message_text
from firearrow.cli.mqadmin.message.trace_text import read_traces
from firearrow.cli.mqadmin.topic.changes import attributes_of, topic_text
from firearrow.cli.mqadmin.topic.views import json_text
from firearrow.errors import SettingsError
from firearrow.model import EpochMs, Host, MessageQueue, PhysicalOffset, QueueOffset, StoredMessage
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo, ProcessQueueInfo

QUEUE = MessageQueue("T", "broker-a", 3)
NOW = 1_700_000_000_000


def stored(body: bytes = b"hi", properties: dict[str, str] | None = None) -> StoredMessage:
    host = Host("127.0.0.1", 10911)
    return StoredMessage(
        topic="T",
        body=body,
        properties=properties or {},
        flag=0,
        sys_flag=0,
        queue_id=3,
        queue_offset=QueueOffset(7),
        physical_offset=PhysicalOffset(500),
        born_timestamp=EpochMs(NOW),
        born_host=host,
        store_timestamp=EpochMs(NOW),
        store_host=host,
        reconsume_times=0,
        prepared_transaction_offset=PhysicalOffset(0),
        body_crc=123,
        store_size=99,
    )


def test_plain_values_print_as_in_java() -> None:
    assert [java(each) for each in (None, True, 1, "x", ["a", None])] == ["null", "true", "1", "x", "[a, null]"]
    assert java({0: "h:1", 1: "h:2"}) == "{0=h:1, 1=h:2}"
    assert java(QUEUE) == "MessageQueue [topic=T, brokerName=broker-a, queueId=3]"
    assert formed("%-4d|%s|%s", 7, None, False) == "7   |null|false"
    assert formed("100%") == "100%"


def test_times_are_local_and_read_back() -> None:
    text = second_text(NOW).replace(" ", "#") + ":007"
    assert read_time(text) == NOW + 7
    assert read_time("42") == 42
    assert time_text(NOW + 7).endswith(",007")
    assert time_digits(NOW + 7).isdigit()
    with pytest.raises(SettingsError, match="is not a time"):
        read_time("tomorrow")


def test_a_topic_and_a_group_print_as_in_java() -> None:
    assert topic_text(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8)) == (
        "TopicConfig [topicName=T, readQueueNums=8, writeQueueNums=8, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={}]"
    )
    told = group_text(SubscriptionGroupConfig(group_name="G"))
    assert told.startswith("SubscriptionGroupConfig{groupName=G, consumeEnable=true, ")
    assert told.endswith("consumeTimeoutMinute=15, subscriptionDataSet=null, attributes={}}")


def test_attributes_go_through_unchanged() -> None:
    changes = attributes_of("+message.type=FIFO,-b")
    assert attribute_text(changes) == "+message.type=FIFO,-b"
    for wrong in ("a=b", "+a", "-a=b"):
        with pytest.raises(SettingsError, match="neither"):
            attributes_of(wrong)


def test_a_message_prints_as_in_java() -> None:
    told = message_text(stored(bytes([104, 255]), {"TAGS": "A"}), "broker-a", {"MIN_OFFSET": "0"})
    assert told.startswith("MessageExt [brokerName=broker-a, queueId=3, storeSize=99, queueOffset=7, sysFlag=0, ")
    assert "bornHost=/127.0.0.1:10911" in told
    assert "msgId=7F00000100002A9F00000000000001F4" in told
    assert told.endswith(
        "toString()=Message{topic='T', flag=0, properties={TAGS=A, MIN_OFFSET=0}, body=[104, -1], "
        "transactionId='null'}]"
    )


def test_json_is_indented_with_tabs_and_bare_numbers() -> None:
    assert json_text({0: "a", "b": [], "c": [1]}) == '{\n\t0:"a",\n\t"b":[],\n\t"c":[\n\t\t1\n\t]\n}'


def test_columns_of_the_cluster_list() -> None:
    table = {"putTps": "1.5 2 3", "sendThreadPoolQueueSize": "4", "sendThreadPoolQueueHeadWaitTimeMills": "5"}
    assert incoming(table) == "     1.50(4,5ms)"
    assert outgoing({**table, "getTransferedTps": "2 1 1", "pullThreadPoolQueueSize": "1",
                     "pullThreadPoolQueueHeadWaitTimeMills": "0"}) == "     2.00(1,0ms|N,Nms)"  # fmt: skip
    assert timers({}) == "0-0(0.0w, 0.0, 0.0)"
    full = {"timerReadBehind": "1", "timerOffsetBehind": "2", "timerCongestNum": "12000", "timerEnqueueTps": "0.5",
            "timerDequeueTps": "1.0"}  # fmt: skip
    assert timers(full) == "1-2(1.2w, 0.5, 1.0)"


def test_traces_of_producers_and_consumers_are_read() -> None:
    pub = "\x01".join(["Pub", str(NOW), "R", "PG", "T", "ID", "A", "k", "h", "5", "12", "0", "OFF", "true", "c"])
    sub = "\x01".join(["SubAfter", "req", "ID", "9", "false", "k", "0", str(NOW), "CG"])
    other = pub.replace("ID", "OTHER")
    found = read_traces("ID", stored("\x02".join([pub, other, sub]).encode()))
    assert [(each.act, each.group, each.took_ms, each.success) for each in found] == [
        ("Pub", "PG", "12", True),
        ("Sub", "CG", "9", False),
    ]


def info(topic: str = "T", held: ProcessQueueInfo | None = None) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        properties={START: "0", TYPE: "CONSUME_PASSIVELY"},
        subscription_set=[SubscriptionData(topic=topic, sub_string="*")],
        mq_table={QUEUE: held or ProcessQueueInfo()},
    )


def test_members_with_other_subscriptions_are_found() -> None:
    assert same_subscription([info(), info()], NOW)
    assert not same_subscription([info(), info("U")], NOW)
    young = ConsumerRunningInfo(properties={START: str(NOW), TYPE: "CONSUME_PASSIVELY"})
    assert same_subscription([info(), young], NOW), "a member that has just started may still be rebalancing"


def test_queues_that_do_not_get_on_are_found() -> None:
    assert stuck_queues("c", info(held=ProcessQueueInfo(cached_msg_count=1)), NOW)[0].endswith(
        f"maybe blocked, {NOW}ms"
    )
    assert stuck_queues("c", info(), NOW) == []
    orderly = info(held=ProcessQueueInfo(last_lock_timestamp=NOW - 5))
    orderly.properties[ORDERLY] = "true"
    assert stuck_queues("c", orderly, NOW)[0].endswith("can't lock for a while, 5ms")


def test_running_info_has_apaches_sections() -> None:
    told = info_text(info(held=ProcessQueueInfo(commit_offset=11)))
    heads = [line for line in told.splitlines() if line.startswith("#") and line.endswith("#")]
    assert heads == [
        "#Consumer Properties#", "#Consumer Subscription#", "#Consumer Offset#", "#Consumer MQ Detail#",
        "#Consumer Pop Detail#", "#Consumer RT&TPS#", "#User Consume Info#",
    ]  # fmt: skip
    assert "ProcessQueueInfo [commitOffset=11, " in told

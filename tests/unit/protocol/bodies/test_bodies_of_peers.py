"""Bodies as clients in other languages write them."""

from firearrow import fastjson
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumeFromWhere, ConsumeType, HeartbeatData, MessageModel, word
from firearrow.protocol.bodies.group.offset import ResetOffsetBody, read_reset_offsets


def test_the_heartbeat_of_a_cpp_consumer() -> None:
    body = fastjson.decode(
        b"""{"clientID":"10.0.0.1@7","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"g",
        "messageModel":1,"subscriptionDataSet":[{"subString":"*","subVersion":"1700000000000","topic":"T"}]}]}""",
        HeartbeatData,
    )
    (consumer,) = body.consumer_data_set
    assert word(ConsumeType, consumer.consume_type) is ConsumeType.CONSUME_PASSIVELY
    assert word(MessageModel, consumer.message_model) is MessageModel.CLUSTERING
    assert word(ConsumeFromWhere, consumer.consume_from_where) is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    assert consumer.subscription_data_set[0].sub_version == 1_700_000_000_000
    assert body.producer_data_set == []


def test_a_word_that_nobody_knows_is_none() -> None:
    assert word(MessageModel, "CLUSTERING") is MessageModel.CLUSTERING
    assert word(MessageModel, "TELEPATHY") is None
    assert word(MessageModel, 9) is None
    assert word(MessageModel, -1) is None
    assert word(MessageModel, None) is None


def test_nulls_are_absent() -> None:
    body = fastjson.decode(
        b'{"clientID":"c","consumerDataSet":null,"producerDataSet":[{"groupName":null}]}', HeartbeatData
    )
    assert body.consumer_data_set == []
    assert body.producer_data_set[0].group_name is None


def test_a_topic_of_4_9_has_no_attributes() -> None:
    topic = fastjson.decode(
        b'{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,'
        b'"writeQueueNums":4}',
        TopicConfig,
    )
    assert topic == TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)


def test_new_offsets_for_java_and_go_and_for_cpp() -> None:
    body = ResetOffsetBody(offset_table={MessageQueue("T", "b", 0): 5})
    assert encode_body(body) == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    assert read_reset_offsets(encode_body(body)) == body
    assert read_reset_offsets(b'{"offsetTable":[{"brokerName":"b","offset":5,"queueId":0,"topic":"T"}]}') == body

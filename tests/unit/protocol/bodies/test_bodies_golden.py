"""Bodies against what Apache RocketMQ 5.5.0 writes.

``golden_5_5_0.json`` was printed by its own classes (``RemotingSerializable.encode``), one text for each body, named
after the Java class.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from firearrow import fastjson
from firearrow.protocol.bodies import version
from firearrow.protocol.bodies.admin import auth, static_topic, stats, topic
from firearrow.protocol.bodies.group import group, heartbeat, lock, offset, running_info
from firearrow.protocol.bodies.message import query
from firearrow.protocol.bodies.naming import registration, route
from firearrow.protocol.bodies.pop import lite, pop
from firearrow.protocol.bodies.replication import replication

GOLDEN: dict[str, str] = json.loads((Path(__file__).parent / "golden_5_5_0.json").read_text())

TYPES: dict[str, Any] = {
    "AclInfo": auth.AclInfo,
    "AclInfo.list": list[auth.AclInfo],
    "BatchAckMessageRequestBody": pop.BatchAckBody,
    "BrokerReplicasInfo": replication.BrokerReplicasInfo,
    "BrokerStatsData": stats.BrokerStatsData,
    "BrokerSyncInfo": replication.BrokerSyncInfo,
    "CheckClientRequestBody": heartbeat.CheckClientBody,
    "ClusterInfo": route.ClusterInfo,
    "ConsumeMessageDirectlyResult": running_info.ConsumeMessageDirectlyResult,
    "ConsumeStats": stats.ConsumeStats,
    "ConsumeStatsList": stats.ConsumeStatsList,
    "ConsumerConnection": heartbeat.ConsumerConnection,
    "ConsumerOffsetSerializeWrapper": offset.ConsumerOffsetTable,
    "ConsumerRunningInfo": running_info.ConsumerRunningInfo,
    "CreateTopicListRequestBody": topic.CreateTopicListBody,
    "DataVersion": version.DataVersion,
    "ElectMasterResponseBody": replication.ElectMasterBody,
    "EpochEntryCache": replication.EpochEntryCache,
    "GetBrokerLiteInfoResponseBody": lite.BrokerLiteInfo,
    "GetBrokerMemberGroupResponseBody": route.GetBrokerMemberGroupBody,
    "GetConsumerListByGroupResponseBody": heartbeat.ConsumerIdList,
    "GetConsumerStatusBody": offset.GetConsumerStatusBody,
    "GetLiteClientInfoResponseBody": lite.LiteClientInfo,
    "GetLiteGroupInfoResponseBody": lite.LiteGroupInfo,
    "GetLiteTopicInfoResponseBody": lite.LiteTopicInfo,
    "GetParentTopicInfoResponseBody": lite.ParentTopicInfo,
    "GroupForbidden": group.GroupForbidden,
    "GroupList": topic.GroupList,
    "HARuntimeInfo": replication.HaRuntimeInfo,
    "HeartbeatData": heartbeat.HeartbeatData,
    "KVTable": route.KVTable,
    "LiteSubscriptionCtlRequestBody": lite.LiteSubscriptionCtlBody,
    "LockBatchRequestBody": lock.LockBatchBody,
    "LockBatchResponseBody": lock.LockedQueues,
    "MessageRequestModeSerializeWrapper": pop.MessageRequestModeTable,
    "ProducerConnection": heartbeat.ProducerConnection,
    "ProducerTableInfo": heartbeat.ProducerTable,
    "QueryAssignmentRequestBody": pop.QueryAssignmentBody,
    "QueryAssignmentResponseBody": pop.Assignments,
    "QueryAssignmentResponseBody.attachments": pop.Assignments,
    "QueryConsumeQueueResponseBody": query.QueryConsumeQueueBody,
    "QueryConsumeTimeSpanBody": stats.QueryConsumeTimeSpanBody,
    "QueryCorrectionOffsetBody": offset.QueryCorrectionOffsetBody,
    "QuerySubscriptionResponseBody": group.QuerySubscriptionBody,
    "RegisterBrokerBody": registration.RegisterBrokerBody,
    "ResetOffsetBody": offset.ResetOffsetBody,
    "ResetOffsetBodyForC": offset.ResetOffsetBodyForC,
    "SetMessageRequestModeRequestBody": pop.SetMessageRequestModeBody,
    "SubscriptionData": heartbeat.SubscriptionData,
    "SubscriptionGroupConfig": group.SubscriptionGroupConfig,
    "SubscriptionGroupConfig.full": group.SubscriptionGroupConfig,
    "SubscriptionGroupList": group.SubscriptionGroupList,
    "SubscriptionGroupWrapper": group.SubscriptionGroupTable,
    "SyncStateSet": replication.SyncStateSet,
    "TopicConfig": topic.TopicConfig,
    "TopicConfig.attributes": topic.TopicConfig,
    "TopicConfigAndQueueMapping": topic.TopicConfigAndQueueMapping,
    "TopicConfigSerializeWrapper": topic.TopicConfigTable,
    "TopicList": route.TopicList,
    "TopicList.system": route.TopicList,
    "TopicQueueMappingDetail": static_topic.TopicQueueMappingDetail,
    "TopicRouteData": route.TopicRouteData,
    "TopicRouteData.empty": route.TopicRouteData,
    "TopicRouteData.static": route.TopicRouteData,
    "TopicStatsTable": topic.TopicStatsTable,
    "UnlockBatchRequestBody": lock.LockBatchBody,
    "UserInfo": auth.UserInfo,
    "UserInfo.list": list[auth.UserInfo],
}


@pytest.mark.parametrize("name", TYPES)
def test_what_java_writes_is_read_and_written_back(name: str) -> None:
    text = GOLDEN[name]
    value = fastjson.decode(text.encode(), TYPES[name])
    assert fastjson.encode_java(value).decode() == text


@pytest.mark.parametrize("name", TYPES)
def test_the_standard_form_says_the_same(name: str) -> None:
    value = fastjson.decode(GOLDEN[name].encode(), TYPES[name])
    standard = fastjson.encode(value)
    assert fastjson.decode(standard, TYPES[name]) == value
    json.loads(standard)


def test_a_route_in_standard_json_is_the_one_that_java_sends_to_new_clients() -> None:
    route_data = fastjson.decode(GOLDEN["TopicRouteData.static"].encode(), route.TopicRouteData)
    assert fastjson.encode(route_data).decode() == GOLDEN["TopicRouteData.standard"]


def test_no_golden_body_is_forgotten() -> None:
    other = {"TopicRouteData.standard", "RegisterBrokerBody.compressed", "TopicConfig.text"}
    assert GOLDEN.keys() == TYPES.keys() | other


def test_a_compressed_registration() -> None:
    plain = fastjson.decode(GOLDEN["RegisterBrokerBody"].encode(), registration.RegisterBrokerBody)
    data = bytes.fromhex(GOLDEN["RegisterBrokerBody.compressed"])
    body = registration.decode_registration(data, compressed=True, version=513)
    table, expected = body.topic_config_serialize_wrapper, plain.topic_config_serialize_wrapper
    assert body.filter_server_list == plain.filter_server_list
    assert table.data_version == expected.data_version
    assert table.topic_queue_mapping_info_map == expected.topic_queue_mapping_info_map
    assert table.topic_config_table.keys() == expected.topic_config_table.keys()
    assert table.topic_config_table["TopicB"].attributes == {"message.type": "FIFO"}
    assert table.topic_config_table["TopicA"].write_queue_nums == 8
    assert table.topic_config_table["TopicA"].topic_sys_flag == 0, "lost in the compressed form"


def test_the_text_of_a_topic() -> None:
    topic_b = fastjson.decode(GOLDEN["TopicConfig.attributes"].encode(), topic.TopicConfig)
    assert registration.topic_text(topic_b) == GOLDEN["TopicConfig.text"]

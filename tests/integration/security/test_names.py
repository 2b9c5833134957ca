"""CVE-2019-17572: a topic named ../../../../topic2020, made by a send, became directories outside the store.

Our rule: names are checked wherever they come in; paths are checked again where files are opened, so that a name in a
file from elsewhere leads nowhere either.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopic, UpdateAndCreateTopicList
from firearrow.protocol.requests.group.group import (
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
)
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.protocol.requests.group.reset import CloneGroupOffset
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack, SendBatchMessage, SendMessage, SendMessageV2
from tests.integration.broker.raw import a_pull
from tests.integration.security.victim import Victim
from tests.unit.access.servers import sample

pytestmark = pytest.mark.real

UPDATE_AND_CREATE_STATIC_TOPIC = 513
NAMES: tuple[str, ...] = (
    "../../x", "%RETRY%../../x", "%DLQ%../../x", "..", "/x", "a/b", "a\0b", "a\n", "\uff0e\uff0e\uff0fx",
)  # fmt: skip
ENCODED = "%2e%2e%2f%2e%2e%2fx"
"""A legal name, which nobody may decode."""
LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
ONE_MESSAGE = bytes.fromhex("00000017 00000000 00000000 00000000 00000001 78 0000")
"""A batch of one message."""


def a_send(kind: type[Any], topic: str, **more: Any) -> Request[Any]:
    """A send that makes its topic."""
    values: dict[str, Any] = {
        "producer_group": "P", "topic": topic, "default_topic": "TBW102", "default_topic_queue_nums": 4, "queue_id": 0,
        "sys_flag": 0, "born_timestamp": 1, "flag": 0, "properties": "", **more,
    }  # fmt: skip
    request: Request[Any] = kind(**values)
    return request


def requests(name: str) -> Iterator[tuple[Request[Any], bytes]]:
    """Every way in which a name gets into a broker, and that must be refused."""
    yield a_send(SendMessage, name), b"x"
    yield a_send(SendMessageV2, name), b"x"
    yield a_send(SendMessageV2, name, batch=True), ONE_MESSAGE
    yield a_send(SendBatchMessage, name, batch=True), ONE_MESSAGE
    yield replace(sample(UpdateAndCreateTopic), topic=name, read_queue_nums=1, write_queue_nums=1, perm=6), b""
    topics = [TopicConfig(topic_name="legal"), TopicConfig(topic_name=name)]
    yield UpdateAndCreateTopicList(), encode_body(CreateTopicListBody(topic_config_list=topics))
    group = SubscriptionGroupConfig(group_name=name)
    yield UpdateAndCreateSubscriptionGroup(), encode_body(group)
    groups = [SubscriptionGroupConfig(group_name="legal"), group]
    yield UpdateAndCreateSubscriptionGroupList(), encode_body(SubscriptionGroupList(group_config_list=groups))
    yield ConsumerSendMsgBack(offset=0, group=name, delay_level=0, max_reconsume_times=0), b""


def others(name: str) -> Iterator[tuple[Request[Any], bytes]]:
    """Ways that may be answered, as Apache answers them, as long as nothing comes of it."""
    wanted = SubscriptionData(topic=name, sub_string="*")
    member = ConsumerData(group_name=name, subscription_data_set=[wanted])
    yield HeartBeat(), encode_body(HeartbeatData(client_id="c", consumer_data_set=[member]))
    yield UpdateConsumerOffset(consumer_group=name, topic=name, queue_id=0, commit_offset=1), b""
    yield CloneGroupOffset(src_group="g", dest_group=name, topic="t", offline=False), b""
    yield a_pull(name, consumer_group=name), b""


def restored(broker: Victim) -> None:
    """Put such names into the tables that a broker finds at its start, as if they were Apache's."""
    config = broker.own / "config"
    config.mkdir()
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1}
    topics = {name: {"topicName": name, "perm": 6, "readQueueNums": 1, "writeQueueNums": 1} for name in NAMES}
    table = {"dataVersion": version, "topicConfigTable": topics}
    (config / "topics.json").write_text(json.dumps(table))
    groups = {name: {"groupName": name, "retryQueueNums": 1, "retryMaxTimes": 0} for name in NAMES}
    table = {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": groups}
    (config / "subscriptionGroup.json").write_text(json.dumps(table))


def said(broker: Victim) -> list[str]:
    """Say every name in every way; return what was taken, and that the server has ended if it has."""
    taken = []
    try:
        for name in NAMES:
            for request, body in requests(name):
                taken += [f"{type(request).__name__} {name!r}"] if broker.ask(request, body).code == 0 else []
            for request, body in others(name):
                broker.ask(request, body)
            body = json.dumps({"topicName": name, "mappingDetail": {"topic": name}}).encode()
            static = broker.raw(UPDATE_AND_CREATE_STATIC_TOPIC, {"topic": name, "force": "true"}, body)
            taken += [] if static.code else [f"static topic {name!r}"]
    except ConnectionError as error:
        taken.append(f"the server has ended: {error}")
    return taken


def replay(broker: Victim) -> None:
    """Look for paths first, and then at the answers."""
    before = broker.outside()
    assert broker.ask(a_send(SendMessage, "legal"), b"x").code == 0
    assert broker.ask(a_send(SendMessage, ENCODED), b"x").code == 0
    taken = said(broker)
    queues = broker.own / "consumequeue"
    broker.stop()  # so that everything is written
    assert (queues / "legal" / "0").is_dir()
    assert broker.outside() == before, f"paths outside the store: {broker.outside() - before}"
    odd = [path.name for path in queues.iterdir() if not LEGAL.fullmatch(path.name)]
    assert not odd, f"directories of queues: {odd}"
    assert not taken, f"not refused: {taken}"


def test_no_name_leaves_the_store() -> None:
    broker = Victim("broker")
    with broker:
        replay(broker)


def test_names_in_the_files_of_another_broker_lead_nowhere() -> None:
    broker = Victim("broker")
    restored(broker)
    with broker:
        replay(broker)

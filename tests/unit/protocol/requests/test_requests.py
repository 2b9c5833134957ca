"""Conversations as stock clients speak them: captured headers, and what answers must say."""

import json

import pytest

from firearrow.errors import BadHeader
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer
from firearrow.protocol.requests import ALL, BY_CODE
from firearrow.protocol.requests.admin.topic import GetAllTopicConfig
from firearrow.protocol.requests.group.group import DeleteSubscriptionGroup
from firearrow.protocol.requests.group.offset import BoundaryType, SearchOffsetByTimestamp
from firearrow.protocol.requests.message.pull import LitePullMessage, Pull, PullAnswer, PullMessage
from firearrow.protocol.requests.message.send import SendAnswer, SendBatchMessage, SendMessageV2
from firearrow.protocol.requests.naming.registration import RegisterBroker
from firearrow.protocol.serialize import decode_request

JSON = 0


def header(code: int, ext: dict[str, object]) -> bytes:
    command = {"code": code, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": 1, "version": 479}
    return json.dumps(command, separators=(",", ":")).encode()


SHORT = {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
PULL: dict[str, object] = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "1",
    "queueOffset": "5",
    "maxMsgNums": "32",
    "sysFlag": "2",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subVersion": "1700000000000",
}


def test_a_send_by_short_names() -> None:
    request = decode_request(JSON, header(310, {**SHORT, "i": "TAGS\x01A\x02", "m": "false", "n": "b"})).request
    assert request == SendMessageV2(
        producer_group="g",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="TAGS\x01A\x02",
        batch=False,
        broker_name="b",
    )


def test_the_cpp_client_sends_numbers() -> None:
    numbers = {**SHORT, "d": 4, "e": 0, "f": 0, "h": 0, "l": 16}
    request = decode_request(JSON, header(310, numbers)).request
    assert isinstance(request, SendMessageV2)
    assert request.max_reconsume_times == 16


def test_a_batch_has_the_fields_of_a_send_and_its_own_code() -> None:
    request = decode_request(JSON, header(320, {**SHORT, "m": "true"})).request
    assert type(request) is SendBatchMessage
    assert request.batch is True


@pytest.mark.parametrize(("code", "kind"), [(11, PullMessage), (361, LitePullMessage)])
def test_a_pull_with_the_proxy_field_that_java_misspells(code: int, kind: type) -> None:
    request = decode_request(
        JSON, header(code, {**PULL, "proxyFrowardClientId": "c", "bname": "b", "lo": "false"})
    ).request
    assert type(request) is kind
    assert isinstance(request, Pull)
    assert request.proxy_forward_client_id == "c"


@pytest.mark.parametrize("missing", PULL)
def test_a_pull_without_a_required_field_is_refused(missing: str) -> None:
    with pytest.raises(BadHeader, match=missing):
        decode_request(JSON, header(11, {name: value for name, value in PULL.items() if name != missing}))


def test_a_slave_of_4_9_asks_for_topics_without_fields() -> None:
    assert decode_request(JSON, header(21, {})).request == GetAllTopicConfig()


def test_a_search_names_its_boundary() -> None:
    ext: dict[str, object] = {"topic": "T", "queueId": "0", "timestamp": "5", "boundaryType": "upper"}
    request = decode_request(JSON, header(29, ext)).request
    assert request == SearchOffsetByTimestamp(topic="T", queue_id=0, timestamp=5, boundary_type=BoundaryType.UPPER)


def test_a_group_is_deleted_with_its_offsets_in_4_9_words() -> None:
    request = decode_request(JSON, header(207, {"groupName": "g", "removeOffset": "true"})).request
    assert request == DeleteSubscriptionGroup(group_name="g", remove_offset=True)


def test_a_registration_in_a_zone() -> None:
    ext: dict[str, object] = {
        "brokerName": "b",
        "brokerAddr": "a:1",
        "clusterName": "c",
        "haServerAddr": "a:2",
        "brokerId": "0",
        "bodyCrc32": "7",
        "compressed": "true",
        "__ZONE_NAME": "z",
    }
    request = decode_request(JSON, header(103, ext)).request
    assert isinstance(request, RegisterBroker)
    assert (request.body_crc32, request.compressed, request.zone_name) == (7, True, "z")


def test_answers_are_found_by_the_request() -> None:
    assert BY_CODE[RequestCode.SEND_MESSAGE].answer is SendAnswer
    assert BY_CODE[RequestCode.LITE_PULL_MESSAGE].answer is PullAnswer
    assert BY_CODE[RequestCode.LOCK_BATCH_MQ].answer is EmptyAnswer


def test_names_say_their_code() -> None:
    for kind in ALL:
        assert kind.__name__.lower() == kind.code.name.replace("_", "").lower()

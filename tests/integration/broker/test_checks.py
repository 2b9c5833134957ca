"""Questions about transactions beside a client that does not read: at a real broker, on both loops."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.client import Producer
from firearrow.model import Message
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.protocol.serialize import encode_request
from firearrow.testing import Cluster
from tests.integration.broker.conftest import Scenario
from tests.integration.broker.raw import Line, a_pull
from tests.integration.broker.test_hostile_pulls import connections, until

pytestmark = pytest.mark.real

SILENT_GROUPS = 60
PREPARED = 0x4


def _half(group: str, number: int) -> bytes:
    properties = f"UNIQ_KEY\x010A{number:030d}\x02WAIT\x01true\x02TRAN_MSG\x01true\x02PGROUP\x01{group}\x02"
    request = SendMessageV2(
        producer_group=group,
        topic="t",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=PREPARED,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        max_reconsume_times=0,
        batch=False,
    )
    return encode_request(0, request, number, body_size=4) + b"half"


def _heartbeat(client_id: str, groups: Iterable[str]) -> bytes:
    producers = [ProducerData(group_name=group) for group in groups]
    body = bytes(encode_body(HeartbeatData(client_id=client_id, producer_data_set=producers)))
    return encode_request(0, HeartBeat(), 1, body_size=len(body)) + body


async def ask_beside_silent_groups() -> None:
    cluster = Cluster()
    often = replace(cluster._settings.transactions, transaction_check_interval=500, transaction_time_out=100)
    cluster._settings = replace(cluster._settings, transactions=often)
    async with cluster:
        await cluster.create_topic("t", queues=1)
        async with Producer(cluster.address) as producer:
            for _ in range(4):
                await producer.send(Message.of("t", os.urandom(1 << 20)))
        async with Line(cluster.broker_address()) as bad, Line(cluster.broker_address()) as good:
            groups = [f"silent{number}" for number in range(SILENT_GROUPS)]
            bad.writer.write(_heartbeat("bad", groups))
            bad.writer.write(b"".join(_half(group, number + 2) for number, group in enumerate(groups)))
            await bad.answers(1 + SILENT_GROUPS)
            bad.stop_reading()
            large: dict[str, Any] = {"max_msg_nums": 32, "max_msg_bytes": 1 << 30, "large": True}
            bad.write(*[a_pull("t", 0, 0, **large) for _ in range(20)])
            await until(lambda: any(not one.is_writable for one in connections()), "the silent client reads nothing")
            good.writer.write(_heartbeat("good", ["asked"]) + _half("asked", 999_999))
            await good.answers(2)
            for _ in range(2):
                ((heading, _),) = await good.answers(1, 12)
                assert heading.code == RequestCode.CHECK_TRANSACTION_STATE


def test_a_silent_client_delays_no_question_to_another_group(run: Callable[[Scenario], None]) -> None:
    run(ask_beside_silent_groups)

"""Requests as stock clients send them, for benchmarks, fuzzers and tests: one copy of each."""

from typing import Final

from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopic
from firearrow.protocol.requests.message.send import SendMessageV2

SEND: Final = SendMessageV2(
    producer_group="benchmark_producer",
    topic="BenchmarkTest",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=2,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties="KEYS\x01order-123456\x02UNIQ_KEY\x01C0A80001000018B4AAC2000000000000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    reconsume_times=0,
    unit_mode=False,
    batch=False,
    broker_name="broker-a",
)
"""A message of a Java client with a key and a tag. Change what matters with ``msgspec.structs.replace``."""


def a_topic(name: str, queues: int = 1) -> UpdateAndCreateTopic:
    """Return the request that makes a topic, as stock administration tools send it."""
    return UpdateAndCreateTopic(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )

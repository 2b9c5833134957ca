"""Names of topics and groups: what is legal, what is reserved, and the topics derived from a group.

A name is made of ``% | a-z A-Z 0-9 _ -`` only, so it can never leave a directory it names nor hide a separator. The
length limit of a topic is 127, of a retry or dead-letter topic 255, of a group 120 (Apache 5.x; 4.9 clients allow 255).
Must agree with Java's ``TopicValidator`` and ``MixAll``.
"""

import re
from typing import Final

MAX_TOPIC_LENGTH: Final = 127
MAX_DERIVED_TOPIC_LENGTH: Final = 255
MAX_GROUP_LENGTH: Final = 120

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYNC_BROKER_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
REVIVE_LOG_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"

UNSENDABLE_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics that a client may never send to."""

SYSTEM_TOPICS: Final = UNSENDABLE_TOPICS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC}

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group under which brokers keep how far they are in the two topics of transactions."""
LAKE_GROUP_PREFIX: Final = "FIREARROW_LAKE_"
"""Groups without members, under which archives mark at the brokers what their tables have of a topic."""
LAKE_RETENTION: Final = "lake.retention"
"""The attribute of topics that a broker keeps until a lake has their messages."""

PREDEFINED_GROUPS: Final = (
    TOOLS_CONSUMER_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Consumer groups that every broker has from its first start."""

# fullmatch, and no `isalnum`: `$` lets a trailing newline through, `isalnum` lets full-width letters through.
_legal = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch


def topic_fault(topic: str) -> str | None:
    """Return why ``topic`` is not a legal topic name, or None if it is."""
    derived = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return _fault("topic", topic, MAX_DERIVED_TOPIC_LENGTH if derived else MAX_TOPIC_LENGTH)


def group_fault(group: str) -> str | None:
    """Return why ``group`` is not a legal group name, or None if it is."""
    return _fault("group", group, MAX_GROUP_LENGTH)


def _fault(noun: str, name: str, limit: int) -> str | None:
    if not name:
        return f"the {noun} name is empty; write one with letters, digits, _ and -"
    if len(name) > limit:
        return f"the {noun} name has {len(name)} characters, more than the {limit} allowed: {name[:limit]!r}..."
    if _legal(name) is None:
        return f"the {noun} name {name!r} has a character that is not allowed; write letters, digits, _ and -"
    return None


def is_legal(name: str) -> bool:
    """Whether a name from a file or another server may be used: the longest that Apache ever allowed is 255."""
    return len(name) <= MAX_DERIVED_TOPIC_LENGTH and _legal(name) is not None


def is_system_topic(topic: str) -> bool:
    """Whether the topic belongs to the brokers themselves."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether the group belongs to the brokers themselves."""
    return group.startswith(SYSTEM_GROUP_PREFIX) or group in PREDEFINED_GROUPS


def retry_topic(group: str) -> str:
    """Return the topic of a group's messages that are to be delivered again."""
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the topic of a group's messages that failed too often."""
    return group if group.startswith(DLQ_PREFIX) else DLQ_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    """Whether the topic is some group's retry topic."""
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    """Whether the topic is some group's dead-letter topic."""
    return topic.startswith(DLQ_PREFIX)


def reply_topic(cluster: str) -> str:
    """The topic that keeps a cluster's request-reply answers."""
    return cluster + REPLY_TOPIC_SUFFIX

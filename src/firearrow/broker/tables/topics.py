"""The topic table: the topics of one broker, with their queues and permissions.

Pure; time is an argument. Methods return the topics to register at name servers (`TopicChanges`), and every change
raises
the table's data version. Java: ``TopicConfigManager``.

A topic that is created gets a life: the time of its creation. Changes keep it, slaves take it over with the topic, and
readers compare it with that of their checkpoint to tell a topic from a new one of the same name.

Invariants: every topic has a legal name, and no more read and write queues than a record can number; the system topics
exist from the first start, and topics in the file replace them, as in Apache.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from firearrow import fastjson
from firearrow.broker.settings.config import BrokerConfig
from firearrow.broker.state.state_file import decode_line, in_pieces
from firearrow.broker.tables.legal_names import with_legal_names
from firearrow.model import names
from firearrow.model.flags import PERM_INHERIT, PERM_READ, PERM_WRITE, perm_text
from firearrow.model.names import LAKE_RETENTION
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.version import DataVersion

PATH: Final = "config/topics.json"
SCHEDULE_QUEUES: Final = 18
BENCHMARK_QUEUES: Final = 1024
DLQ_QUEUES: Final = 1
READ_AND_WRITE: Final = PERM_READ | PERM_WRITE
UNKNOWN_LIFE: Final = 0
"""The life of a topic that was made for messages in the log: the topic had another one, which is lost."""


class TopicChanges(NamedTuple):
    """Topics whose registration is out of date."""

    topics: tuple[TopicConfig, ...]


UNCHANGED: Final = TopicChanges(())


class TopicTable:
    """The topics of one broker."""

    def __init__(self, topics: Iterable[TopicConfig] = ()) -> None:
        self.version = DataVersion()
        self.topics: Final[dict[str, TopicConfig]] = {topic.topic_name or "": topic for topic in topics}
        """The topics by name; for reading only."""
        self.get: Final = self.topics.get
        self.system: Final = frozenset(self.topics)
        """The names of the system topics."""
        self.for_lakes: Final[dict[str, TopicConfig]] = {}
        """The topics that retention keeps for a lake, by name; for reading only."""
        self.changes: dict[str, None] = dict.fromkeys(self.topics)
        """Topics that changed since the file was written; the empty name stands for the data version."""

    def __len__(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sorted names."""
        return iter(sorted(self.topics))

    def __contains__(self, name: str) -> bool:
        return name in self.topics

    # ---- changing

    def put(self, topic: TopicConfig, now_ms: int) -> TopicChanges:
        """Create or change a topic; its attributes replace the current ones."""
        return self.put_all((topic,), now_ms)

    def put_all(self, topics: Iterable[TopicConfig], now_ms: int) -> TopicChanges:
        """Create or change several topics with one new data version."""
        given = tuple(self.living(topic, now_ms) for topic in topics)
        for topic in given:
            self._set(topic.topic_name or "", topic)
        self._next_version(now_ms)
        return TopicChanges(given)

    def living(self, topic: TopicConfig, now_ms: int) -> TopicConfig:
        """Return a topic with its life: its own, that of the topic of this name, or a new one if there is none."""
        if topic.life is not None:
            return topic
        held = self.topics.get(topic.topic_name or "")
        return structs.replace(topic, life=now_ms if held is None else held.life)

    def _set(self, name: str, topic: TopicConfig) -> None:
        self._load(name, topic)
        self.changes[name] = None

    def _load(self, name: str, topic: TopicConfig | None) -> bool:
        """Put a topic into the table, or remove it; return whether it was there."""
        was_there = name in self.topics
        if topic is None:
            self.topics.pop(name, None)
        else:
            self.topics[name] = topic
        if topic is not None and topic.attributes and LAKE_RETENTION in topic.attributes:
            self.for_lakes[name] = topic
        else:
            self.for_lakes.pop(name, None)
        return was_there

    def lends(self, default: str) -> bool:
        """Whether topics may be created like topic ``default``."""
        model = self.topics.get(default)
        return model is not None and bool(model.perm & PERM_INHERIT)

    def create_like(self, name: str, default: str, queues: int, sys_flag: int, now_ms: int) -> TopicChanges:
        """Create a topic for its first message like topic ``default``; no-op when ``default`` may not be inherited."""
        model = self.topics.get(default)
        if model is None or not self.lends(default):
            return UNCHANGED
        count = max(min(queues, model.write_queue_nums), 0)
        topic = TopicConfig(
            topic_name=name,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=model.perm & ~PERM_INHERIT,
            topic_sys_flag=sys_flag,
            topic_filter_type=model.topic_filter_type,
        )
        return self.put(topic, now_ms)

    def ensure(
        self, name: str, queues: int, now_ms: int, *, sys_flag: int = 0, life: int | None = None
    ) -> TopicChanges:
        """Create a topic with read and write permission, unless it exists."""
        if name in self.topics:
            return UNCHANGED
        topic = TopicConfig(
            life=life,
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=READ_AND_WRITE,
            topic_sys_flag=sys_flag,
        )
        return self.put(topic, now_ms)

    def delete(self, name: str, now_ms: int) -> bool:
        """Delete a topic; return whether it existed."""
        if not self._load(name, None):
            return False
        self.changes[name] = None
        self._next_version(now_ms)
        return True

    def order(self, ordered: Iterable[str], now_ms: int) -> TopicChanges:
        """Mark topics as strictly ordered; no topic loses the mark, as in Apache."""
        known = [self.topics[name] for name in sorted(ordered) if name in self.topics]
        changed = tuple(structs.replace(topic, order=True) for topic in known if not topic.order)
        return self.put_all(changed, now_ms) if changed else UNCHANGED

    def forbid_inheritance(self, default: str) -> None:
        """Take the inherit permission from a topic, so that no topic is created like it."""
        model = self.topics.get(default)
        if model is not None and model.perm & PERM_INHERIT:
            self._set(default, structs.replace(model, perm=READ_AND_WRITE))

    def adopt_version(self, version: DataVersion) -> None:
        """Take over the data version of the master whose topics these are."""
        self.version = version
        self.changes[_VERSION] = None

    def renew_version(self, now_ms: int) -> None:
        """Raise the data version without a change of a topic."""
        self._next_version(now_ms)

    def _next_version(self, now_ms: int) -> None:
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=now_ms)
        self.changes[_VERSION] = None

    # ---- as others see it

    def table(self) -> TopicConfigTable:
        """Return the whole table as a body, in the order of the names."""
        return TopicConfigTable(data_version=self.version, topic_config_table={n: self.topics[n] for n in self})

    # ---- the file

    def pieces(self) -> Iterator[bytes]:
        """Yield the file of this table in pieces."""
        head = b'{"dataVersion":%b,"topicConfigTable":{' % encode_body(self.version)
        return in_pieces(_rows(list(self.topics.items())), head, b"}}")

    def restore(self, data: bytes) -> None:
        """Load the table from the bytes of its file."""
        stored = fastjson.decode(data, TopicConfigTable)
        self.version = stored.data_version
        for name, topic in with_legal_names(stored.topic_config_table, "topics of the file").items():
            self._load(name, topic if topic.topic_name == name else structs.replace(topic, topic_name=name))
            self.changes.pop(name, None)

    def line(self, key: str) -> bytes:
        """Return the journal line of a topic, or of the data version."""
        version = self.version if key == _VERSION else None
        return msgspec.json.encode(_TopicLine(key, self.topics.get(key), version))

    def apply(self, line: bytes) -> None:
        """Apply a journal line to the table."""
        row = decode_line(line, _TopicLine)
        self.changes.pop(row.name, None)
        if row.version is not None:
            self.version = row.version
        else:
            self._load(row.name, row.topic)


class _TopicLine(msgspec.Struct, array_like=True):
    """A journal line: a topic as it is, or deleted. Without a name: the data version of the table."""

    name: str
    topic: TopicConfig | None = None
    version: DataVersion | None = None


_VERSION: Final = ""


def _rows(topics: list[tuple[str, TopicConfig]]) -> Iterator[bytes]:
    for name, topic in topics:
        yield b"%b:%b" % (msgspec.json.encode(name), encode_body(topic))


def system_topics(config: BrokerConfig, broker_name: str) -> list[TopicConfig]:
    """Return the topics that a broker creates for itself at its first start."""
    cluster = config.broker_cluster_name
    lends = PERM_INHERIT | READ_AND_WRITE
    topics = [
        _topic(names.SELF_TEST_TOPIC, 1),
        _topic(names.BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        _topic(cluster, 16, lends if config.cluster_topic_enable else PERM_INHERIT),
        _topic(broker_name, 1, lends if config.broker_topic_enable else PERM_INHERIT),
        _topic(names.OFFSET_MOVED_TOPIC, 1),
        _topic(names.SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        _topic(names.TIMER_TOPIC, 1),
        _topic(names.reply_topic(cluster), 1),
        _topic(names.REVIVE_LOG_PREFIX + cluster, config.revive_queue_num),
        _topic(names.SYNC_BROKER_MEMBER_PREFIX + broker_name, 1, PERM_INHERIT),
        _topic(names.HALF_TOPIC, 1),
        _topic(names.OP_HALF_TOPIC, 1),
        _topic(names.ROCKSDB_HALF_TOPIC, 1),
        _topic(names.ROCKSDB_OP_HALF_TOPIC, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_topic(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, lends))
    if config.trace_topic_enable:
        topics.append(_topic(config.msg_trace_topic_name, 1))
    return topics


def _topic(name: str, queues: int, perm: int = READ_AND_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def describe(topic: TopicConfig) -> str:
    """Format a topic as Java's ``TopicConfig.toString`` does, for refusals."""
    attributes = ", ".join(f"{key}={value}" for key, value in topic.attributes.items())
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm_text(topic.perm)}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={str(topic.order).lower()}, attributes={{{attributes}}}]"
    )

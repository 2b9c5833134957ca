"""The topics of a broker with their file, as handlers use them.

Every change is written to ``config/topics.json`` and passed to the registration. A topic is *young* until it is
durable: its messages are not stored yet, because a crash could leave a message without its topic. A topic that could
not be written stays young, and the next message for the topic starts another write.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from firearrow.broker.state.state_file import OnSaved, StateFile, tell_all
from firearrow.broker.tables.legal_names import with_legal_names
from firearrow.broker.tables.topics import PATH, UNKNOWN_LIFE, TopicChanges, TopicTable
from firearrow.errors import FireArrowError
from firearrow.model.flags import topic_sys_flag
from firearrow.model.names import AUTO_CREATE_TOPIC, RETRY_PREFIX, is_legal, is_system_topic
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk

log = logging.getLogger(__name__)

OnChanged = Callable[[tuple[TopicConfig, ...]], None]


class TopicBook:
    """Finds, creates, changes and deletes topics."""

    def __init__(self, disk: Disk, clock: Clock, system: Iterable[TopicConfig]) -> None:
        self.table = TopicTable(system)
        self.get = self.table.get
        self.file = StateFile(disk, PATH, self.table)
        self.young: dict[str, _YoungTopic] = {}
        """Topics whose latest change a crash could still lose."""
        self.on_changed: list[OnChanged] = []
        """Called with topics that were created or changed."""
        self.on_deleted: list[Callable[[str], None]] = []
        """Called with the name of a deleted topic."""
        self._clock = clock

    async def load(self) -> None:
        """Load the topics from their file, and write the topics that the file lacks."""
        await self.file.load()
        if self.table.changes:
            self.file.changed()

    def restore(self, queues: Iterable[tuple[str, int]]) -> None:
        """Create the topics of queues that have messages and no topic, with as many queues as there are.

        A topic that was created just before its master died may not have reached this broker, but its messages have.
        When messages of further queues turn up, such as delayed ones, these can be read, too.
        """
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            if not is_system_topic(topic) and is_legal(topic):
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        for topic, count in counts.items():
            found = self.get(topic)
            if found is not None and found.read_queue_nums < count:
                self._grow(replace(found, read_queue_nums=count))
            if self.ensure(topic, count, life=UNKNOWN_LIFE):
                log.warning("topic %s is made again for its messages in the log", topic, extra={"topic": topic})

    def _grow(self, topic: TopicConfig) -> None:
        self.table.put_all((topic,), self._clock.now_ms())
        self._save([_name(topic)])
        self._tell((topic,))

    def when_kept(self, name: str, call: OnSaved) -> None:
        """Call once a topic's current state is durable, or with the error that prevents it; calls keep their order."""
        young = self.young.get(name)
        if young is None:
            call(None)
            return
        young.waiting.append(call)
        if young.has_failed:
            self._save([name])

    async def kept(self, name: str) -> None:
        """Wait until a topic in its current state is durable; raise the error that prevents it."""
        if name not in self.young:
            return
        future: asyncio.Future[FireArrowError | None] = asyncio.get_running_loop().create_future()
        self.when_kept(name, lambda error: None if future.done() else future.set_result(error))
        error = await future
        if error is not None:
            raise error

    # ---- changing

    def put(self, topics: Iterable[TopicConfig], on_saved: OnSaved) -> None:
        """Create or change topics; ``on_saved`` is called when all are durable, the unchanged ones included."""
        now_ms = self._clock.now_ms()
        given = tuple(self.table.living(replace(topic, life=None), now_ms) for topic in topics)
        changed = tuple(topic for topic in given if self.get(_name(topic)) != topic)
        if changed:
            self.table.put_all(changed, now_ms)
        waited_for = dict.fromkeys(map(_name, changed))
        waited_for.update(dict.fromkeys(name for name in map(_name, given) if name in self.young))
        self._save(list(waited_for), on_saved)
        self._tell(changed)

    def may_make(self, name: str, default: str, *, auto_create: bool) -> bool:
        """Whether a topic is created for its first message; a retry topic always is."""
        if default == AUTO_CREATE_TOPIC and not auto_create:
            self.table.forbid_inheritance(default)
        return name.startswith(RETRY_PREFIX) or self.table.lends(default)

    def make_for_message(self, name: str, default: str, queues: int, *, unit_mode: bool) -> TopicConfig | None:
        """Create a topic for its first message, which `may_make` has allowed."""
        is_retry = name.startswith(RETRY_PREFIX)
        flag = topic_sys_flag(unit=not is_retry, unit_sub=is_retry) if unit_mode else 0
        self._note(self.table.create_like(name, default, queues, flag, self._clock.now_ms()))
        if is_retry:
            self.ensure(name, 1, sys_flag=flag)
        return self.get(name)

    def ensure(self, name: str, queues: int, *, sys_flag: int = 0, life: int | None = None) -> bool:
        """Create a topic unless it exists; return whether it was created. Without a life it gets a new one."""
        changed = self.table.ensure(name, queues, self._clock.now_ms(), sys_flag=sys_flag, life=life)
        self._note(changed)
        return bool(changed.topics)

    def begin_deletion(self, name: str, on_saved: OnSaved) -> None:
        """Delete a topic. Until `end_deletion` a new topic of that name takes no message: queues are being deleted.

        Name servers are not told here: the tool that deletes the topic tells them.
        """
        young = self.young.setdefault(name, _YoungTopic())
        young.deletions += 1
        was_there = self.table.delete(name, self._clock.now_ms())
        self.file.changed(on_saved)  # for an unknown topic too: an earlier deletion may not be durable yet
        for tell in self.on_deleted if was_there else ():
            tell(name)

    def end_deletion(self, name: str) -> None:
        """Let a topic of this name take messages again: the queues of the deleted topic are gone."""
        young = self.young[name]
        young.deletions -= 1
        self._release(name, young)

    def adopt(self, table: TopicConfigAndMappingTable, *, is_first: bool = False) -> list[str]:
        """Take over the topics of the master whose copy this broker is; return those that the master has no more.

        At the first look every topic is compared: what this broker had as a master may have the same version.
        """
        if not is_first and table.data_version == self.table.version:
            return []
        theirs = with_legal_names(table.topic_config_table, "topics of the master")
        theirs = {name: named(topic, name) for name, topic in theirs.items()}
        gone = [name for name in self.table if name not in theirs]
        for name in gone:
            self.table.delete(name, self._clock.now_ms())
            for tell in self.on_deleted:
                tell(name)
        changed = tuple(topic for name, topic in theirs.items() if self.get(name) != topic)
        self.table.put_all(changed, self._clock.now_ms())
        self.table.adopt_version(table.data_version)
        self._save([_name(topic) for topic in changed])
        self._tell(changed)
        return gone

    def renew_version(self) -> None:
        """Raise the data version, because the broker's permission has changed, so that name servers update."""
        self.table.renew_version(self._clock.now_ms())
        self.file.changed()

    def order(self, ordered: Iterable[str]) -> None:
        """Mark topics as strictly ordered."""
        self._note(self.table.order(ordered, self._clock.now_ms()))

    def _note(self, changed: TopicChanges) -> None:
        if changed.topics:
            self._save([_name(topic) for topic in changed.topics])
            self._tell(changed.topics)

    def _tell(self, changed: tuple[TopicConfig, ...]) -> None:
        for tell in self.on_changed if changed else ():
            tell(changed)

    def _save(self, names: list[str], on_saved: OnSaved | None = None) -> None:
        """Write topics; they are young until the write is durable."""
        young = [(name, self.young.setdefault(name, _YoungTopic())) for name in names]
        editions = [one.begin() for _, one in young]

        def saved(error: FireArrowError | None) -> None:
            for (name, one), edition in zip(young, editions, strict=True):
                if self.young.get(name) is one and one.edition == edition:
                    self._saved(name, one, error)
            if on_saved is not None:
                on_saved(error)

        self.file.changed(saved)

    def _saved(self, name: str, young: "_YoungTopic", error: FireArrowError | None) -> None:
        young.is_saved, young.has_failed = error is None, error is not None
        if error is not None:
            young.tell(error)
        else:
            self._release(name, young)

    def _release(self, name: str, young: "_YoungTopic") -> None:
        """End the young state of a topic, unless it is not saved or its queues are still being deleted."""
        if young.deletions or not (young.is_saved or name not in self.table):
            return
        del self.young[name]
        young.tell(None)


def named(topic: TopicConfig, name: str) -> TopicConfig:
    """Return the topic with its name, which a table may hold as its key only."""
    return topic if topic.topic_name else replace(topic, topic_name=name)


def _name(topic: TopicConfig) -> str:
    return topic.topic_name or ""


class _YoungTopic(Struct):
    """The state of a topic whose latest change is not durable, or whose queues are being deleted."""

    edition: int = 0
    """The number of the topic's latest change; callbacks wait for this change."""
    is_saved: bool = False
    """Whether the latest change is durable."""
    has_failed: bool = False
    """Whether the latest change could not be written and no retry is under way."""
    deletions: int = 0
    """The number of deletions under way."""
    waiting: list[OnSaved] = field(default_factory=list)

    def begin(self) -> int:
        """Note that a change is being written; return its number."""
        self.edition += 1
        self.is_saved = self.has_failed = False
        return self.edition

    def tell(self, error: FireArrowError | None) -> None:
        """Call the waiting callbacks."""
        waiting, self.waiting = self.waiting, []
        tell_all(waiting, error)

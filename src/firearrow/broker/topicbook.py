"""The topics of a broker with their file: what handlers ask for a topic.

Every change is written to ``config/topics.json`` and told to whoever registers it. Until a new topic is durable it is
*young*: an acknowledgement of a message for it must wait, or a crash could leave the message without its topic.
"""

from collections.abc import Callable, Iterable

from firearrow.broker.statefile import OnSaved, StateFile
from firearrow.broker.topics import PATH, Changed, TopicTable, decode_topics
from firearrow.errors import FireArrowError
from firearrow.model.names import retry_topic
from firearrow.protocol.bodies.topic import TopicConfig
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk

OnChanged = Callable[[tuple[TopicConfig, ...]], None]


class Topics:
    """Topics, found, made and changed."""

    def __init__(self, disk: Disk, clock: Clock, system: Iterable[TopicConfig]) -> None:
        self.table = TopicTable(system)
        self.get = self.table.get
        self.file = StateFile(disk, PATH, self.table.encode)
        self.young: dict[str, None] = {}
        """Topics that a crash could still take back."""
        self.on_changed: list[OnChanged] = []
        """Who is told of topics that were made or changed."""
        self.on_deleted: list[Callable[[str], None]] = []
        """Who is told of topics that are gone."""
        self._clock = clock

    async def load(self) -> None:
        """Take over what the file holds; what was not in it is written."""
        stored = await self.file.read(decode_topics)
        if stored is not None:
            self.table.restore(stored)
        if stored is None or len(self.table) > len(stored.topic_config_table):
            self.file.changed()

    def when_saved(self, call: OnSaved) -> None:
        """Call once everything changed so far is durable."""
        self.file.changed(call)

    # ---- changing

    def put(self, topics: Iterable[TopicConfig], on_saved: OnSaved) -> None:
        """Make or change topics; ``on_saved`` is told when they are durable."""
        self._note(self.table.put_all(topics, self._clock.now_ms()), on_saved)

    def create_like(self, name: str, default: str, queues: int, sys_flag: int = 0) -> TopicConfig | None:
        """Make a topic for its first message, if the other one lends its permission."""
        self._note(self.table.create_like(name, default, queues, sys_flag, self._clock.now_ms()))
        return self.table.get(name)

    def ensure(self, name: str, queues: int, *, sys_flag: int = 0) -> bool:
        """Make a topic unless it is there; whether it was made."""
        changed = self.table.ensure(name, queues, self._clock.now_ms(), sys_flag=sys_flag)
        self._note(changed)
        return bool(changed.topics)

    def ensure_retry(self, group: str, queues: int, *, sys_flag: int = 0) -> bool:
        """Make the retry topic of a group unless it is there; whether it was made."""
        return self.ensure(retry_topic(group), queues, sys_flag=sys_flag)

    def delete(self, name: str, on_saved: OnSaved) -> None:
        """Forget a topic. Name servers are told by whoever deletes it there."""
        if not self.table.delete(name, self._clock.now_ms()):
            on_saved(None)
            return
        self.young.pop(name, None)
        self.file.changed(on_saved)
        for tell in self.on_deleted:
            tell(name)

    def renew_version(self) -> None:
        """Let name servers take the table for another edition: what the broker allows has changed."""
        self.table.renew_version(self._clock.now_ms())
        self.file.changed()

    def order(self, ordered: Iterable[str]) -> None:
        """Take over which topics are strictly ordered."""
        self._note(self.table.order(ordered, self._clock.now_ms()))

    def _note(self, changed: Changed, on_saved: OnSaved | None = None) -> None:
        if not changed.topics:
            if on_saved is not None:
                on_saved(None)
            return
        names = [topic.topic_name or "" for topic in changed.topics]
        self.young.update(dict.fromkeys(names))

        def saved(error: FireArrowError | None) -> None:
            if error is None:
                for name in names:
                    self.young.pop(name, None)
            if on_saved is not None:
                on_saved(error)

        self.file.changed(saved)
        for tell in self.on_changed:
            tell(changed.topics)

"""The topics of a broker with their file: what handlers ask for a topic.

Every change is written to ``config/topics.json`` and told to whoever registers it. Until a new topic is durable it is
*young*: a message for it is not stored yet, or a crash could leave the message without its topic. A topic that could
not be written stays young, and the next message for it has it written again.
"""

import asyncio
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from firearrow.broker.statefile import OnSaved, StateFile
from firearrow.broker.topics import PATH, Changed, TopicTable
from firearrow.errors import FireArrowError
from firearrow.model.flags import topic_sys_flag
from firearrow.model.names import AUTO_CREATE_TOPIC, RETRY_PREFIX, retry_topic
from firearrow.protocol.bodies.topic import TopicConfig
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk

OnChanged = Callable[[tuple[TopicConfig, ...]], None]


class Topics:
    """Topics, found, made and changed."""

    def __init__(self, disk: Disk, clock: Clock, system: Iterable[TopicConfig]) -> None:
        self.table = TopicTable(system)
        self.get = self.table.get
        self.file = StateFile(disk, PATH, self.table)
        self.young: dict[str, _Young] = {}
        """Topics that a crash could still take back."""
        self.on_changed: list[OnChanged] = []
        """Who is told of topics that were made or changed."""
        self.on_deleted: list[Callable[[str], None]] = []
        """Who is told of topics that are gone."""
        self._clock = clock

    async def load(self) -> None:
        """Take over what the file holds; what was not in it is written."""
        await self.file.load()
        if self.table.changes:
            self.file.changed()

    def when_kept(self, name: str, call: OnSaved) -> None:
        """Call once a topic, as it is now, is durable, or with the error that prevents it; those who wait in order."""
        young = self.young.get(name)
        if young is None:
            call(None)
            return
        young.waiting.append(call)
        if young.has_failed:
            self._save([name])

    async def kept(self, name: str) -> None:
        """Return once a topic, as it is now, is durable; raise the error that prevents it."""
        if name not in self.young:
            return
        future: asyncio.Future[FireArrowError | None] = asyncio.get_running_loop().create_future()
        self.when_kept(name, lambda error: None if future.done() else future.set_result(error))
        error = await future
        if error is not None:
            raise error

    # ---- changing

    def put(self, topics: Iterable[TopicConfig], on_saved: OnSaved) -> None:
        """Make or change topics; ``on_saved`` is told when they are durable, also those that memory has so already."""
        given = tuple(topics)
        changed = tuple(topic for topic in given if self.get(_name(topic)) != topic)
        if changed:
            self.table.put_all(changed, self._clock.now_ms())
        waited_for = dict.fromkeys(map(_name, changed))
        waited_for.update(dict.fromkeys(name for name in map(_name, given) if name in self.young))
        self._save(list(waited_for), on_saved)
        self._tell(changed)

    def create_like(self, name: str, default: str, queues: int, sys_flag: int = 0) -> TopicConfig | None:
        """Make a topic for its first message, if the other one lends its permission."""
        self._note(self.table.create_like(name, default, queues, sys_flag, self._clock.now_ms()))
        return self.table.get(name)

    def make_for_message(
        self, name: str, default: str, queues: int, *, unit_mode: bool, auto_create: bool
    ) -> TopicConfig | None:
        """Make a topic for its first message, if it may be made; a retry topic always may."""
        is_retry = name.startswith(RETRY_PREFIX)
        flag = topic_sys_flag(unit=not is_retry, unit_sub=is_retry) if unit_mode else 0
        if default == AUTO_CREATE_TOPIC and not auto_create:
            self.table.forbid_inheritance(default)
        topic = self.create_like(name, default, queues, flag)
        if topic is None and is_retry:
            self.ensure(name, 1, sys_flag=flag)
            topic = self.get(name)
        return topic

    def ensure(self, name: str, queues: int, *, sys_flag: int = 0) -> bool:
        """Make a topic unless it is there; whether it was made."""
        changed = self.table.ensure(name, queues, self._clock.now_ms(), sys_flag=sys_flag)
        self._note(changed)
        return bool(changed.topics)

    def ensure_retry(self, group: str, queues: int, *, sys_flag: int = 0) -> bool:
        """Make the retry topic of a group unless it is there; whether it was made."""
        return self.ensure(retry_topic(group), queues, sys_flag=sys_flag)

    def begin_deletion(self, name: str, on_saved: OnSaved) -> None:
        """Forget a topic. Until `end_deletion` one that is made anew takes no message: queues are being deleted.

        Name servers are told by whoever deletes it there.
        """
        young = self.young.setdefault(name, _Young())
        young.deletions += 1
        was_there = self.table.delete(name, self._clock.now_ms())
        self.file.changed(on_saved)  # also of one that is gone: that may not be durable yet
        for tell in self.on_deleted if was_there else ():
            tell(name)

    def end_deletion(self, name: str) -> None:
        """Nothing of a topic that was deleted is left."""
        young = self.young[name]
        young.deletions -= 1
        self._release(name, young)

    def renew_version(self) -> None:
        """Let name servers take the table for another edition: what the broker allows has changed."""
        self.table.renew_version(self._clock.now_ms())
        self.file.changed()

    def order(self, ordered: Iterable[str]) -> None:
        """Take over which topics are strictly ordered."""
        self._note(self.table.order(ordered, self._clock.now_ms()))

    def _note(self, changed: Changed) -> None:
        if changed.topics:
            self._save([_name(topic) for topic in changed.topics])
            self._tell(changed.topics)

    def _tell(self, changed: tuple[TopicConfig, ...]) -> None:
        for tell in self.on_changed if changed else ():
            tell(changed)

    def _save(self, names: list[str], on_saved: OnSaved | None = None) -> None:
        """Have topics written; until they are, they are young."""
        young = [(name, self.young.setdefault(name, _Young())) for name in names]
        editions = [one.begin() for _, one in young]

        def saved(error: FireArrowError | None) -> None:
            for (name, one), edition in zip(young, editions, strict=True):
                if self.young.get(name) is one and one.edition == edition:
                    self._saved(name, one, error)
            if on_saved is not None:
                on_saved(error)

        self.file.changed(saved)

    def _saved(self, name: str, young: "_Young", error: FireArrowError | None) -> None:
        young.is_saved, young.has_failed = error is None, error is not None
        if error is not None:
            young.tell(error)
        else:
            self._release(name, young)

    def _release(self, name: str, young: "_Young") -> None:
        """Let messages go, if nothing keeps them."""
        if young.deletions or not (young.is_saved or name not in self.table):
            return
        del self.young[name]
        young.tell(None)


def _name(topic: TopicConfig) -> str:
    return topic.topic_name or ""


class _Young(Struct):
    """A topic that is not durable as it is, or whose queues are being deleted."""

    edition: int = 0
    """Of its changes; whoever waits, waits for the last."""
    is_saved: bool = False
    """Whether that one is durable."""
    has_failed: bool = False
    """Whether it could not be written, and nobody tries."""
    deletions: int = 0
    """How many are under way."""
    waiting: list[OnSaved] = field(default_factory=list)

    def begin(self) -> int:
        """It is being written; return which edition."""
        self.edition += 1
        self.is_saved = self.has_failed = False
        return self.edition

    def tell(self, error: FireArrowError | None) -> None:
        """Tell those who wait."""
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call(error)

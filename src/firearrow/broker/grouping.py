"""The groups of a broker with their file: what handlers ask for a group.

A group that nobody made comes to be by being used, when the broker is set so. That change is written like any other,
but nobody waits for it: a group lost in a crash is made again by its next heartbeat.
"""

from collections.abc import Callable

from firearrow.broker.groups import PATH, SubscriptionGroups, may_create
from firearrow.broker.statefile import OnSaved, StateFile
from firearrow.protocol.bodies.group import SubscriptionGroupConfig
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk


class Groups:
    """Groups, found or made."""

    def __init__(self, disk: Disk, clock: Clock, auto_create: Callable[[], bool]) -> None:
        self.table = SubscriptionGroups()
        self.file = StateFile(disk, PATH, self.table)
        self._clock = clock
        self._auto_create = auto_create

    async def load(self) -> None:
        """Take over what the file holds."""
        await self.file.load()

    def get(self, name: str, *, auto_create: bool = True) -> SubscriptionGroupConfig | None:
        """A group, made if it may be."""
        group = self.table.get(name)
        if group is None and auto_create and may_create(name, auto_create=self._auto_create()):
            group = self.table.create(name, self._clock.now_ms())
            if group is not None:
                self.file.changed()
        return group

    def put(self, group: SubscriptionGroupConfig, on_saved: OnSaved) -> None:
        """Make or change a group; ``on_saved`` is told when it is durable."""
        self.table.put(group, self._clock.now_ms())
        self.file.changed(on_saved)

    def delete(self, name: str, on_saved: OnSaved) -> None:
        """Forget a group."""
        self.table.delete(name, self._clock.now_ms())
        self.file.changed(on_saved)

    def allow_reading(self, name: str, topic: str, *, allowed: bool, on_saved: OnSaved) -> None:
        """Forbid a group to read a topic, or allow it again."""
        self.table.allow_reading(name, topic, allowed=allowed, now_ms=self._clock.now_ms())
        self.file.changed(on_saved)

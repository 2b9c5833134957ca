"""The subscription groups of a broker with their file, as handlers use them.

An unknown group is created by its first use if ``autoCreateSubscriptionGroup`` is set and `NewNames` has room. That
change is written like any other, but no answer waits for it: a group lost in a crash is created again by its next
heartbeat. A slave creates none: its table is a copy of its master's.
"""

from collections.abc import Callable
from typing import Final

from firearrow.broker.state.state_file import OnSaved, StateFile
from firearrow.broker.tables.groups import PATH, SubscriptionGroups, may_create
from firearrow.broker.tables.new_names import NewNames
from firearrow.model.names import group_fault
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.remoting.handlers import Peer
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk


class GroupBook:
    """Finds, creates, changes and deletes subscription groups."""

    def __init__(
        self, disk: Disk, clock: Clock, auto_create: Callable[[], bool], new_names: NewNames, *, is_copy: bool
    ) -> None:
        """``is_copy`` says that the groups are those of a master, and clients make none here."""
        self.table = SubscriptionGroups()
        self.file = StateFile(disk, PATH, self.table)
        self._clock = clock
        self._auto_create = auto_create
        self._new_names = new_names
        self.is_copy: Final = is_copy

    async def load(self) -> None:
        """Load the groups from their file."""
        await self.file.load()

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group; None for an unknown one."""
        return self.table.get(name)

    def of_client(self, name: str, peer: Peer) -> SubscriptionGroupConfig | str:
        """Return the group that a client uses, created if that is allowed; else why there is none.

        A slave returns what its master would create, and leaves its own table as it is.
        """
        group = self.table.get(name)
        if group is not None:
            return group
        if not may_create(name, auto_create=self._auto_create()):
            return "make it, or allow groups to be made by their first use"
        fault = group_fault(name)
        if self.is_copy:
            return fault or SubscriptionGroupConfig(group_name=name)
        fault = fault or self._new_names.group_fault(len(self.table), peer)
        if fault is not None:
            return fault
        group = self.table.create(name, self._clock.now_ms())
        assert group is not None
        self.file.changed()
        return group

    def put(self, group: SubscriptionGroupConfig, on_saved: OnSaved) -> None:
        """Create or change a group; ``on_saved`` is called when the change is durable."""
        self.table.put(group, self._clock.now_ms())
        self.file.changed(on_saved)

    def adopt(self, table: SubscriptionGroupTable, *, is_first: bool = False) -> None:
        """Take over the groups of the master whose copy this broker is; at the first look whatever their version is."""
        if self.table.adopt(table, is_first=is_first):
            self.file.changed()

    def delete(self, name: str, on_saved: OnSaved) -> None:
        """Delete a group; ``on_saved`` is called when that is durable."""
        self.table.delete(name, self._clock.now_ms())
        self.file.changed(on_saved)

    def allow_reading(self, name: str, topic: str, *, allowed: bool, on_saved: OnSaved) -> None:
        """Forbid a group to read a topic, or allow reading again."""
        self.table.allow_reading(name, topic, allowed=allowed, now_ms=self._clock.now_ms())
        self.file.changed(on_saved)

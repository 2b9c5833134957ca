"""Offsets of groups, translated from the source and written at the target, so that a group can move.

For every queue that is copied, the committed offset of a group is translated by the queue's mark. It is written only
forwards, and only while the group has no members at the target: a group that has moved commits for itself, and what it
has consumed there must not come again. A group that is not known at the target is made with its settings of the source.

Marks of archives are offsets of groups too, and are left out: they say what a lake has of the source's messages, and
the target may not delete its copies for that.

An offset says that the group has had everything before it. That holds for a translated offset too, so a mirror the
other way may translate it back.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from firearrow.admin import Admin
from firearrow.mirror.marks import Marks, QueueMark
from firearrow.model import MessageQueue
from firearrow.model.names import LAKE_GROUP_PREFIX, is_system_group, retry_topic


def translated(
    committed: Mapping[MessageQueue, int], marks: Mapping[MessageQueue, QueueMark], held: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Return the target offsets of a group, which has ``committed`` at the source and ``held`` at the target."""
    return {
        mark.target: mark.translate(offset, held.get(mark.target, 0))
        for queue, offset in committed.items()
        if (mark := marks.get(queue)) is not None
    }


def forwards(wanted: Mapping[MessageQueue, int], held: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Return the offsets that lie before those that the target holds.

    0 is one of them where it holds none: a group without an offset may begin at the end of a queue.
    """
    return {queue: offset for queue, offset in wanted.items() if offset > held.get(queue, -1)}


class GroupSync:
    """Translates the offsets of groups from time to time."""

    def __init__(self, source: Admin, target: Admin, marks: Marks, patterns: tuple[str, ...], cluster: str) -> None:
        self._source = source
        self._target = target
        self._marks = marks
        self._patterns = patterns
        self._cluster = cluster

    async def once(self) -> dict[str, dict[MessageQueue, int]]:
        """Bring all groups up to date; return the translated offsets of each, written now or before."""
        known = await self._source.offsets.groups()
        chosen = {name: known[name] for name in sorted(known) if self._wants(name)}
        there = await self._target.offsets.groups(self._cluster) if chosen else {}
        found: dict[str, dict[MessageQueue, int]] = {}
        for name, settings in chosen.items():
            wanted, held = await self._offsets(name)
            if not wanted:
                continue
            found[name] = wanted
            if name not in there:
                await self._target.offsets.create(settings, self._cluster)
            if not await self._target.offsets.has_members(name, self._cluster):
                await self._target.offsets.write(name, forwards(wanted, held), self._cluster)
        return found

    async def waiting_retries(self, group: str) -> int:
        """Return how many messages of a group wait at the source to be delivered again; they are not copied."""
        return await self._source.groups.lag(group, retry_topic(group)) or 0

    def _wants(self, group: str) -> bool:
        if is_system_group(group) or group.startswith(LAKE_GROUP_PREFIX):
            return False
        return any(fnmatchcase(group, pattern) for pattern in self._patterns)

    async def _offsets(self, group: str) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]]:
        """Return the translated offsets of a group, and those that it has at the target."""
        wanted: dict[MessageQueue, int] = {}
        held: dict[MessageQueue, int] = {}
        for topic in self._marks.topics:
            committed = await self._source.offsets.committed(group, topic)
            if committed:
                held |= await self._target.offsets.committed(group, topic, self._cluster)
                wanted |= translated(committed, self._marks.of_topic(topic), held)
        return wanted, held

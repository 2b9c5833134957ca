"""Offsets of groups, translated from the source and written at the target, so that a group can move.

For every queue that is copied, the committed offset of a group is translated by the queue's map. It is written only
forwards, and only while the group has no members at the target: a group that has moved commits for itself, and what it
has consumed there must not come again. A group that is not known at the target is made with its settings of the source.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from firearrow.admin import Admin
from firearrow.mirror.marks import Marks, QueueMark
from firearrow.model import MessageQueue
from firearrow.model.names import is_system_group, retry_topic


def translated(
    committed: Mapping[MessageQueue, int], marks: Mapping[MessageQueue, QueueMark]
) -> dict[MessageQueue, int]:
    """Return the target offsets of a group, for the queues of which something is copied."""
    found: dict[MessageQueue, int] = {}
    for queue, offset in committed.items():
        mark = marks.get(queue)
        place = None if mark is None else mark.map.translate(offset)
        if mark is not None and place is not None:
            found[mark.target] = place
    return found


def forwards(wanted: Mapping[MessageQueue, int], held: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Return the offsets that lie before those that the target holds."""
    return {queue: offset for queue, offset in wanted.items() if offset > held.get(queue, 0)}


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
            wanted = await self._wanted(name)
            if not wanted:
                continue
            found[name] = wanted
            if name not in there:
                await self._target.offsets.create(settings, self._cluster)
            if not await self._target.offsets.has_members(name, self._cluster):
                await self._write(name, wanted)
        return found

    async def waiting_retries(self, group: str) -> int:
        """Return how many messages of a group wait at the source to be delivered again; they are not copied."""
        return await self._source.groups.lag(group, retry_topic(group)) or 0

    def _wants(self, group: str) -> bool:
        return not is_system_group(group) and any(fnmatchcase(group, pattern) for pattern in self._patterns)

    async def _wanted(self, group: str) -> dict[MessageQueue, int]:
        found: dict[MessageQueue, int] = {}
        for topic in self._marks.topics:
            committed = await self._source.offsets.committed(group, topic)
            found |= translated(committed, self._marks.of_topic(topic))
        return found

    async def _write(self, group: str, wanted: Mapping[MessageQueue, int]) -> None:
        for topic in dict.fromkeys(queue.topic for queue in wanted):
            held = await self._target.offsets.committed(group, topic, self._cluster)
            mine = {queue: offset for queue, offset in wanted.items() if queue.topic == topic}
            await self._target.offsets.write(group, forwards(mine, held), self._cluster)

"""How far each group is in each queue. Pure.

Three numbers a queue: what the group committed, what it last pulled (for progress reports only), and a place that an
operator sent it to and that its consumers have not heard of yet. While the last one is set, commits are ignored: they
come from consumers that still read elsewhere. It is taken by the next pull, which answers PULL_OFFSET_MOVED.
Java: ``ConsumerOffsetManager``.

The file is Apache's ``consumerOffset.json``: ``{"offsetTable": {"topic@group": {queue: offset}}}``. What is written is
never above the end of a queue, and is written only once the log is durable that far: after the loss of power an offset
beyond the log's end would skip messages that get those numbers later.
"""

from collections.abc import Callable, Iterable
from typing import Final

from firearrow import fastjson
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.offset import ConsumerOffsetTable
from firearrow.protocol.bodies.version import DataVersion

PATH: Final = "config/consumerOffset.json"
SEPARATOR: Final = "@"
NOT_FOUND: Final = -1

Key = tuple[str, str]
"""Topic and group."""

EndOf = Callable[[str, int], int]
"""One past the last message of a queue, by topic and queue number."""


class OffsetTable:
    """The offsets of one broker."""

    def __init__(self) -> None:
        self.version = DataVersion()
        self._committed: dict[Key, dict[int, int]] = {}
        self._pulled: dict[Key, dict[int, int]] = {}
        self._moved: dict[Key, dict[int, int]] = {}

    # ---- asking

    def committed(self, group: str, topic: str, queue_id: int) -> int:
        """Where a group goes on in a queue; NOT_FOUND when it never said."""
        moved = self._moved.get((topic, group))
        if moved is not None and queue_id in moved:
            return moved[queue_id]
        queues = self._committed.get((topic, group))
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """How far a group has pulled a queue."""
        queues = self._pulled.get((topic, group))
        if queues is None or queue_id not in queues:
            return self.committed(group, topic, queue_id)
        return queues[queue_id]

    def of(self, group: str, topic: str) -> dict[int, int]:
        """What a group committed in a topic, by queue."""
        return self._committed.get((topic, group), {})

    def topics_of(self, group: str) -> list[str]:
        """The topics that a group has offsets in."""
        return sorted(topic for topic, name in self._committed if name == group)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have offsets in a topic."""
        return sorted(group for name, group in self._committed if name == topic)

    def lowest(self, topic: str, without: Iterable[str], start_of: EndOf) -> dict[int, int]:
        """The lowest offset of all groups by queue, those below a queue's first message not counted."""
        skipped = set(without)
        lowest: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group in skipped:
                continue
            for queue_id, offset in self._committed[topic, group].items():
                if offset >= start_of(topic, queue_id):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        return lowest

    # ---- changing

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """A group is this far; False when it has been sent elsewhere and does not know yet."""
        if self.is_moved(group, topic, queue_id):
            return False
        self._committed.setdefault((topic, group), {})[queue_id] = offset
        return True

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A group has pulled this far."""
        self._pulled.setdefault((topic, group), {})[queue_id] = offset

    def move(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Send a group to a place."""
        self._moved.setdefault((topic, group), {})[queue_id] = offset
        self._committed.setdefault((topic, group), {})[queue_id] = offset

    def is_moved(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a group was sent to a place that it has not heard of."""
        return queue_id in self._moved.get((topic, group), ())

    def take_move(self, group: str, topic: str, queue_id: int) -> int | None:
        """The place that a group was sent to, once."""
        if not self._moved:
            return None
        moved = self._moved.get((topic, group))
        if moved is None or queue_id not in moved:
            return None
        offset = moved.pop(queue_id)
        if not moved:
            del self._moved[topic, group]
        return offset

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give one group the offsets of another."""
        offsets = self._committed.get((topic, source))
        if offsets is not None:
            self._committed[topic, target] = dict(offsets)

    def forget_group(self, group: str) -> None:
        """Forget everything about a group."""
        for table in (self._committed, self._pulled, self._moved):
            for key in [key for key in table if key[1] == group]:
                del table[key]

    def forget_topic(self, topic: str) -> None:
        """Forget everything about a topic."""
        for table in (self._committed, self._pulled, self._moved):
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def by_group(self) -> dict[str, dict[str, dict[int, int]]]:
        """Everything committed, by group, topic and queue."""
        groups: dict[str, dict[str, dict[int, int]]] = {}
        for (topic, group), queues in self._committed.items():
            groups.setdefault(group, {})[topic] = queues
        return groups

    # ---- the file

    def table(self) -> ConsumerOffsetTable:
        """All of it, as Apache writes it."""
        return ConsumerOffsetTable(
            data_version=self.version, offset_table=self._rows(lambda _topic, _queue_id: 1 << 62)
        )

    def encode(self, end_of: EndOf) -> bytes:
        """The file of this table, nothing in it above the end of a queue."""
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=self.version.timestamp)
        return encode_body(ConsumerOffsetTable(data_version=self.version, offset_table=self._rows(end_of)))

    def _rows(self, end_of: EndOf) -> dict[str, dict[int, int]]:
        return {
            f"{topic}{SEPARATOR}{group}": {
                queue_id: min(queues[queue_id], end_of(topic, queue_id)) for queue_id in sorted(queues)
            }
            for (topic, group), queues in sorted(self._committed.items())
        }

    def restore(self, stored: ConsumerOffsetTable, end_of: EndOf) -> int:
        """Take over what a file holds; return how many offsets were above the end of their queue and were cut."""
        self.version = stored.data_version or DataVersion()
        cut = 0
        for key, queues in stored.offset_table.items():
            topic, found, group = key.rpartition(SEPARATOR)
            if not found:
                continue
            offsets = self._committed[topic, group] = {}
            for queue_id, offset in queues.items():
                offsets[queue_id] = min(offset, end_of(topic, queue_id))
                cut += offsets[queue_id] < offset
        return cut


def decode_offsets(data: bytes) -> ConsumerOffsetTable:
    """The table in a file."""
    return fastjson.decode(data, ConsumerOffsetTable)

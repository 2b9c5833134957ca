"""The offset table: how far every group is in every queue. Pure.

A queue has three offsets for a group: the committed one, the last pulled one (for progress reports only), and the moved
one, which an operator has set and the consumers do not know yet. While a moved offset is set, commits are ignored: they
come from consumers that still read at the old offset. The next pull takes it and is answered with PULL_OFFSET_MOVED.
Java: ``ConsumerOffsetManager``.

An offset in the file (`offset_rows`) is never above the end of its queue, and is written only once the log is durable
up to that message: after a power loss, an offset above the end would skip messages that get these offsets later.
"""

from collections.abc import Callable, Iterable, Iterator
from sys import maxsize
from typing import Final

import msgspec

from firearrow.broker.state.state_file import in_pieces
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.version import DataVersion

SEPARATOR: Final = "@"
NOT_FOUND: Final = -1
FEW_TOPICS: Final = 20
KEPT_PART: Final = 5

Key = tuple[str, str]
"""Topic and group."""

Change = tuple[str, str, int]
"""Topic, group and queue; `ALL_QUEUES` stands for all offsets of the group in the topic."""

ALL_QUEUES: Final = -1

EndOf = Callable[[str, int], int]
"""Returns the offset after the last message of a queue, by topic and queue number."""


class OffsetTable:
    """The offsets of one broker."""

    def __init__(self, most: Callable[[], int] = lambda: maxsize) -> None:
        """``most`` is the number of committed offsets at which clients add no other."""
        self._most = most
        self.version = DataVersion()
        self._committed: dict[Key, dict[int, int]] = {}
        self._pulled: dict[Key, dict[int, int]] = {}
        self._moved: dict[Key, dict[int, int]] = {}
        self._groups: dict[str, dict[str, None]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        """Indexes: the groups with offsets by topic, and the topics by group, so that no lookup scans the table."""
        self.changes: dict[Change, None] = {}
        """Offsets that changed since the file was written."""
        self._count = 0
        self._pulled_count = 0

    # ---- asking

    def __len__(self) -> int:
        """Return the number of committed offsets."""
        return self._count

    def has_room(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a client may commit an offset here: a known one, or a new one while there is room.

        The last fifth of the room is kept for groups that have offsets in few topics.
        """
        if queue_id in self._committed.get((topic, group), ()):
            return True
        most = self._most()
        return self._count < (most if len(self._topics.get(group, ())) < FEW_TOPICS else most - most // KEPT_PART)

    def committed(self, group: str, topic: str, queue_id: int) -> int:
        """Return the committed offset of a group in a queue; NOT_FOUND when the group never committed."""
        moved = self._moved.get((topic, group))
        if moved is not None and queue_id in moved:
            return moved[queue_id]
        queues = self._committed.get((topic, group))
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset up to which a group has pulled a queue."""
        queues = self._pulled.get((topic, group))
        if queues is None or queue_id not in queues:
            return self.committed(group, topic, queue_id)
        return queues[queue_id]

    def in_flight(self, group: str, topic: str) -> int:
        """Return how many messages a group has pulled and not committed, in all queues of a topic.

        A queue without a committed offset counts as 0, as in Apache's broker: where the group began is not known.
        """
        pulled = self._pulled.get((topic, group))
        if pulled is None:
            return 0
        began = ((offset, self.committed(group, topic, queue)) for queue, offset in pulled.items())
        return sum(max(offset - start, 0) for offset, start in began if start != NOT_FOUND)

    def of(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group in a topic, by queue."""
        return self._committed.get((topic, group), {})

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return sorted(topic for topic in self._topics.get(group, ()) if (topic, group) in self._committed)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic."""
        return sorted(group for group in self._groups.get(topic, ()) if (topic, group) in self._committed)

    def lowest(self, topic: str, without: Iterable[str], start_of: EndOf) -> dict[int, int]:
        """Return the lowest offset of all groups by queue, without offsets below the queue's first message."""
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
        """Commit the offset of a group; return False, without effect, while a moved offset is set."""
        if self._moved and self.is_moved(group, topic, queue_id):
            return False
        self._set(group, topic, queue_id, offset)
        return True

    def _set(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        queues = self._committed.get((topic, group))
        if queues is None:
            queues = self._committed[topic, group] = {}
            self._index(topic, group)
        if queues.get(queue_id) != offset:
            self._count += queue_id not in queues
            queues[queue_id] = offset
            self.changes[topic, group, queue_id] = None

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the offset up to which a group has pulled, while there is room."""
        queues = self._pulled.get((topic, group))
        if queues is None or queue_id not in queues:
            if self._pulled_count >= self._most():
                return
            self._pulled_count += 1
        if queues is None:
            queues = self._pulled[topic, group] = {}
            self._index(topic, group)
        queues[queue_id] = offset

    def move(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group to another offset of a queue."""
        self._moved.setdefault((topic, group), {})[queue_id] = offset
        self._set(group, topic, queue_id, offset)

    def is_moved(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a moved offset is set that the consumers do not know yet."""
        return queue_id in self._moved.get((topic, group), ())

    def take_move(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the moved offset and clear it; None when none is set."""
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
        """Copy the offsets of ``source`` in a topic to ``target``."""
        offsets = self._committed.get((topic, source))
        if offsets is not None:
            self.put_row(topic, target, dict(offsets))
            self.changes[topic, target, ALL_QUEUES] = None

    def _index(self, topic: str, group: str) -> None:
        self._groups.setdefault(topic, {})[group] = None
        self._topics.setdefault(group, {})[topic] = None

    def forget_group(self, group: str) -> None:
        """Delete all offsets of a group."""
        for topic in self._topics.pop(group, {}):
            _drop(self._groups, topic, group)
            self._forget(topic, group)

    def forget_topic(self, topic: str) -> None:
        """Delete all offsets in a topic."""
        for group in self._groups.pop(topic, {}):
            _drop(self._topics, group, topic)
            self._forget(topic, group)

    def _forget(self, topic: str, group: str) -> None:
        self._count -= len(self._committed.pop((topic, group), ()))
        self._pulled_count -= len(self._pulled.pop((topic, group), ()))
        self._moved.pop((topic, group), None)
        self.changes[topic, group, ALL_QUEUES] = None

    def rows(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """Yield all committed offsets: group, topic, offsets by queue. The table may change between two rows."""
        for topic, group in list(self._committed):
            queues = self._committed.get((topic, group))
            if queues is not None:
                yield group, topic, queues

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole table in pieces, as Apache sends it to slaves."""
        encode = msgspec.json.encode
        named = ((f"{topic}{SEPARATOR}{group}", queues) for group, topic, queues in self.rows())
        rows = (b"%b:%b" % (encode(name), encode(queues)) for name, queues in named)
        return in_pieces(rows, b'{"dataVersion":%b,"offsetTable":{' % encode_body(self.version), b"}}")

    def cut(self, end_of: EndOf) -> int:
        """Lower offsets above the end of their queue to that end; return how many were lowered."""
        cut = 0
        for (topic, group), queues in self._committed.items():
            for queue_id, offset in queues.items():
                end = end_of(topic, queue_id)
                if offset > end:
                    self._set(group, topic, queue_id, end)
                    cut += 1
        return cut

    # ---- for the file

    def pairs(self) -> list[Key]:
        """Return every topic and group with committed offsets."""
        return list(self._committed)

    def queues_of(self, topic: str, group: str) -> dict[int, int] | None:
        """Return the committed offsets of a group in a topic, by queue; None when there are none."""
        return self._committed.get((topic, group))

    def put_row(self, topic: str, group: str, queues: dict[int, int] | None) -> None:
        """Load the offsets of a group in a topic from a file or journal; None deletes them."""
        self._count -= len(self._committed.pop((topic, group), ()))
        if queues is not None:
            self._committed[topic, group] = queues
            self._count += len(queues)
            self._index(topic, group)

    def put_queue(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Load the offset of one queue from the journal."""
        queues = self._committed.get((topic, group))
        if queues is None:
            self.put_row(topic, group, {queue_id: offset})
        else:
            self._count += queue_id not in queues
            queues[queue_id] = offset


def _drop(table: dict[str, dict[str, None]], key: str, member: str) -> None:
    members = table.get(key, {})
    members.pop(member, None)
    if not members:
        table.pop(key, None)

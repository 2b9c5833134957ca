"""How far each group is in each queue. Pure.

Three numbers a queue: what the group committed, what it last pulled (for progress reports only), and a place that an
operator sent it to and that its consumers have not heard of yet. While the last one is set, commits are ignored: they
come from consumers that still read elsewhere. It is taken by the next pull, which answers PULL_OFFSET_MOVED.
Java: ``ConsumerOffsetManager``.

What is written (`offsetrows`) is never above the end of a queue, and is written only once the log is durable that far:
after the loss of power an offset beyond the log's end would skip messages that get those numbers later.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from firearrow.broker.statefile import in_pieces
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.version import DataVersion

SEPARATOR: Final = "@"
NOT_FOUND: Final = -1

Key = tuple[str, str]
"""Topic and group."""

Change = tuple[str, str, int]
"""Topic, group and queue; `ALL_QUEUES` for whatever there is of the group in the topic."""

ALL_QUEUES: Final = -1

EndOf = Callable[[str, int], int]
"""One past the last message of a queue, by topic and queue number."""


class OffsetTable:
    """The offsets of one broker."""

    def __init__(self) -> None:
        self.version = DataVersion()
        self._committed: dict[Key, dict[int, int]] = {}
        self._pulled: dict[Key, dict[int, int]] = {}
        self._moved: dict[Key, dict[int, int]] = {}
        self._groups: dict[str, dict[str, None]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        """The groups that anything is known of by topic, and the topics by group: nobody looks through all."""
        self.changes: dict[Change, None] = {}
        """What the file does not have as it is."""

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
        return sorted(topic for topic in self._topics.get(group, ()) if (topic, group) in self._committed)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have offsets in a topic."""
        return sorted(group for group in self._groups.get(topic, ()) if (topic, group) in self._committed)

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
            queues[queue_id] = offset
            self.changes[topic, group, queue_id] = None

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A group has pulled this far."""
        queues = self._pulled.get((topic, group))
        if queues is None:
            queues = self._pulled[topic, group] = {}
            self._index(topic, group)
        queues[queue_id] = offset

    def move(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Send a group to a place."""
        self._moved.setdefault((topic, group), {})[queue_id] = offset
        self._set(group, topic, queue_id, offset)

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
            self._index(topic, target)
            self.changes[topic, target, ALL_QUEUES] = None

    def _index(self, topic: str, group: str) -> None:
        self._groups.setdefault(topic, {})[group] = None
        self._topics.setdefault(group, {})[topic] = None

    def forget_group(self, group: str) -> None:
        """Forget everything about a group."""
        for topic in self._topics.pop(group, {}):
            _drop(self._groups, topic, group)
            self._forget(topic, group)

    def forget_topic(self, topic: str) -> None:
        """Forget everything about a topic."""
        for group in self._groups.pop(topic, {}):
            _drop(self._topics, group, topic)
            self._forget(topic, group)

    def _forget(self, topic: str, group: str) -> None:
        for table in (self._committed, self._pulled, self._moved):
            table.pop((topic, group), None)
        self.changes[topic, group, ALL_QUEUES] = None

    def rows(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """Everything committed: group, topic, offsets by queue. The table may change between two of them."""
        for topic, group in list(self._committed):
            queues = self._committed.get((topic, group))
            if queues is not None:
                yield group, topic, queues

    def pieces(self) -> Iterator[bytes]:
        """All of it in pieces, as Apache sends it to slaves."""
        encode = msgspec.json.encode
        named = ((f"{topic}{SEPARATOR}{group}", queues) for group, topic, queues in self.rows())
        rows = (b"%b:%b" % (encode(name), encode(queues)) for name, queues in named)
        return in_pieces(rows, b'{"dataVersion":%b,"offsetTable":{' % encode_body(self.version), b"}}")

    def cut(self, end_of: EndOf) -> int:
        """Take offsets above the end of their queue back to it; return how many there were."""
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
        """Every topic and group that there are offsets of."""
        return list(self._committed)

    def queues_of(self, topic: str, group: str) -> dict[int, int] | None:
        """What a group committed in a topic, if it ever did."""
        return self._committed.get((topic, group))

    def put_row(self, topic: str, group: str, queues: dict[int, int] | None) -> None:
        """Take over what a file says of a group in a topic; nothing, when it says that there is none."""
        if queues is None:
            self._committed.pop((topic, group), None)
        else:
            self._committed[topic, group] = queues
            self._index(topic, group)

    def put_queue(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Take over what a file says of one queue."""
        queues = self._committed.get((topic, group), {})
        queues[queue_id] = offset
        self.put_row(topic, group, queues)


def _drop(table: dict[str, dict[str, None]], key: str, member: str) -> None:
    members = table.get(key, {})
    members.pop(member, None)
    if not members:
        table.pop(key, None)

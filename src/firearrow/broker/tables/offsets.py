"""The offset table: how far every group is in every queue. Pure.

A queue has three offsets for a group: the committed one, the last pulled one (for progress reports only), and the moved
one, which an operator has set and the consumers do not know yet. While a moved offset is set, commits are ignored: they
come from consumers that still read at the old offset. The next pull takes it and is answered with PULL_OFFSET_MOVED.
Moved offsets are in the file and are told to slaves with their row: a restart or a failover undoes no move. Java:
``ConsumerOffsetManager``, which loses them at a restart.

An offset in the file (`offset_rows`) is never above the end of its queue, and is written only once the log is durable
up to that message: after a power loss, an offset above the end would skip messages that get these offsets later.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from sys import maxsize
from typing import Final

import msgspec

from firearrow.broker.state.state_file import in_pieces
from firearrow.broker.tables.changed_rows import ChangedRows, Key
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.version import DataVersion

SEPARATOR: Final = "@"
NOT_FOUND: Final = -1
FEW_TOPICS: Final = 20
KEPT_PART: Final = 5

Change = tuple[str, str, int]
"""Topic, group and queue; `ALL_QUEUES` stands for all offsets of the group in the topic."""

ALL_QUEUES: Final = -1

EndOf = Callable[[str, int], int]
"""Returns the offset after the last message of a queue, by topic and queue number."""


class OffsetTable:
    """The offsets of one broker."""

    def __init__(self, most: Callable[[], int] = lambda: maxsize, name: str = "") -> None:
        """``most`` is the number of committed offsets at which clients add no other; ``name`` is that of this run."""
        self._most = most
        self.changed_rows: Final = ChangedRows(name)
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

    def has_room(self, group: str, topic: str, *queue_ids: int) -> bool:
        """Whether a group may have offsets in these queues: known ones, or new ones while there is room.

        The last fifth of the room is kept for groups that have offsets in few topics.
        """
        known = self._committed.get((topic, group), {})
        new = len({*queue_ids}.difference(known))  # `-` would walk all that is known
        return not new or self._has_room(new, topics=len(self._topics.get(group, ())))

    def has_room_for_all(self, group: str, new: Mapping[str, int]) -> bool:
        """Whether `has_room` allows a group all these new offsets, counted by topic, if they come in this order."""
        count = sum(new.values())
        return not count or self._has_room(count, topics=len({*self._topics.get(group, ()), *list(new)[:-1]}))

    def _has_room(self, new: int, *, topics: int) -> bool:
        most = self._most()
        return self._count + new <= (most if topics < FEW_TOPICS else most - most // KEPT_PART)

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

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic."""
        return sorted(group for group in self._groups.get(topic, ()) if (topic, group) in self._committed)

    def topics_with(self, group: str) -> Collection[str]:
        """Return the topics in which a group has offsets, or had them: for a walk in steps, over a copy."""
        return self._topics.get(group, {})

    def groups_in(self, topic: str) -> Collection[str]:
        """Return the groups that have offsets in a topic, or had them: for a walk in steps, over a copy."""
        return self._groups.get(topic, {})

    # ---- changing

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Commit the offset of a group; return False, without effect, while a moved offset is set."""
        if self._moved and self.is_moved(group, topic, queue_id):
            return False
        self.adopt(group, topic, queue_id, offset)
        return True

    def adopt(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take the offset that a master has; a moved offset of the group stays."""
        queues = self._committed.get((topic, group))
        if queues is None:
            queues = self._committed[topic, group] = {}
            self._index(topic, group)
        if queues.get(queue_id) != offset:
            self._count += queue_id not in queues
            queues[queue_id] = offset
            self.changes[topic, group, queue_id] = None
            self.changed_rows.note((topic, group), self._committed)

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
        self.adopt(group, topic, queue_id, offset)
        self._row_changed(topic, group)

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
        self._row_changed(topic, group)
        return offset

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the offsets of ``source`` in a topic to ``target``; an earlier move of ``target`` no longer counts."""
        offsets = self._committed.get((topic, source))
        if offsets is not None:
            self.put_row(topic, target, dict(offsets))
            self._moved.pop((topic, target), None)
            self._row_changed(topic, target)

    def _index(self, topic: str, group: str) -> None:
        self._groups.setdefault(topic, {})[group] = None
        self._topics.setdefault(group, {})[topic] = None

    def forget_topic(self, topic: str) -> None:
        """Delete all offsets in a topic."""
        for group in self._groups.pop(topic, {}):
            _drop(self._topics, group, topic)
            self._forget(topic, group)

    def forget_row(self, topic: str, group: str) -> None:
        """Delete all offsets of a group in a topic."""
        _drop(self._groups, topic, group)
        _drop(self._topics, group, topic)
        self._forget(topic, group)

    def forget_queue(self, topic: str, queue_id: int) -> None:
        """Delete all offsets in a queue."""
        for group in list(self._groups.get(topic, ())):
            self.forget_offset(topic, group, queue_id)

    def forget_offset(self, topic: str, group: str, queue_id: int) -> None:
        """Delete the offset of a group in a queue."""
        queues, key = self._committed.get((topic, group)), (topic, group)
        if queues is not None and queues.pop(queue_id, None) is not None:
            self._count -= 1
            self._row_changed(topic, group)
        if self._pulled.get(key, {}).pop(queue_id, None) is not None:
            self._pulled_count -= 1
        self.take_move(group, topic, queue_id)

    def _forget(self, topic: str, group: str) -> None:
        self._count -= len(self._committed.pop((topic, group), ()))
        self._pulled_count -= len(self._pulled.pop((topic, group), ()))
        self._moved.pop((topic, group), None)
        self._row_changed(topic, group)

    def _row_changed(self, topic: str, group: str) -> None:
        self.changes[topic, group, ALL_QUEUES] = None
        self.changed_rows.note((topic, group), self._committed)

    def rows_in(self, topic: str) -> Iterator[tuple[str, dict[int, int]]]:
        """Yield the committed offsets in a topic: group, offsets by queue. The table may change between two rows."""
        for group in tuple(self._groups.get(topic, ())):
            queues = self._committed.get((topic, group))
            if queues is not None:
                yield group, queues

    def rows(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """Yield all committed offsets: group, topic, offsets by queue. The table may change between two rows."""
        for topic, group in list(self._committed):
            queues = self._committed.get((topic, group))
            if queues is not None:
                yield group, topic, queues

    def pieces(self, some: Iterable[Key] | None = None) -> Iterator[bytes]:
        """Yield the table, or some of its rows, in pieces, as Apache sends it to slaves; a deleted row is empty.

        Moved offsets of these rows follow, in a field of ours.
        """
        keys = list(self._committed) if some is None else list(some)
        rows = (self.row_text(*key) for key in keys if some is not None or key in self._committed)
        wanted = None if some is None else set(keys)
        moved = {
            f"{topic}{SEPARATOR}{group}": queues
            for (topic, group), queues in self._moved.items()
            if wanted is None or (topic, group) in wanted
        }
        tail = b'},"firearrowMoved":%b}' % msgspec.json.encode(moved) if moved else b"}}"
        return in_pieces(rows, b'{"dataVersion":%b,"offsetTable":{' % encode_body(self.version), tail)

    def row_text(self, topic: str, group: str) -> bytes:
        """Return a row as Apache sends it to slaves; a deleted row is empty."""
        encode = msgspec.json.encode
        return b"%b:%b" % (encode(f"{topic}{SEPARATOR}{group}"), encode(self._committed.get((topic, group), {})))

    def cut(self, end_of: EndOf) -> int:
        """Lower offsets above the end of their queue to that end; return how many were lowered."""
        cut = 0
        for (topic, group), queues in self._committed.items():
            for queue_id, offset in queues.items():
                end = end_of(topic, queue_id)
                if offset > end:
                    self.adopt(group, topic, queue_id, end)
                    cut += 1
        for (topic, group), moved in self._moved.items():
            self._moved[topic, group] = {one: min(offset, end_of(topic, one)) for one, offset in moved.items()}
        return cut

    # ---- for the file

    def pairs(self) -> list[Key]:
        """Return every topic and group with committed offsets."""
        return list(self._committed)

    def queues_of(self, topic: str, group: str) -> dict[int, int] | None:
        """Return the committed offsets of a group in a topic, by queue; None when there are none."""
        return self._committed.get((topic, group))

    def moved_pairs(self) -> list[Key]:
        """Return every topic and group with moved offsets."""
        return list(self._moved)

    def moved_of(self, topic: str, group: str) -> dict[int, int]:
        """Return the moved offsets of a group in a topic, by queue."""
        return self._moved.get((topic, group), {})

    def put_moved(self, topic: str, group: str, queues: dict[int, int] | None) -> None:
        """Load the moved offsets of a group in a topic, from the file or from a master."""
        if queues:
            self._moved[topic, group] = dict(queues)
            self._index(topic, group)
        else:
            self._moved.pop((topic, group), None)

    def adopt_moved(self, topic: str, group: str, queues: dict[int, int]) -> None:
        """Take the moved offsets that a master has for a group in a topic, and have them written."""
        if self.moved_of(topic, group) != queues:
            self.put_moved(topic, group, queues)
            self._row_changed(topic, group)

    def put_row(self, topic: str, group: str, queues: dict[int, int] | None) -> None:
        """Load the offsets of a group in a topic from a file or journal; None deletes them."""
        self._count -= len(self._committed.pop((topic, group), ()))
        if queues is not None:
            self._committed[topic, group] = queues
            self._count += len(queues)
            self._index(topic, group)
        self.changed_rows.note((topic, group), self._committed)

    def put_queue(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Load the offset of one queue from the journal."""
        queues = self._committed.get((topic, group))
        if queues is None:
            self.put_row(topic, group, {queue_id: offset})
        else:
            self._count += queue_id not in queues
            queues[queue_id] = offset
            self.changed_rows.note((topic, group), self._committed)


def _drop(table: dict[str, dict[str, None]], key: str, member: str) -> None:
    members = table.get(key, {})
    members.pop(member, None)
    if not members:
        table.pop(key, None)

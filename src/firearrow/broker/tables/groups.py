"""Subscription groups: consumer groups as operators configure them, with permissions, retry limits and so on.

Pure; time is an argument. Every change raises the table's data version, so that slaves and tools notice the change.
Java: ``SubscriptionGroupManager``.

A group may be forbidden to read a topic before the group exists. Pages are numbered by groups, so the first page tells
of all groups that do not exist, and `forbidden_fault` bounds their bytes.

Invariant: every group of `PREDEFINED_GROUPS` exists unless an operator deleted it since the start.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from firearrow import fastjson
from firearrow.broker.state.state_file import decode_line, in_pieces
from firearrow.broker.tables.legal_names import with_legal_names
from firearrow.broker.tables.pages import names_of_page
from firearrow.model.names import PREDEFINED_GROUPS, group_fault, is_system_group
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.protocol.bodies.version import DataVersion

T = TypeVar("T")

PATH: Final = "config/subscriptionGroup.json"
READ_FORBIDDEN: Final = 1 << 2
"""The bit in the forbidden table that stops a group from reading a topic (``PermName.PERM_READ``)."""
FORBIDDEN_BYTES_MAX: Final = 1 << 20
"""The most bytes of the forbidden topics of a group, and of all groups that do not exist together."""


class SubscriptionGroups:
    """The groups of one broker."""

    def __init__(self) -> None:
        self.version = DataVersion()
        self._groups = {name: SubscriptionGroupConfig(group_name=name) for name in PREDEFINED_GROUPS}
        self._names = sorted(self._groups)
        """The names in order: a page does not sort them."""
        self._forbidden: dict[str, dict[str, int]] = {}
        self._early: dict[str, int] = {}
        """Groups with forbidden topics that do not exist, with the bytes of these topics."""
        self.changes: dict[str, None] = {}
        """Groups that changed since the file was written; the empty name stands for the data version."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sorted names."""
        return iter(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._groups

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group; None when it does not exist."""
        return self._groups.get(name)

    # ---- changing

    def create(self, name: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """Create a group with default settings; return None when the name is illegal."""
        if group_fault(name) is not None:
            return None
        group = self._groups[name] = SubscriptionGroupConfig(group_name=name)
        self._changed(name, now_ms)
        return group

    def put(self, group: SubscriptionGroupConfig, now_ms: int) -> None:
        """Create or change a group. Its attributes are changes to the current ones: ``+key`` and ``-key``."""
        for name, changed in self.altered([group]).items():
            self._groups[name] = changed
            self._changed(name, now_ms)

    def altered(self, changes: Iterable[SubscriptionGroupConfig]) -> dict[str, SubscriptionGroupConfig]:
        """Return by name what groups will be after these changes."""
        groups: dict[str, SubscriptionGroupConfig] = {}
        for group in changes:
            name = group.group_name or ""
            known = groups.get(name) or self._groups.get(name)
            attributes = _altered(known.attributes if known else {}, group.attributes)
            groups[name] = structs.replace(group, attributes=attributes)
        return groups

    def delete(self, name: str, now_ms: int) -> bool:
        """Delete a group; return whether it existed."""
        was_forbidden = self._forbidden.pop(name, None) is not None
        was_there = self._groups.pop(name, None) is not None
        if was_there or was_forbidden:
            self._changed(name, now_ms)
        return was_there

    def may_read(self, name: str, topic: str) -> bool:
        """Whether the group may read the topic."""
        return not self._forbidden.get(name, {}).get(topic, 0) & READ_FORBIDDEN

    def forbidden_fault(self, name: str, topic: str) -> str | None:
        """Return why a group cannot be forbidden to read one more topic; None when it can."""
        topics = {**self._forbidden.get(name, {}), topic: READ_FORBIDDEN}
        size = _forbidden_size(name, topics)
        if size > FORBIDDEN_BYTES_MAX:
            cure = "allow it some of them, or disable the group"
            return f"the topics that {name} may not read take {size} bytes, more than {FORBIDDEN_BYTES_MAX}; {cure}"
        size += sum(self._early.values()) - self._early.get(name, 0)
        if name not in self._groups and size > FORBIDDEN_BYTES_MAX:
            what = "the forbidden topics of groups that do not exist"
            return f"{what} take {size} bytes, more than {FORBIDDEN_BYTES_MAX}; create group {name} first"
        return None

    def allow_reading(self, name: str, topic: str, *, allowed: bool, now_ms: int) -> None:
        """Forbid a group to read a topic, or allow reading again."""
        topics = self._forbidden.setdefault(name, {})
        if allowed:
            topics.pop(topic, None)
        else:
            topics[topic] = topics.get(topic, 0) | READ_FORBIDDEN
        if not topics:
            del self._forbidden[name]
        self._changed(name, now_ms)

    def adopt(self, table: SubscriptionGroupTable, *, is_first: bool = False) -> bool:
        """Take over the groups of a master; return whether anything changed."""
        if not is_first and table.data_version == self.version:
            return False
        before, before_forbidden = self._groups, self._forbidden
        self._take(table)
        for name in {*before, *self._groups, *before_forbidden, *self._forbidden}:
            if (before.get(name), before_forbidden.get(name)) != (self._groups.get(name), self._forbidden.get(name)):
                self.changes[name] = None
        self.changes[_VERSION] = None
        return True

    def _take(self, table: SubscriptionGroupTable) -> None:
        self.version = table.data_version
        self._forbidden = {name: dict(topics) for name, topics in table.forbidden_table.items()}
        self._groups = _named(table)
        self._names = sorted(self._groups)
        self._weigh_all()

    def _changed(self, name: str, now_ms: int) -> None:
        self._place(name)
        self._weigh(name)
        self.changes[name] = self.changes[_VERSION] = None
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=now_ms)

    def _place(self, name: str) -> None:
        """Put the name of a group in its place among the others, or take it away."""
        place = bisect_left(self._names, name)
        is_placed = place < len(self._names) and self._names[place] == name
        if is_placed and name not in self._groups:
            del self._names[place]
        elif not is_placed and name in self._groups:
            self._names.insert(place, name)

    def _weigh(self, name: str) -> None:
        topics = self._forbidden.get(name)
        if topics is None or name in self._groups:
            self._early.pop(name, None)
        else:
            self._early[name] = _forbidden_size(name, topics)

    def _weigh_all(self) -> None:
        self._early = {}
        for name in self._forbidden:
            self._weigh(name)

    # ---- as others see it

    def page(self, start: int, count: int) -> SubscriptionGroupTable:
        """Return up to ``count`` groups from number ``start`` on, in the order of their names, as a page has them.

        The first page tells the forbidden topics of groups that do not exist as well.
        """
        some = self._names[start : start + count + 1] if count else []
        names = names_of_page(iter(some), count, len(self._names) - start, self._size_of)
        told = [*self._early, *names] if count and start == 0 else names
        return SubscriptionGroupTable(
            data_version=self.version,
            forbidden_table={name: self._forbidden[name] for name in told if name in self._forbidden},
            subscription_group_table={name: self._groups[name] for name in names},
        )

    def _size_of(self, name: str) -> int:
        topics = self._forbidden.get(name)
        return len(encode_body(self._groups[name])) + (0 if topics is None else _forbidden_size(name, topics))

    # ---- the file

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole table in pieces, as for the file and for answers."""
        forbidden = msgspec.json.encode(self._forbidden)
        head = b'{"dataVersion":%b,"forbiddenTable":%b,"subscriptionGroupTable":{'
        return in_pieces(_rows(list(self._groups.items())), head % (encode_body(self.version), forbidden), b"}}")

    def restore(self, data: bytes) -> None:
        """Load the table from the bytes of its file."""
        stored = fastjson.decode(data, SubscriptionGroupTable)
        self.version = stored.data_version
        self._forbidden = {name: dict(topics) for name, topics in stored.forbidden_table.items()}
        self._groups.update(_named(stored))
        self._names = sorted(self._groups)
        self._weigh_all()

    def line(self, key: str) -> bytes:
        """Return the journal line of a group, or of the data version."""
        version = self.version if key == _VERSION else None
        return msgspec.json.encode(_GroupLine(key, self._groups.get(key), self._forbidden.get(key), version))

    def apply(self, line: bytes) -> None:
        """Apply a journal line to the table."""
        row = decode_line(line, _GroupLine)
        if row.version is not None:
            self.version = row.version
            return
        _put_or_pop(self._groups, row.name, row.group)
        self._place(row.name)
        _put_or_pop(self._forbidden, row.name, row.forbidden)
        self._weigh(row.name)


class _GroupLine(msgspec.Struct, array_like=True):
    """A journal line: a group as it is, or deleted. Without a name: the data version of the table."""

    name: str
    group: SubscriptionGroupConfig | None = None
    forbidden: dict[str, int] | None = None
    version: DataVersion | None = None


_VERSION: Final = ""


def _named(table: SubscriptionGroupTable) -> dict[str, SubscriptionGroupConfig]:
    """Return the groups of a table from elsewhere by their names, those with illegal names left out."""
    groups = with_legal_names(table.subscription_group_table, "consumer groups")
    return {
        name: group if group.group_name == name else structs.replace(group, group_name=name)
        for name, group in groups.items()
    }


def _rows(groups: list[tuple[str, SubscriptionGroupConfig]]) -> Iterator[bytes]:
    for name, group in groups:
        yield b"%b:%b" % (msgspec.json.encode(name), encode_body(group))


def _forbidden_size(name: str, topics: dict[str, int]) -> int:
    return len(msgspec.json.encode({name: topics}))


def _put_or_pop(table: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def may_create(name: str, *, auto_create: bool) -> bool:
    """Whether an unknown group is created by its first use."""
    return auto_create or is_system_group(name)


def _altered(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    attributes = dict(current)
    for key, value in changes.items():
        if key.startswith("-"):
            attributes.pop(key[1:], None)
        else:
            attributes[key.removeprefix("+")] = value
    return attributes

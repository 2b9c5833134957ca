"""Many messages by columns: an envelope that all messages share, and a column for each field that differs.

Columns come from sends that arrived in one read (one flag, any queues and births) and from a client's batch (one queue
and birth, any flags). `encode_columns` makes their records; no request and no `Draft` is made for a message.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, final, overload

from msgspec import Struct

from firearrow.record.hosts import HostBytes

ENTRIES_REMEMBERED: Final = 64
"""Properties with more entries have no form: the structs that cut forms are cached, and must be small."""


class Envelope(Struct, frozen=True, gc=False):
    """The fields that are equal for all messages of one append."""

    topic: str
    born_host: HostBytes
    store_host: HostBytes
    sys_flag: int = 0
    reconsume_times: int = 0


class MessageColumns(NamedTuple):
    """Messages of one envelope. Bodies and properties are as stored (see `Draft`)."""

    queue_ids: Sequence[int]
    births: Sequence[int]
    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    """`UniformProperties` only if queue, birth and flag are equal for all messages too."""


@final
class UniformProperties(Sequence[bytes]):
    """Properties of one form, as a sequence of each message's bytes. See `uniform_properties`."""

    __slots__ = ("texts", "values")

    def __init__(self, texts: Sequence[bytes], values: Mapping[bytes, Sequence[bytes]]) -> None:
        self.texts = texts
        """The properties of each message."""
        self.values = values
        """The values of each property, by its name; every value of a property has the same length."""

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        return list(self.texts[at]) if isinstance(at, slice) else self.texts[at]


def uniform_properties(texts: Sequence[bytes]) -> UniformProperties | None:
    """Properties of two or more messages if they have one form, else None.

    One form: the same names in the same order, each once, with values of the same lengths. Then one `struct` cuts all
    of them. A name with "#" may be that of a stamp, which must not be stored: such properties have no form.
    """
    first, count, text = texts[0], len(texts), b"".join(texts)
    cut = _cut(first)
    if cut is None or count < 2 or list(map(len, texts)).count(len(first)) != count:
        return None
    columns = list(zip(*cut.iter_unpack(text), strict=True))
    separators = len(columns) // 2 * count
    if text.count(b"\x01") != separators or text.count(b"\x02") != separators:
        return None
    names = columns[0::2]
    if any(column.count(column[0]) != count for column in names):
        return None
    values = {column[0][:-1].lstrip(b"\x02"): value for column, value in zip(names, columns[1::2], strict=False)}
    return UniformProperties(texts, values)


def _cut(properties: bytes) -> struct.Struct | None:
    """The struct that cuts properties of this form into name, value, name, value, ..., 0x02; None without a form.

    A name comes with the separators on both sides of it.
    """
    if properties[-1:] != b"\x02":
        return None
    entries = [entry.partition(b"\x01") for entry in properties[:-1].split(b"\x02")]
    names = {name for name, _, _ in entries}
    if (
        len(names) != len(entries)
        or b"" in names
        or not all(value for _, _, value in entries)
        or b"#" in b"".join(names)
    ):
        return None
    lengths = [(len(name) + 2, len(value)) for name, _, value in entries]
    lengths[0] = (lengths[0][0] - 1, lengths[0][1])
    return _cut_into(tuple(lengths)) if len(lengths) <= ENTRIES_REMEMBERED else None


@lru_cache(256)
def _cut_into(lengths: tuple[tuple[int, int], ...]) -> struct.Struct:
    return struct.Struct("".join([f"{name}s{value}s" for name, value in lengths]) + "1s")

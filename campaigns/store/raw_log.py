"""The commit log as bytes in files, read without any part of the store: the truth that look-ups are compared with."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from firearrow.record.decode import peek, size_and_magic
from firearrow.record.layout import BLANK_MAGIC, BLANK_SIZE
from firearrow.record.properties import decode_properties


class Row(NamedTuple):
    """A record."""

    topic: str
    queue_id: int
    queue_offset: int
    physical: int
    store_ms: int
    sys_flag: int
    record: bytes
    body: bytes
    properties: dict[str, str]


class RawLog:
    """All records of a log, by queue and by place."""

    def __init__(self, root: Path) -> None:
        self.queues: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
        self.by_physical: dict[int, Row] = {}
        for file in sorted((root / "commitlog").iterdir()):
            for row in _rows(file):
                self.by_physical[row.physical] = row
                self.queues[row.topic, row.queue_id].append(row)

    @property
    def end(self) -> int:
        """The end of the last record."""
        last = max(self.by_physical, default=0)
        return last + len(self.by_physical[last].record) if self.by_physical else 0


def _rows(file: Path) -> Iterator[Row]:
    start, data = int(file.name), file.read_bytes()
    at = 0
    while at + BLANK_SIZE <= len(data):
        size, magic = size_and_magic(data, at)
        if size == 0 or magic == BLANK_MAGIC:
            return
        row = row_of(data[at : at + size])
        assert row.physical == start + at, f"the record at {start + at} says that it lies at {row.physical}"
        yield row
        at += size


def row_of(record: bytes) -> Row:
    """A record taken apart."""
    head = peek(record)
    return Row(
        head.topic,
        head.queue_id,
        head.queue_offset,
        head.physical_offset,
        head.store_timestamp,
        head.sys_flag,
        record,
        head.body(record),
        decode_properties(head.properties(record)),
    )

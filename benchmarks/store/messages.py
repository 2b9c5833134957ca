"""The messages that are appended, and the reference loop that makes the same records with nothing else around it."""

import os
import struct
from collections.abc import Sequence
from zlib import crc32

from firearrow.model import EpochMs, Host
from firearrow.record.encode import Draft
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import StoredProperties

SIZES = {"100 B": 100, "1 KiB": 1024, "4 KiB": 4096}
TOPIC = "BenchmarkTopic"
HOST = host_bytes(Host("10.0.0.1", 10911))
BORN = EpochMs(1_700_000_000_000)


def drafts_of(size: int, count: int, *, topic: str = TOPIC, queues: int = 8, first: int = 0) -> list[Draft]:
    """Messages of one size with a unique key and a tag each, over the queues of a topic in turn."""
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    return [
        Draft(topic, (first + number) % queues, body, properties_of(first + number), BORN, HOST, HOST)
        for number in range(count)
    ]


def properties_of(number: int) -> StoredProperties:
    """Return the properties of a stock producer's message: unique key, tag, wait."""
    return StoredProperties(b"UNIQ_KEY\x01C0A80001000018B4AAC2%012X\x02WAIT\x01true\x02TAGS\x01TagA\x02" % number)


_pack = struct.Struct(">iIiiiqqiq8sq8siqi").pack
_pack_length = struct.Struct(">h").pack


class Reference:
    """Packs, sums and writes records: what any store must do at the least, and nothing else."""

    def __init__(self, path: str, size: int) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self.descriptor, size)
        self.at = 0
        self.queue_offsets: dict[tuple[str, int], int] = {}

    def write(self, drafts: Sequence[Draft], store_ms: int) -> None:
        """Make the records of some messages and write them with one call."""
        at, offsets, records = self.at, self.queue_offsets, []
        for draft in drafts:
            body, queue = draft.body, (draft.topic, draft.queue_id)
            offset = offsets.get(queue, 0)
            offsets[queue] = offset + 1
            topic, properties = draft.topic.encode(), draft.properties
            length, rest = len(body), len(properties) + 20
            size = 91 + length + len(topic) + rest
            head = _pack(
                size, 0xDAA320A7, crc32(body) & 0x7FFFFFFF, draft.queue_id, 0, offset, at, 0,
                draft.born_timestamp, draft.born_host, store_ms, draft.store_host, 0, 0, length,
            )  # fmt: skip
            record = head + body + (b"%c%b" % (len(topic), topic) + _pack_length(rest) + properties)
            records.append(record + (b"\x02%010d\x01#23CRC__" % (crc32(record) & 0x7FFFFFFF))[::-1])
            at += size
        os.pwritev(self.descriptor, records, self.at)
        self.at = at

    def close(self) -> None:
        os.close(self.descriptor)

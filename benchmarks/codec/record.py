"""Encoding a record with its stamp, from what a send request holds to the bytes of the log.

Ours: `stored_properties`, a `Draft`, `encode`. Bare: the same bytes by one function that trusts everything.
"""

import struct
from collections.abc import Callable
from zlib import crc32

from benchmarks.codec.rows import Row, compare
from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import stored_properties

TOPIC = "BenchmarkTopic"
PROPERTIES = (
    "KEYS\x01order-123456\x02UNIQ_KEY\x01C0A80001000018B4AAC2000000000000\x02TAGS\x01TagA\x02WAIT\x01true\x02"
    "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
)
HOST = host_bytes(Host("10.0.0.1", 10911))
NOW = EpochMs(1_700_000_000_000)
QUEUE_OFFSET = QueueOffset(123_456)
PHYSICAL_OFFSET = PhysicalOffset(9_876_543_210)


def ours(body: bytes) -> Callable[[], bytes]:
    def one() -> bytes:
        draft = Draft(TOPIC, 3, body, stored_properties(PROPERTIES), NOW, HOST, HOST)
        return encode(draft, QUEUE_OFFSET, PHYSICAL_OFFSET, NOW)

    return one


def bare(body: bytes) -> Callable[[], bytes]:
    pack_head = struct.Struct(">iIiiiqqiq8sq8siqi").pack
    pack_short = struct.Struct(">h").pack

    def one() -> bytes:
        properties = PROPERTIES.encode()
        topic = TOPIC.encode()
        body_length = len(body)
        properties_length = len(properties) + 20
        record = (
            pack_head(
                91 + body_length + len(topic) + properties_length,
                0xDAA320A7,
                crc32(body) & 0x7FFFFFFF,
                3,
                0,
                QUEUE_OFFSET,
                PHYSICAL_OFFSET,
                0,
                NOW,
                HOST,
                NOW,
                HOST,
                0,
                0,
                body_length,
            )
            + body
            + (b"%c%b" % (len(topic), topic) + pack_short(properties_length) + properties)
        )
        return record + (b"\x02%010d\x01#23CRC__" % (crc32(record) & 0x7FFFFFFF))[::-1]

    return one


def measure() -> list[Row]:
    """Microseconds a record for a small and a middling body."""
    bodies = {"128 B": b"x" * 128, "1 KiB": b"x" * 1024}
    return [compare(f"encode record with stamp, {size}", ours(body), bare(body)) for size, body in bodies.items()]


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: ours {row.ours_us:.2f} us, bare {row.bare_us:.2f} us, ratio {row.ratio:.2f}")

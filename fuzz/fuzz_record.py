"""Records: peek, decode, stamps, records in a row; what is accepted must encode to the same bytes again."""

import struct
from contextlib import suppress
from zlib import crc32

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.errors import ProtocolError
    from firearrow.record.decode import RecordHead, decode, decode_all, peek
    from firearrow.record.encode import Draft, encode
    from firearrow.record.layout import CRC_MASK, MAGIC_V1, MAX_TOPIC_BYTES_V1
    from firearrow.record.properties import StoredProperties
    from tests.unit.record.stamps import check_stamp

from fuzz.record_seeds import records


def target(data: bytes) -> None:
    with suppress(ProtocolError):
        list(decode_all(data))
    # Sizes and checksums put right, so that mutated parts get past them.
    repaired = bytearray(data)
    if len(repaired) >= 4:
        struct.pack_into(">i", repaired, 0, len(repaired))
    head = peek(repaired)
    again = encode_again(repaired, head)
    assert again is None or again == repaired
    struct.pack_into(">i", repaired, 8, crc32(head.body(repaired)) & CRC_MASK)
    decode(repaired, max_body_bytes=1 << 20)
    check_stamp(repaired, head)


def encode_again(buffer: bytearray, head: RecordHead) -> bytes | None:
    """The record written anew from its parts; None where a writer would have chosen another form."""
    if head.magic != MAGIC_V1 and len(head.topic.encode()) <= MAX_TOPIC_BYTES_V1:
        return None
    draft = Draft(
        topic=head.topic,
        queue_id=head.queue_id,
        body=head.body(buffer),
        properties=StoredProperties(head.properties(buffer)),
        born_timestamp=head.born_timestamp,
        born_host=head.born_host,
        store_host=head.store_host,
        flag=head.flag,
        sys_flag=head.sys_flag,
        reconsume_times=head.reconsume_times,
        prepared_transaction_offset=head.prepared_transaction_offset,
    )
    record = encode(draft, head.queue_offset, head.physical_offset, head.store_timestamp, stamped=False)
    return record[:8] + buffer[8:12] + record[12:]


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    list(decode_all(data))


if __name__ == "__main__":
    run(target, seeds=records())

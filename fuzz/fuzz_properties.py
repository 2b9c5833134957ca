"""Properties: storing them changes no value, and storing twice is storing once."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.errors import IllegalMessage, ProtocolError
    from firearrow.record.properties import (
        decode_properties,
        format_properties,
        parse_properties,
        stored_properties,
    )
    from firearrow.record.stamp import stamp_of


def target(data: bytes) -> None:
    properties = decode_properties(data)
    stored = stored_properties(data)
    assert decode_properties(stored) == properties
    assert stored_properties(stored) == stored
    assert parse_properties(format_properties(properties)) == properties


SEEDS = [
    b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02",
    b"TAGS\x01TagA\x02KEYS\x01k1 k2",
    b"TAGS\x01TagA\x02" + stamp_of(123456789),
    b"TAGS\x01TagA" + stamp_of(123456789),
    b"k\x01v\x02TRAN_MSG\x01true\x02",
    b"\x01\x02\x02\x01\x01\x02",
    "中文\x01值\x02".encode(),
    b"a\x01\xff\xfe\x02",
    b"a\x01b\x02" * 200,
]


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    stored_properties(data)
    decode_properties(data)


if __name__ == "__main__":
    run(target, allowed=(ProtocolError, IllegalMessage), seeds=SEEDS, max_len=4096)

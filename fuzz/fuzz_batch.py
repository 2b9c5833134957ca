"""Batches: what is accepted becomes as many records, and decodes to as many messages."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.record.batch import columns_of, decode_batch
    from firearrow.record.decode import decode_all
    from firearrow.record.encode_columns import encode_columns

from fuzz.record_seeds import ENVELOPE, batch


def target(data: bytes) -> None:
    messages = decode_batch(data, "T")
    columns = columns_of(data, 1, 5)
    records, sizes = encode_columns(ENVELOPE, columns, range(7, 7 + len(messages)), 1000, 0)
    assert len(records) == sum(sizes)
    stored = list(decode_all(records))
    assert [m.body for m in stored] == [m.body for m in messages]
    assert [m.properties for m in stored] == [m.properties for m in messages]
    assert [m.queue_offset for m in stored] == list(range(7, 7 + len(messages)))


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    columns_of(data, 1, 5)


if __name__ == "__main__":
    run(target, seeds=[batch(), batch() * 5, batch()[:-1], b""])

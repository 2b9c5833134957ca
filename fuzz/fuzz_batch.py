"""Batches: what is accepted becomes as many records, and decodes to as many messages."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
    from firearrow.record.batch import decode_batch, encode_each, split_batch
    from firearrow.record.decode import decode_all

from fuzz.record_seeds import TEMPLATE, batch


def target(data: bytes) -> None:
    messages = decode_batch(data, "T")
    drafts = split_batch(data, TEMPLATE)
    records = encode_each(drafts, QueueOffset(7), PhysicalOffset(1000), EpochMs(0))
    stored = list(decode_all(b"".join(records)))
    assert [m.body for m in stored] == [m.body for m in messages]
    assert [m.properties for m in stored] == [m.properties for m in messages]
    assert [m.queue_offset for m in stored] == list(range(7, 7 + len(messages)))


if __name__ == "__main__":
    run(target, seeds=[batch(), batch() * 5, batch()[:-1], b""])

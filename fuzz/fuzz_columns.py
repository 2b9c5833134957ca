"""Records as columns: whatever the record decoder makes of a buffer, columns say the same."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.columns import TYPES, Treatment, decode_columns
    from firearrow.columns.wrapped import messages_as_columns
    from firearrow.errors import BadBody, BadRecord
    from firearrow.model.flags import is_wrapped_batch
    from firearrow.record.batch import unwrap
    from firearrow.record.decode import decode_all

import pyarrow as pa

from fuzz.record_seeds import records

LIMIT = 1 << 16
NAMES = [name for name in TYPES if name != "properties"]


def target(data: bytes) -> None:
    try:
        messages = []
        for message in decode_all(data, max_body_bytes=LIMIT):
            messages += unwrap(message) if is_wrapped_batch(message.sys_flag) else [message]
    except (BadRecord, BadBody):
        messages = None
    try:
        batch = decode_columns(data, list(TYPES), broker="b", treatment=Treatment(True, LIMIT))
    except BadRecord:
        assert messages is None
        return
    assert messages is not None
    batch.validate(full=True)
    assert batch.select(NAMES).equals(messages_as_columns(messages, NAMES, "b"))
    found = batch.column("properties").cast(pa.map_(pa.string(), pa.string())).to_pylist()
    assert [dict(pairs) for pairs in found] == [dict(message.properties) for message in messages]


def parse(data: bytes) -> None:
    """Parse as a pipeline does, without the comparisons of the target."""
    decode_columns(data, list(TYPES), broker="b", treatment=Treatment(True, LIMIT))


if __name__ == "__main__":
    run(target, seeds=records(), max_len=4096, compares_arrays=True)

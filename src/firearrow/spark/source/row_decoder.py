"""From the records of a task to rows: joins answers, checks that all offsets are there, cuts Arrow batches.

An offset that an answer covers but does not contain is a loss, unless the broker filters: the record is damaged, or a
compacted topic has dropped it. A batch is limited by its rows, by the bytes of its records, and by the bytes of its
inflated bodies.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from firearrow.errors import BadBody, BadRecord
from firearrow.record.decode import peek
from firearrow.spark.options import DecodingOptions
from firearrow.spark.source.fetch import Records
from firearrow.spark.source.plan import Loss
from firearrow.spark.source.pushdown import wanted_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from firearrow.columns import Heads, Treatment


def treatment(decoding: DecodingOptions) -> "Treatment":
    """Return the treatment of bodies in columns."""
    from firearrow.columns import Treatment

    return Treatment(decoding.check_crc, decoding.max_body_bytes, decoding.keep_bad_bodies, decoding.batch_bytes)


def joined(found: Sequence[Records], most_bytes: int) -> Iterator[list[Records]]:
    """Join answers of one broker, of any queue, because columns are made of many records at once."""
    together: list[Records] = []
    size = 0
    for records in found:
        if not records.body:
            continue
        apart = together and records.span.queue.broker_name != together[0].span.queue.broker_name
        if together and (apart or size + len(records.body) > most_bytes):
            yield together
            together, size = [], 0
        if records.goes_over:
            yield [records]
        else:
            together.append(records)
            size += len(records.body)
    if together:
        yield together


def heads_of(some: Sequence[Records]) -> "Heads":
    """The records of some answers, without those behind the end of their span."""
    # Imported here: planning needs neither numpy nor Arrow.
    from firearrow.columns import Heads, as_bytes, record_starts

    data = as_bytes(some[0].body if len(some) == 1 else b"".join([records.body for records in some]))
    try:
        heads = Heads(data, record_starts(data))
    except BadRecord as wrong:
        queues = ", ".join(dict.fromkeys(f"{each.span.queue.topic}/{each.span.queue.queue_id}" for each in some))
        place = f"from {queues} on {some[0].span.queue.broker_name}, {some[0].begin} to {some[-1].next_offset}"
        raise BadRecord(f"{wrong.reason} (in records {place})", offset=wrong.offset) from wrong
    if some[0].goes_over:
        heads = Heads(data, heads.starts[heads.longs("queue_offset") < some[0].span.end])
    return heads


def gaps(some: Sequence[Records], heads: "Heads") -> list[Loss]:
    """Return the offsets that answers cover but do not contain."""
    import numpy as np

    from firearrow.columns import is_wrapped

    ends = np.cumsum([len(records.body) for records in some])
    edges = np.searchsorted(heads.starts, np.concatenate((np.zeros(1, np.int64), ends)))
    begins = np.array([records.begin for records in some], np.int64)
    counts = np.diff(edges)
    offsets = heads.longs("queue_offset") if len(heads) else np.empty(0, np.int64)
    if (counts == [records.next_offset - records.begin for records in some]).all():
        expected = np.arange(len(offsets)) + np.repeat(begins - edges[:-1], counts)
        if (offsets == expected).all():
            return []
    if is_wrapped(heads).any():  # a record of a whole batch stands for several offsets
        return []
    found: list[Loss] = []
    for number, records in enumerate(some):
        held = offsets[edges[number] : edges[number + 1]]
        missing = np.setdiff1d(np.arange(records.begin, records.next_offset), held)
        runs = np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1) if len(missing) else []
        found += [Loss(records.span.queue, int(run[0]), int(run[-1]) + 1, _GAP) for run in runs]
    return found


_GAP: Final = (
    "the broker hands out the messages around them, but not these: their records are damaged, or the topic is compacted"
)


def rows_of(
    heads: "Heads", columns: Sequence[str], sets: dict[str, frozenset[str]], broker: str, decoding: DecodingOptions
) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of records, in batches of limited size."""
    try:
        yield from wanted_rows(heads, columns, sets, broker=broker, treatment=treatment(decoding))
    except BadRecord as wrong:
        raise _named(wrong, heads, broker) from wrong


WAY_OUT: Final = "Set the option badBodies to keep to read such bodies as they are stored; bit 0 of sys_flag marks them"


def _named(wrong: BadRecord, heads: "Heads", broker: str) -> BadRecord:
    """Return the error with the message it concerns and what can be done."""
    try:
        head = peek(heads.data.data, wrong.offset)
    except BadRecord:
        return wrong
    text = f"offset {head.queue_offset} of {head.topic} on {broker}, queue {head.queue_id}: {wrong.reason}"
    if isinstance(wrong.__cause__, BadBody | BadRecord):
        text += f". {WAY_OUT}" + (", or raise maxBodyBytes" if "limit" in wrong.reason else "")
    return BadRecord(text, offset=wrong.offset)

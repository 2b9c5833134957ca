"""Decodes concatenated records into columns, from a broker's bytes to a table.

``decode_columns`` makes only the requested columns. It agrees with `record.decode.decode_all` on every buffer: the same
rows, or `BadRecord` for the first bad record; parts that are not requested are not checked. A record that holds a whole
batch (`flags.is_wrapped_batch`) is replaced by its messages.

Columns have the names in `row_columns.TYPES`; times are microseconds in UTC, limited to the range of the type.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from firearrow.columns.bodies import Treatment, parts_of
from firearrow.columns.heads import Heads
from firearrow.columns.row_columns import needs_bodies, plain_columns
from firearrow.columns.slices import check_size
from firearrow.columns.starts import Bytes, Ints, record_starts
from firearrow.columns.wrapped import is_wrapped, unwrapped
from firearrow.model.flags import COMPRESSED
from firearrow.record.layout import Buffer


def as_bytes(buffer: Buffer) -> Bytes:
    """Return a buffer as an array, without a copy."""
    data = np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)
    check_size(data)
    return data


def decode_columns(
    buffer: Buffer,
    names: Sequence[str],
    *,
    starts: Ints | None = None,
    broker: str = "",
    treatment: Treatment | None = None,
    blanks: bool = False,
) -> pa.RecordBatch:
    """Return the columns ``names`` of the records in a buffer.

    ``starts`` are the positions of records if they are known, for example from a consume queue; otherwise records fill
    the buffer. With ``blanks`` the fillers of log files are skipped.
    """
    data = as_bytes(buffer)
    heads = Heads(data, record_starts(data, blanks=blanks) if starts is None else starts)
    return columns_of(heads, names, broker=broker, treatment=treatment or Treatment())


def columns_of(heads: Heads, names: Sequence[str], *, broker: str, treatment: Treatment) -> pa.RecordBatch:
    """Return the columns of records with known heads."""
    wrapped = is_wrapped(heads)
    if wrapped.any():
        return unwrapped(heads, wrapped, names, broker=broker, treatment=treatment)
    return plain_columns(heads, names, broker=broker, treatment=treatment)


def batches_of(heads: Heads, names: Sequence[str], *, broker: str, treatment: Treatment) -> Iterator[pa.RecordBatch]:
    """Yield the columns in batches with at most ``treatment.batch_bytes`` of inflated bodies."""
    wrapped = is_wrapped(heads)
    if not needs_bodies(names, treatment):
        yield columns_of(heads, names, broker=broker, treatment=treatment)
    elif wrapped.any():
        for some in _few_compressed(heads, treatment):
            yield columns_of(some, names, broker=broker, treatment=treatment)
    else:
        for some, bodies in parts_of(heads, treatment):
            yield plain_columns(some, names, broker=broker, treatment=treatment, bodies=bodies)


def _few_compressed(heads: Heads, treatment: Treatment) -> Iterator[Heads]:
    """Yield records that hold batches, so few at a time that their inflated bodies fit in any case."""
    most = max(1, treatment.batch_bytes // (treatment.max_body_bytes or treatment.batch_bytes))
    packed = np.cumsum((heads.longs("sys_flag") & COMPRESSED) != 0)
    cuts = np.flatnonzero(np.diff(packed // most)) + 1
    for starts in np.split(heads.starts, cuts):
        yield Heads(heads.data, starts)

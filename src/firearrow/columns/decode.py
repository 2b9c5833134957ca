"""Concatenated records -> columns. The way from a broker's bytes to a table.

``decode_columns`` gives the columns that are asked for and works on nothing else. It agrees with
`record.decode.decode_all` on every buffer: the same rows, or `BadRecord` for the first record that is none; what is
not asked for is not looked at, so a body that is not wanted is not checked. A record that holds a whole batch
(`flags.is_wrapped_batch`) becomes its messages.

Columns have the names in `making.TYPES`; times are microseconds in UTC, the nearest that fits.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from firearrow.columns.bodies import Treatment, parts_of
from firearrow.columns.heads import Heads
from firearrow.columns.making import needs_bodies, plain_columns
from firearrow.columns.slices import check_size
from firearrow.columns.starts import Bytes, Ints, record_starts
from firearrow.columns.wrapped import is_wrapped, unwrapped
from firearrow.model.flags import COMPRESSED
from firearrow.record.layout import Buffer


def as_bytes(buffer: Buffer) -> Bytes:
    """A buffer as an array, not copied."""
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
    """The columns ``names`` of the records in a buffer.

    ``starts`` are places of records where they are known, from a consume queue, say; otherwise records fill the
    buffer. With ``blanks`` the fillers of log files are passed over.
    """
    data = as_bytes(buffer)
    heads = Heads(data, record_starts(data, blanks=blanks) if starts is None else starts)
    return columns_of(heads, names, broker=broker, treatment=treatment or Treatment())


def columns_of(heads: Heads, names: Sequence[str], *, broker: str, treatment: Treatment) -> pa.RecordBatch:
    """The columns of records whose heads are known already."""
    wrapped = is_wrapped(heads)
    if wrapped.any():
        return unwrapped(heads, wrapped, names, broker=broker, treatment=treatment)
    return plain_columns(heads, names, broker=broker, treatment=treatment)


def batches_of(heads: Heads, names: Sequence[str], *, broker: str, treatment: Treatment) -> Iterator[pa.RecordBatch]:
    """The same in batches whose inflated bodies take ``treatment.batch_bytes`` at most."""
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
    """Records of whole batches, so few at a time that they fit whatever they inflate to."""
    most = max(1, treatment.batch_bytes // (treatment.max_body_bytes or treatment.batch_bytes))
    packed = np.cumsum((heads.longs("sys_flag") & COMPRESSED) != 0)
    cuts = np.flatnonzero(np.diff(packed // most)) + 1
    for starts in np.split(heads.starts, cuts):
        yield Heads(heads.data, starts)

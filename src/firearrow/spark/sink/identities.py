"""The identity of each row, by which a consumer can recognise a repeated row. Pure.

It comes from the columns that an option names (one column as text, several as a JSON list of texts), else from the
column ``row_id``, else (or if that is null) from the position of the row and a hash of its body::

    query:batch:partition:ordinal:hash         hash: BLAKE2b of 8 bytes, as hexadecimal digits

Rows that were made of a message, as by ``explode``, have its ``row_id``. Those with the same body are refused.

Invariant: the same row of the same batch always has the same identity. Identities are bytes, as they are sent and
hashed.
"""

from hashlib import blake2b
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firearrow.columns.batch_entries import as_binary, join_columns, of_width, texts_of
from firearrow.errors import SettingsError
from firearrow.spark.sink.rows import Origin, RowShape

HASH_BYTES: Final = 8


def identities_of(
    batch: pa.RecordBatch, bodies: pa.Array, shape: RowShape, origin: Origin, first_ordinal: int
) -> pa.Array:
    """The identity of each row, as bytes."""
    ordinals = np.arange(first_ordinal, first_ordinal + batch.num_rows)
    given = _given(batch, shape)
    if given is None:
        return _made(bodies, origin, ordinals)
    if not shape.identity_columns:
        _require_told_apart(given, bodies)
    missing = pc.fill_null(pc.equal(pc.binary_length(given), 0), fill_value=True)
    if not pc.any(missing).as_py():
        return given
    rows = missing.to_numpy(zero_copy_only=False)
    return pc.replace_with_mask(given, missing, _made(bodies.filter(missing), origin, ordinals[rows]))


def _require_told_apart(row_ids: pa.Array, bodies: pa.Array) -> None:
    """Raise if rows that were made of a message share its ``row_id`` and a body: only the first would be stored."""
    known = row_ids.filter(pc.greater(pc.fill_null(pc.binary_length(row_ids), 0), 0))
    if pc.count_distinct(known).as_py() == len(known):
        return
    pairs = [(name, body) for name, body in zip(row_ids.to_pylist(), bodies.to_pylist(), strict=True) if name]
    if len(set(pairs)) < len(pairs):
        raise SettingsError(
            "several rows have the same row_id and the same body, as after explode or a join: only the first of them "
            "would be stored. Name columns that tell rows apart in the option identityColumns, or drop row_id"
        )


def _made(bodies: pa.Array, origin: Origin, ordinals: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    hashes = b"".join([blake2b(body, digest_size=HASH_BYTES).digest() for body in bodies.to_pylist()])
    place = f"{origin.query}:{origin.batch}:{origin.partition}:"
    return join_columns(place, texts_of(ordinals), ":", of_width(hashes.hex().encode(), 2 * HASH_BYTES))


def _given(batch: pa.RecordBatch, shape: RowShape) -> pa.Array | None:
    names = shape.identity_columns
    if not names:
        return as_binary(batch.column("row_id").cast(pa.string())) if "row_id" in batch.schema.names else None
    if len(names) == 1:
        return as_binary(_texts(batch.column(names[0])))
    columns = [_texts(batch.column(name)).fill_null(str(None)).to_pylist() for name in names]
    return pa.array([msgspec.json.encode(row) for row in zip(*columns, strict=True)], pa.large_binary())


def _texts(column: pa.Array) -> pa.Array:
    """Return values as text, by ``str``; bytes as hexadecimal digits."""
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_string())
    return pa.array([None if value is None else _text(value) for value in column.to_pylist()], pa.large_string())


def _text(value: Any) -> str:  # noqa: ANN401 - any column may be part of an identity
    return value.hex() if isinstance(value, bytes) else str(value)

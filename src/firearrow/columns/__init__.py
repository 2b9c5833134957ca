"""Many records at once as Arrow columns (numpy, pyarrow; extra ``arrow``).

``decode_columns`` is the entry point: it takes a buffer of records and returns the requested columns, with no Python
operation for each record. ``starts`` finds records, ``heads`` reads their fixed fields, ``slices`` copies their parts,
``properties``, ``bodies`` and ``hosts`` make the harder columns, ``wrapped`` handles records that hold a batch.
"""

from firearrow.columns.bodies import Treatment
from firearrow.columns.decode import as_bytes, batches_of, columns_of, decode_columns
from firearrow.columns.heads import Heads
from firearrow.columns.row_columns import TYPES, schema_of
from firearrow.columns.starts import record_starts
from firearrow.columns.wrapped import is_wrapped

__all__ = [
    "TYPES",
    "Heads",
    "Treatment",
    "as_bytes",
    "batches_of",
    "columns_of",
    "decode_columns",
    "is_wrapped",
    "record_starts",
    "schema_of",
]

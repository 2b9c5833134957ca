"""Arrow batches of messages -> batches of typed rows, or of those that are none with their reasons, in Python workers.

Both halves come from one decision (`reader`), so that a row is in exactly one of them. Only columns that were asked for
reach a worker. A worker makes its decoder once for each task.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct

from firearrow.errors import FireArrowError
from firearrow.model.flags import COMPRESSED
from firearrow.spark.bodies.body_format import BodyFormat, decoder
from firearrow.spark.bodies.misfit import DecodedBody, Misfit, shown
from firearrow.spark.bodies.tombstones import Tombstones

Batches = Iterable[pa.RecordBatch]
Key = tuple[str, ...]
REASON: Final = "reason"
NOTHING: Final = (None, b"", b"null")
"""Bodies of tombstones."""


class BodyRefused(FireArrowError):
    """A body is not of the schema, and the error mode is ``fail``."""


class TypedRows(Struct, frozen=True):
    """The function of ``mapInArrow`` for a typed table: columns of the message, then the rest, then the fields."""

    how: BodyFormat
    key: Key
    columns: dict[str, str]
    """Columns of the message that are kept, and their names in the typed table."""
    schema: Any
    fails: bool = False
    """Whether a body that is not of the schema ends the job; else its row is left out."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The rows whose bodies are of the schema."""
        from firearrow.spark.lake.frames import arrow_schema

        read, wanted = reader(self.how, self.key), arrow_schema(self.schema)
        for batch in batches:
            found = [read(*row) for row in _rows(batch)]
            if self.fails:
                _require_all(batch, found)
            yield self._typed(batch, found, wanted)

    def _typed(self, batch: pa.RecordBatch, found: list[DecodedBody | str], wanted: pa.Schema) -> pa.RecordBatch:
        good = [each for each in found if isinstance(each, DecodedBody)]
        kept = batch.filter(pa.array([isinstance(each, DecodedBody) for each in found], pa.bool_()))
        columns = [kept.column(name).cast(wanted.field(typed).type) for name, typed in self.columns.items()]
        columns.append(pa.array([each.rescued for each in good], wanted.types[len(columns)]))
        if self.key:
            columns.append(pa.array([each.is_deleted for each in good], pa.bool_()))
        fields = wanted.types[len(columns) :]
        values = zip(*(each.values for each in good), strict=True) if good else ([] for _ in fields)
        columns += [pa.array(column, kind) for column, kind in zip(values, fields, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=wanted)


class QuarantinedRows(Struct, frozen=True):
    """The function of ``mapInArrow`` for a quarantine: whole rows whose bodies are not of the schema, with a reason."""

    how: BodyFormat
    key: Key

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The rows whose bodies are not of the schema."""
        read = reader(self.how, self.key)
        for batch in batches:
            reasons = [_reason(read(*row)) for row in _rows(batch)]
            kept = batch.filter(pa.array([reason is not None for reason in reasons], pa.bool_()))
            yield kept.append_column(
                REASON, pa.array([reason for reason in reasons if reason is not None], pa.string())
            )


def _reason(found: DecodedBody | str) -> str | None:
    return found if isinstance(found, str) else None


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[bytes | None, int | None, str | None]]:
    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows

    return zip(column("body"), column("sys_flag"), column("keys"), strict=True)


def reader(how: BodyFormat, key: Key) -> Callable[[bytes | None, int | None, str | None], DecodedBody | str]:
    """The decision about a row from its body, flags and KEYS: its values, or why it has none.

    With a key (the columns of rows that change), no column of it may be null, and a message without a body is a
    tombstone.
    """
    decode = decoder(how).decode
    schema = decoder(how).schema
    bury = Tombstones(schema, key).decode if key else None
    places = [(name, schema.fieldNames().index(name)) for name in key]

    def read(body: bytes | None, sys_flag: int | None, keys: str | None) -> DecodedBody | str:
        if not body and bury is None:
            return "the body is empty"
        if (sys_flag or 0) & COMPRESSED:
            return "the body is compressed and does not inflate; it stands here as it is stored"
        try:
            found = bury(keys) if bury is not None and body in NOTHING else decode(body or b"")
        except Misfit as wrong:
            return str(wrong)
        except RecursionError:
            return "the body is nested too deeply"
        except (ArithmeticError, UnicodeError) as wrong:
            return f"the body has a value that cannot be read: {shown(wrong) or type(wrong).__name__}"
        lacking = next((name for name, place in places if not _is_key(found.values[place])), None)
        if lacking is None:
            return found
        return f"field {lacking} is a part of the key and must not be null, missing or NaN"

    return read


def _is_key(value: Any) -> bool:  # noqa: ANN401 - of any column
    return value is not None and value == value


def _require_all(batch: pa.RecordBatch, found: list[DecodedBody | str]) -> None:
    for number, each in enumerate(found):
        if isinstance(each, str):
            names = [name for name in ("topic", "broker", "queue_id", "queue_offset") if name in batch.schema.names]
            place = ", ".join(f"{name} {batch.column(name)[number].as_py()}" for name in names)
            raise BodyRefused(
                f"a body is not of the schema: {each} ({place}). Nothing of its batch was written. Mend the schema and "
                "start again with the same checkpoint, or choose --on-error quarantine"
            )

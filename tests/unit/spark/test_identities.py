"""The identity of a row: from columns, from its own, from its place."""

from hashlib import blake2b

import pyarrow as pa
import pytest

from firearrow.errors import SettingsError
from firearrow.spark.sink.identities import identities_of
from firearrow.spark.sink.rows import Origin, RowShape, bodies_of

ORIGIN = Origin("query", 7, 3)
ROWS = pa.RecordBatch.from_pydict(
    {"body": [b"x", b"y"], "a": ["k1", None], "n": [1, 2], "raw": [b"\xff", b"\x01"], "row_id": ["r", None]}
)


def ids(shape: RowShape, rows: pa.RecordBatch = ROWS, first: int = 10, origin: Origin = ORIGIN) -> list[str]:
    found: list[bytes] = identities_of(rows, bodies_of(rows), shape, origin, first).to_pylist()
    return [each.decode() for each in found]


def made(ordinal: int, body: bytes) -> str:
    return f"query:7:3:{ordinal}:{blake2b(body, digest_size=8).hexdigest()}"


def test_they_come_from_the_columns_that_are_named() -> None:
    assert ids(RowShape("t", ("n",))) == ["1", "2"]
    assert ids(RowShape("t", ("raw",))) == ["ff", "01"]
    assert ids(RowShape("t", ("a", "n", "raw"))) == ['["k1","1","ff"]', '["None","2","01"]']
    assert ids(RowShape("t", ("a",))) == ["k1", made(11, b"y")]


def test_else_from_the_row_id_and_else_from_place_and_content() -> None:
    assert ids(RowShape("t")) == ["r", made(11, b"y")]
    assert ids(RowShape("t"), ROWS.drop_columns(["row_id"])) == [made(10, b"x"), made(11, b"y")]
    empty = ROWS.set_column(4, "row_id", pa.array(["", "s"]))
    assert ids(RowShape("t"), empty) == [made(10, b"x"), "s"], "an empty one is none"


def test_rows_of_one_message_with_one_body_are_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"body": [b"x", b"y", b"x"], "row_id": ["r", "r", None]})
    assert ids(RowShape("t"), rows) == ["r", "r", made(12, b"x")], "the broker tells bodies apart"
    twice = rows.set_column(1, "row_id", pa.array(["r", "s", "r"]))
    with pytest.raises(SettingsError, match="only the first of them would be stored"):
        ids(RowShape("t"), twice)
    assert ids(RowShape("t", ("row_id",)), twice) == ["r", "s", "r"], "asked for by name"


def test_parts_of_a_batch_have_the_identities_of_the_whole() -> None:
    whole = ids(RowShape("t"))
    assert ids(RowShape("t"), ROWS.slice(0, 1)) + ids(RowShape("t"), ROWS.slice(1), 11) == whole

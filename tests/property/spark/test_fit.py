"""Any two schemas: what the comparison promises about the table that takes the rows."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.spark.lake import delta_log, fit

LEAVES = st.sampled_from(
    [
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.bool_(),
        pa.date32(), pa.timestamp("us", "UTC"), pa.decimal128(6, 2), pa.decimal128(9, 2), pa.decimal128(9, 4),
        pa.large_string(),
    ]
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c", "d", "B"])


def fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    one = st.builds(pa.field, NAMES, types, nullable=st.sampled_from([True, True, True, False]))
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda field: field.name.lower())


TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        fields(inner).map(pa.struct), inner.map(pa.list_), st.builds(pa.map_, st.just(pa.string()), inner)
    ),
    max_leaves=4,
)
SCHEMAS = fields(TYPES).map(pa.schema)
WIDENINGS = st.sampled_from([fit.iceberg_widening, fit.delta_widening, fit.no_widening])


@given(SCHEMAS, WIDENINGS)
def test_rows_fit_a_table_of_their_own_schema(schema: pa.Schema, widening: fit.Widening) -> None:
    found = fit.compare(schema, schema, widening)
    assert not found.is_change
    assert (found.wrong, found.cast) == ((), ())
    assert found.target == pa.schema([field.with_type(fit.plain(field.type)) for field in schema])


@given(SCHEMAS, SCHEMAS, WIDENINGS)
def test_the_target_takes_the_rows_and_all_that_the_table_took(
    rows: pa.Schema, table: pa.Schema, widening: fit.Widening
) -> None:
    found = fit.compare(rows, table, widening)
    assert found.target.names[: len(table.names)] == table.names
    assert all(field.nullable for field in list(found.target)[len(table.names) :])
    if found.wrong:
        return
    again = fit.compare(rows, found.target, fit.no_widening)
    assert not again.is_change
    assert again.wrong == ()
    older = fit.compare(table, found.target, fit.no_widening)
    assert not older.is_change
    assert older.wrong == ()
    if not found.is_change:
        assert found.target == pa.schema([field.with_type(fit.plain(field.type)) for field in table])


@given(SCHEMAS, SCHEMAS)
def test_whatever_differs_is_told_or_needs_nothing(rows: pa.Schema, table: pa.Schema) -> None:
    found = fit.compare(rows, table, fit.no_widening)
    if not (found.wrong or found.added):
        fit.require(found, "fail", "t")
        assert set(rows.names) <= set(table.names)
        return
    with pytest.raises(fit.DoesNotFit) as caught:
        fit.require(found, "fail", "t")
    assert len(str(caught.value).splitlines()) == 3


@given(LEAVES, LEAVES, LEAVES)
def test_wider_is_an_order(one: pa.DataType, two: pa.DataType, three: pa.DataType) -> None:
    assert not (fit.is_wider(one, two) and fit.is_wider(two, one))
    if fit.is_wider(one, two) and fit.is_wider(two, three):
        assert fit.is_wider(one, three)


@given(SCHEMAS, SCHEMAS)
def test_a_log_of_delta_gets_the_columns_of_the_target(rows: pa.Schema, table: pa.Schema) -> None:
    from deltalake import Schema

    found = fit.compare(rows, table, fit.no_widening)
    if found.wrong:
        return
    text = delta_log.evolved(Schema.from_arrow(table).to_json(), found.added)
    assert json.loads(text) == json.loads(Schema.from_arrow(found.target).to_json())

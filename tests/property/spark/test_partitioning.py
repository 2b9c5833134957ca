"""Rows cut by partitions: every row is in the partition that Iceberg's own functions give it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, LongType, StringType, TimestamptzType

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake import partitioning
from firearrow.spark.lake.partitioning import PartitionRule, parse, told

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("n", pa.int64()), ("topic", pa.string()), ("at", pa.timestamp("us", "UTC"))])
KINDS: dict[str, IcebergType] = {"n": LongType(), "topic": StringType(), "at": TimestamptzType()}
RULES = st.lists(
    st.one_of(
        st.sampled_from(["n", "topic"]).map(PartitionRule),
        st.sampled_from(partitioning.TIMES).map(lambda part: PartitionRule("at", part)),
        st.builds(
            lambda name, n: PartitionRule(name, f"bucket[{n}]"),
            st.sampled_from(["n", "topic", "at"]),
            st.integers(1, 9),
        ),
        st.builds(
            lambda name, n: PartitionRule(name, f"truncate[{n}]"), st.sampled_from(["n", "topic"]), st.integers(1, 9)
        ),
    ),
    max_size=3,
    unique=True,
).map(tuple)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-50, 50),
            "topic": st.none() | st.text(st.sampled_from("aé𝄞b"), max_size=4),
            "at": st.none() | st.integers(-(10**6), 10**9).map(lambda s: EPOCH + timedelta(seconds=s * 7)),
        }
    ),
    max_size=30,
)


def internal(value: Any) -> Any:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


@given(RULES, ROWS)
def test_rows_are_where_iceberg_looks_for_them(rules: tuple[PartitionRule, ...], rows: list[dict[str, Any]]) -> None:
    found = list(partitioning.cut(pa.Table.from_pylist(rows, schema=SCHEMA), rules))
    assert sum(part.num_rows for _, part in found) == len(rows)
    assert len({key for key, _ in found}) == len(found)
    functions = [parse_transform(rule.transform).transform(KINDS[rule.column]) for rule in rules]
    for key, part in found:
        values = partitioning.iceberg_values(rules, key)
        for row in part.to_pylist():
            wanted = [f(internal(row[rule.column])) for rule, f in zip(rules, functions, strict=True)]
            assert values == wanted


@given(RULES)
def test_rules_are_read_as_they_are_told(rules: tuple[PartitionRule, ...]) -> None:
    assert parse(told(rules)) == rules


def test_rules_as_users_write_them() -> None:
    wanted = (
        PartitionRule("store_timestamp", "day"),
        PartitionRule("topic"),
        PartitionRule("keys", "bucket[16]"),
        PartitionRule("topic", "truncate[4]"),
    )
    assert parse("day(store_timestamp), topic, bucket(16, keys),truncate( 4,topic )") == wanted
    assert parse("days(store_timestamp), `topic`, BUCKET(16, keys), truncate(4, topic)") == wanted
    assert parse("") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("week(at)", "no transform 'week'; they are identity, year, month, day, hour, bucket, truncate"),
        ("bucket(at)", r"write bucket\(16, at\)"),
        ("bucket(0, at)", r"write bucket\(16, at\)"),
        ("day(3, at)", r"write day\(at\)"),
        ("day(at", "no partition"),
        ("day at", "no partition"),
    ],
)
def test_rules_that_are_none(text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        parse(text)


def test_columns_of_delta_stand_for_parts_of_times() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("at_day", pa.date32()), ("at_hour", pa.int32())])
    assert partitioning.derived(PartitionRule("at", "day")) == "at_day"
    assert partitioning.underived("at_day", schema, ["at"]) == PartitionRule("at", "day")
    assert partitioning.underived("at_day", schema, ["at", "at_day"]) == PartitionRule("at_day"), (
        "the rows have it themselves"
    )
    assert partitioning.underived("at_hour", schema, ["at"]) == PartitionRule("at_hour"), "another type: another column"
    with pytest.raises(Unsupported, match=r"Delta has no partitions by bucket\(4, n\)"):
        partitioning.derived(PartitionRule("n", "bucket[4]"))

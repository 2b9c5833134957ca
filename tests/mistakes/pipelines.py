"""Mistakes with ``firearrow pipeline`` that are told before Spark starts."""

from typing import Final

from tests.mistakes.case import Case

PIPELINES: Final = [
    Case(
        "upkeep of a table without a step",
        "maintain",
        "nothing to do",
        "give --compact",
        words="pipeline maintain --format delta --location /lake/t",
    ),
    Case(
        "orphan files that are too young",
        "--orphans",
        "may belong to a batch",
        "at least 1h",
        words="pipeline maintain --format delta --location /lake/t --orphans 1s",
    ),
    Case(
        "upkeep of plain Parquet",
        "plain Parquet",
        "no commits",
        "use iceberg or delta",
        words="pipeline maintain --format parquet --location /lake/t --compact",
    ),
    Case(
        "a format of tables that is not known",
        "'orc'",
        "--format is one of",
        "parquet, iceberg, delta",
        words="pipeline maintain --format orc --location /lake/t --compact",
    ),
]

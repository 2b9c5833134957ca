"""Queries begin one after the other, and again if Spark gave their Python worker too little time."""

from typing import cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.query import StreamingQuery

from firearrow.spark.explanation import NO_WORKER, explain
from firearrow.spark.pipelines import starting

FIRST = "Initializing StreamExecution"
SECOND = "Initializing sources"


class Query:
    """A query with Spark's states: it initializes for a few looks, then runs, or fails and ends one look later."""

    def __init__(self, looks: int, failure: str = "") -> None:
        self.looks = looks
        self._failure = failure
        last = "Terminated with exception" if failure else "Processing new data"
        self._states = [FIRST, *[SECOND] * (looks - 2), last]

    @property
    def status(self) -> dict[str, str]:
        assert self.looks, "it has settled"
        self.looks -= 1
        return {"message": self._states.pop(0)}

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return not (self._failure and not self.looks)

    def exception(self) -> RuntimeError | None:
        return RuntimeError(self._failure) if self._failure else None


def begun(queries: list[Query], monkeypatch: pytest.MonkeyPatch) -> int:
    """Start the first of some queries that runs; return how many were begun."""
    monkeypatch.setattr(starting, "LOOK_S", 0.001)
    left = list(queries)
    starting.started(lambda: cast("StreamingQuery", left.pop(0)))
    return len(queries) - len(left)


def test_a_query_has_its_worker_before_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(5)
    assert begun([query], monkeypatch) == 1
    assert query.looks == 0


def test_a_query_whose_worker_did_not_connect_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    late = f"Job aborted: org.apache.spark.SparkException: {NO_WORKER}."
    assert begun([Query(3, late), Query(2, late), Query(2)], monkeypatch) == 3
    assert begun([Query(5, late), Query(2)], monkeypatch) == 2


def test_a_query_that_fails_for_another_reason_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert begun([Query(2, "data was lost"), Query(2)], monkeypatch) == 1


def test_the_failure_says_what_to_do() -> None:
    said = explain(RuntimeError(f"org.apache.spark.SparkException: {NO_WORKER}.\n at java"))
    assert said.is_known
    assert "start the command again" in said.text

"""Progress and the page of an audit, without Spark."""

import json
import urllib.request

import pytest

from firearrow.errors import SettingsError
from firearrow.runtime.exposition import as_text
from firearrow.spark.pipelines.audit_page import page
from firearrow.spark.pipelines.exposition import families, serve
from firearrow.spark.pipelines.progress import WatchedQueries, read_progress


def report(batch: int, rows: int, end: int = 90, latest: int = 100) -> dict[str, object]:
    marks = {"orders": {"broker-a": {"0": 1_790_000_000_000}}}
    ends = [{"orders": {"broker-a": {"0": offset, "1": 5}}} for offset in (end, latest)]
    beside = {"@stored": marks, "@placed": {"orders": {"broker-a": {"0": 77}}}, "@lives": {"orders": {"broker-a": 1}}}
    offsets = [json.dumps({**ends[0], **beside}), json.dumps(ends[1])]
    source = {"endOffset": offsets[0], "latestOffset": offsets[1]}
    return {
        "id": "q1", "name": "archive-bronze", "batchId": batch, "numInputRows": rows, "batchDuration": 2000,
        "sources": [source], "timestamp": f"2026-11-17T02:00:{batch:02}Z",
        "observedMetrics": {"firearrow": {"rows": 7}},
        "durationMs": {"addBatch": 900, "walCommit": 100, "commitOffsets": 50, "queryPlanning": 400},
    }  # fmt: skip


def test_progress_counts_rows_and_lag_of_every_queue() -> None:
    seen = read_progress(report(3, 1000))
    assert (seen.batch, seen.rows, seen.rows_per_second, seen.lag) == (3, 1000, 500.0, 10)
    assert [(queue.queue, queue.lag) for queue in seen.queues] == [("orders/broker-a/0", 10), ("orders/broker-a/1", 0)]
    assert "lag 10 in 2 queues" in seen.line()


def test_offsets_may_come_as_objects() -> None:
    given = report(0, 1)
    given["sources"] = [{"endOffset": {"t": {"b": {"0": 1}}}, "latestOffset": None}]
    assert read_progress(given).lag == 0


def test_through_connect_sources_alone_say_how_many_rows() -> None:
    given = report(0, 1)
    del given["numInputRows"]
    given["sources"] = [{"endOffset": None, "numInputRows": 7}, {"endOffset": None, "numInputRows": 5}]
    assert read_progress(given).rows == 12


def test_a_batch_is_told_once_and_idle_ones_never() -> None:
    watched = WatchedQueries()
    assert [batch.batch for batch in watched.fresh("q", [report(0, 5), report(1, 5)])] == [0, 1]
    assert watched.fresh("q", [report(0, 5), report(1, 5), report(2, 0)]) == []
    assert watched.latest["q"].batch == 2
    assert [batch.batch for batch in watched.fresh("q", [report(2, 4)])] == [2]


def test_the_lag_in_seconds_counts_from_the_last_read_message_while_there_are_unread_ones() -> None:
    seen = read_progress(report(3, 1000))
    assert [queue.seconds(1_790_000_012.5) for queue in seen.queues] == [12.5, 0.0]
    assert read_progress(report(3, 1000, end=100)).queues[0].seconds(1_790_000_012.5) == 0.0
    assert (seen.written, seen.commit_seconds) == (7, 1.05)


def test_a_query_is_alive_while_it_reports_or_is_idle() -> None:
    watched = WatchedQueries()
    watched.begin("q1", "archive-bronze", 100.0)
    state = watched.queries["q1"]
    assert (state.is_active, state.seen_s, state.reported_s) == (True, 100.0, 100.0)
    for now_s in (110.0, 120.0):  # the same reports again: no progress
        watched.fresh("q1", [report(0, 5), report(1, 5)], now_s)
        watched.saw("q1", now_s, is_active=True)
    assert (state.seen_s, state.reported_s) == (120.0, 110.0)
    watched.idle("q1", 130.0)
    assert state.reported_s == 130.0
    watched.saw("q1", 140.0, is_active=False)
    assert (state.is_active, state.seen_s) == (False, 130.0)
    assert (state.batches, state.rows, state.written) == (2, 10, 14)
    assert watched.summary(2.0) == ["archive-bronze: 10 rows read, 14 written in 2 batches, 2.0 s; lag 10"]


def test_metrics_name_the_query_and_the_queue() -> None:
    watched = WatchedQueries()
    watched.fresh("q1", [report(3, 1000)], 5.0)
    text = as_text(families(watched, 1_790_000_060.0))
    for line in (
        'firearrow_pipeline_active{query="archive-bronze"} 1.0',
        'firearrow_pipeline_rows_total{query="archive-bronze"} 1000',
        'firearrow_pipeline_lag_messages{query="archive-bronze",queue="orders/broker-a/0"} 10.0',
        'firearrow_pipeline_lag_seconds{query="archive-bronze",queue="orders/broker-a/0"} 60.0',
        "# TYPE firearrow_pipeline_rows_total counter",
    ):
        assert line in text.splitlines()


def test_metrics_over_http_are_those_of_the_file() -> None:
    watched = WatchedQueries()
    watched.fresh("q1", [{**report(3, 1000), "name": 'a "b"\\c-quarantine'}], 5.0)
    served = serve(watched, "127.0.0.1:0", lambda: 1_790_000_060.0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=10) as answer:
            found = answer.read().decode()
    finally:
        served.close()
    assert samples(found) == samples(as_text(families(watched, 1_790_000_060.0)))
    assert any(name.startswith("firearrow_pipeline_quarantined_rows_total") for name in samples(found))


def samples(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_an_address_that_is_taken_is_refused() -> None:
    served = serve(WatchedQueries(), "127.0.0.1:0", lambda: 0.0)
    try:
        with pytest.raises(SettingsError, match="cannot be served"):
            serve(WatchedQueries(), f"127.0.0.1:{served.port}", lambda: 0.0)
    finally:
        served.close()


def test_the_page_has_a_bar_for_every_kind_that_was_found_and_escapes_names() -> None:
    row = {
        "topic": "<t>", "hour": "2026-01-01 00:00", "sent": 5, "stored": 4,
        "lost": 2, "duplicated": 0, "late": 1, "reordered": 0, "unread": 0,
    }  # fmt: skip
    made = page([row])
    assert made.count("<rect") == 2
    assert "2 lost" in made
    assert "&lt;t&gt;" in made
    assert "<t>" not in made
    assert page([]).startswith("<!doctype html>")


def test_a_batch_without_rows_is_told_once_if_its_end_moved() -> None:
    watched = WatchedQueries()
    seen = [report(0, 5, end=10), report(1, 0, end=50), report(2, 0, end=90)]
    assert [batch.ends["orders/broker-a/0"] for batch in watched.fresh("q", seen)] == [10, 50, 90]
    assert watched.fresh("q", seen) == []
    assert watched.queries["q"].batches == 1

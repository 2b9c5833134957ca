"""Progress and the page of an audit, without Spark."""

import json

from firearrow.spark.pipelines.audit_page import page
from firearrow.spark.pipelines.progress import Watched, metrics, read_progress


def report(batch: int, rows: int, end: int = 90, latest: int = 100) -> dict[str, object]:
    marks = {"orders": {"broker-a": {"0": 1_790_000_000_000}}}
    ends = [{"orders": {"broker-a": {"0": offset, "1": 5}}} for offset in (end, latest)]
    offsets = [json.dumps({**ends[0], "@stored": marks}), json.dumps(ends[1])]
    source = {"endOffset": offsets[0], "latestOffset": offsets[1]}
    return {
        "id": "q1", "name": "archive-bronze", "batchId": batch, "numInputRows": rows, "batchDuration": 2000,
        "sources": [source],
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
    watched = Watched()
    assert [batch.batch for batch in watched.fresh("q", [report(0, 5), report(1, 5)])] == [0, 1]
    assert watched.fresh("q", [report(0, 5), report(1, 5), report(2, 0)]) == []
    assert watched.latest["q"].batch == 2
    assert [batch.batch for batch in watched.fresh("q", [report(2, 4)])] == [2]


def test_metrics_name_the_query_and_the_queue() -> None:
    text = metrics([read_progress(report(3, 1000))])
    assert 'firearrow_archive_lag{query="archive-bronze"} 10' in text
    assert 'firearrow_archive_queue_lag{query="archive-bronze",queue="orders/broker-a/0"} 10' in text


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

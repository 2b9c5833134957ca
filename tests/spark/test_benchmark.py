"""The parts of the benchmark that need no Spark: goals are judged by medians, the page is whole, stores are real."""

from pathlib import Path

from benchmarks.spark import largestore
from benchmarks.spark.figures import Figures, Turn
from benchmarks.spark.page import page
from benchmarks.spark.report import PARTS, goals
from benchmarks.spark.rows import ROWS
from firearrow.spark.options import store_options
from firearrow.spark.source.store_files import StoreReader


def figures(**seconds: list[float]) -> Figures:
    """Turns of a million rows that took so long, a CPU second each."""
    turns = {
        name.replace("_", "-"): [Turn(each, 1.0, 0.5, 1_000_000, 1, each) for each in took]
        for name, took in seconds.items()
    }
    return Figures(1_000_000, ["a machine"], {}, turns)


def test_goals_are_judged_by_medians_and_cpu() -> None:
    found = figures(store_100=[1.0, 9.0, 1.0], kafka_100=[2.0, 2.0, 2.0], live_100=[1.9, 1.9, 1.9])
    lines = "\n".join(goals(found))
    assert "| store-100 | kafka-100 | 2.00x, no more CPU | 2.00x | 1.00x | reached |" in lines
    assert "| live-100 | kafka-100 | 1.50x, no more CPU | 1.05x | 1.00x | missed |" in lines


def test_more_cpu_misses_a_goal() -> None:
    found = figures(store_100=[1.0], kafka_100=[4.0])
    found.turns["store-100"][0].spark_cpu_s = 1.1
    assert goals(found)[-1].endswith("| 4.00x | 1.10x | missed |")


def test_page_has_every_part_with_and_without_figures(tmp_path: Path) -> None:
    measured = figures(store_100=[1.0, 2.0, 3.0])
    measured.write(tmp_path / "figures.json")
    again = Figures.read(tmp_path / "figures.json")
    assert again == measured
    for each in (Figures(), again):
        text = page(each)
        assert all(f"## {title}" in text for title in PARTS.values())
    assert "| store files -> noop | 100 | 500 | 333-1,000 | 500 | 1.00 | 0.50 |" in page(again)


def test_rows_go_by_their_names_and_every_part_has_some() -> None:
    assert all(row.name == name for name, row in ROWS.items())
    assert {row.part for row in ROWS.values()} == set(PARTS)


def test_large_store_is_read_as_any_other(tmp_path: Path) -> None:
    largestore.make_store(tmp_path, 20_001, 64)
    reader = StoreReader(store_options({"path": str(tmp_path)}), ("queue_id", "queue_offset", "keys", "body"))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert len(rows) == 20_001
    numbers = {row["queue_offset"] * largestore.QUEUES + row["queue_id"]: row for row in rows}
    assert sorted(numbers) == list(range(20_001))
    assert all(int(row["keys"]) == number and len(row["body"]) == 64 for number, row in numbers.items())

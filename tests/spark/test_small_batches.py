"""The campaign of small batches, short: it goes on where it stopped, and sees rows that are lost or there twice."""

from pathlib import Path

import pytest

from firearrow.spark.lake.sink import committer
from firearrow.spark.upkeep.maintain import maintain
from firearrow.spark.upkeep.work import Upkeep
from tests.spark import small_batches
from tests.spark.small_batches import ROWS, Day, commit


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_a_few_batches_with_upkeep_beside(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_batches, "UPKEEP_EVERY", 6)
    Day(form, tmp_path).run(8)
    day = Day(form, tmp_path)
    day.run(13)
    verdict = day.verdict()
    assert (verdict["commits"], verdict["rows"], verdict["upkeeps"]) == (13, 13 * ROWS, 2)
    assert day.faults(verdict) == []
    live = committer(day.table).live_files(day.table)
    assert len(live.whole) + len(live.bare) < 13

    list(maintain(day.table, Upkeep(delete_where="queue_offset = 7"), 0))
    monkeypatch.setattr(small_batches, "WRITER", "another")
    commit(day.table, 1)
    monkeypatch.setattr(small_batches, "WRITER", "small-batches")
    spoiled = day.verdict()
    assert (spoiled["lost"], spoiled["twice"]) == (2, 2 * ROWS), "of two readers each"
    assert len(day.faults(spoiled)) == 2

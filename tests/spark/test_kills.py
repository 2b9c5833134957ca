"""A slice of the kills: driver, executor and broker at random points; nothing lost, nothing twice, in any format."""

import sys
from pathlib import Path

import pytest

from campaigns.rotation import turn
from tests.spark.kills import FORMATS, Campaign, faults

POINTS = 12
SECONDS = 600


@pytest.mark.timeout(900)
def test_nothing_is_lost_or_doubled_over_kills(tmp_path: Path) -> None:
    seed = turn() or 0
    verdict = Campaign(tmp_path, seed, FORMATS, sys.executable, []).run(POINTS, SECONDS)
    assert faults(verdict) == [], f"seed {seed}: {verdict}"
    assert verdict["points"] >= POINTS
    assert all(verdict["kills"].values()), verdict

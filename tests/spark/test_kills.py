"""A slice of the kills of driver, executor and broker: nothing lost, nothing twice, in tables or in a topic.

Runs take turns: archives of messages as they are, archives whose schema of bodies changes,
tables by key, and a sink.
"""

import sys
from pathlib import Path

import pytest

from campaigns.rotation import this_turn, turn
from tests.spark.kills import CHANGING, FORMATS, SINK, UPSERTS, Campaign, faults

POINTS = {FORMATS: 12, CHANGING: 12, UPSERTS: 12, SINK: 6}
SECONDS = 600


@pytest.mark.timeout(900)
@pytest.mark.rotating
@pytest.mark.parametrize("formats", this_turn(list(POINTS), __name__))
def test_nothing_is_lost_or_doubled_over_kills(tmp_path: Path, formats: str) -> None:
    seed = turn() or 0
    verdict = Campaign(tmp_path, seed, formats, sys.executable, []).run(POINTS[formats], SECONDS)
    assert faults(verdict) == [], f"seed {seed}: {verdict}"
    assert verdict["points"] >= POINTS[formats]
    assert all(verdict["kills"].values()), verdict

"""The disk refuses calls, fills up, and lies; the whole of it is ``python -m campaigns.faults refuse``."""

import os

import pytest

from campaigns.rotation import this_turn
from tests.integration.store.conftest import PATIENCE, Campaign, need

pytestmark = pytest.mark.timeout(PATIENCE)
PARTS = 12


@pytest.mark.real
@pytest.mark.rotating
@pytest.mark.parametrize("part", this_turn(range(PARTS), __name__))
def test_a_slice_of_all_refusals(campaign: Campaign, part: int) -> None:
    figures = campaign("refuse", "--part", f"{part}/{PARTS}")
    assert sum(piece["covered"] for piece in figures) > 100
    assert all(piece["covered"] == piece["points"] for piece in figures)
    assert sum(piece["lost"] + piece["refused_and_found"] for piece in figures) == 0
    assert sum(piece["promised_after_failed_flush"] for piece in figures) == 0


@pytest.mark.real
def test_a_full_disk_and_a_lying_one(campaign: Campaign) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    need("mkfs.ext4", "mount")
    by_sync, by_interval, lying = campaign("full")
    for figures in (by_sync, by_interval):
        assert figures["refused"] > 0
        assert figures["read_while_full"] > figures["promised"]
        assert figures["lost"] == 0
    assert lying["outcome"] == "StoreFenced"
    assert lying["lost"] == 0

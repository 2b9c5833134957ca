"""Bytes of a real store turned over; the whole of it is ``python -m campaigns.faults rot``."""

import pytest

from campaigns.faults.rot import Rotting
from tests.integration.store.conftest import PATIENCE, Campaign

pytestmark = pytest.mark.timeout(PATIENCE)
PARTS = 199
"""A prime, so that every part comes round, whichever of the commits this file has."""


@pytest.mark.real
def test_a_slice_of_all_bytes(campaign: Campaign, sample: int) -> None:
    for figures in campaign("rot", "--part", f"{sample % PARTS}/{PARTS}"):
        assert figures["bytes"] > 100
        spoilt = figures["records_spoilt"]
        assert spoilt > 10
        for how in ("recovery", "cold_read", "scrub", "verify"):
            assert figures[f"found_by_{how}"] == spoilt
        assert figures["wrong_bytes_served"] == figures["good_records_lost"] == 0


@pytest.mark.real
def test_index_entries_of_a_killed_store() -> None:
    rotting = Rotting(1, closed=False)
    figures = rotting.run(4, 20, below="index/")
    assert figures["bytes"] > 80
    assert rotting.broken == []

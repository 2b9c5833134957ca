"""``kill -9`` at the system calls of the write path; the whole of it is ``python -m campaigns.faults kill``."""

import asyncio
import tempfile
from collections.abc import Collection

import pytest

from campaigns.faults.acks import parse_acks
from campaigns.faults.checker import check
from campaigns.faults.intercept.filters import WRITES
from campaigns.faults.intercept.interception import run_intercepted
from campaigns.faults.intercept.strace import killed_by_strace, traced_calls, unknown_calls
from campaigns.faults.recipe import Recipe
from campaigns.faults.session import NEVER_MS, Options
from campaigns.faults.writer import live
from campaigns.rotation import this_turn
from tests.integration.store.conftest import PATIENCE, Campaign, need

pytestmark = pytest.mark.timeout(PATIENCE)
PARTS = 16
LIFE = ("--route", "inline", "--count", "30", "--lives", "2", "--segment-bytes", "16384", "--settled")


@pytest.mark.real
@pytest.mark.rotating
@pytest.mark.parametrize("part", this_turn(range(PARTS), __name__))
def test_a_slice_of_all_points(campaign: Campaign, part: int) -> None:
    figures = campaign("kill", "--part", f"{part}/{PARTS}")
    assert all(piece["covered"] == piece["points"] > 0 for piece in figures)
    assert sum(piece["lost"] for piece in figures) == 0


@pytest.mark.real
def test_strace_sees_the_same_calls() -> None:
    need("strace")
    with tempfile.TemporaryDirectory() as scratch:
        seen = traced_calls(f"{scratch}/strace", *LIFE)
        options = Options(root=f"{scratch}/ours", segment_bytes=16_384, dispatch_ms=NEVER_MS)

        def run_life() -> None:
            asyncio.run(live(options, Recipe(1), lambda _: None, first=0, count=30, inflight=1, lives=2))

        ours = run_intercepted(lambda _: run_life(), options.root, lambda _: None)
    assert unknown_calls(seen) == []
    counts = {call: sum(1 for point in ours.points if point.call == call) for call in seen}
    # The flush slot is synced every second, and segments are made ahead or in place, as it happens.
    assert all(abs(counts[call] - number) <= max(3, number // 4) for call, number in seen.items()), (seen, counts)
    assert counts["ftruncate"] > 0


@pytest.mark.real
@pytest.mark.parametrize(
    ("calls", "share"), [(WRITES, 0.4), (("fdatasync",), 0.6), (("rename",), 0.3), (("fsync",), 0.8)]
)
def test_killed_by_strace(calls: Collection[str], share: float) -> None:
    need("strace")
    with tempfile.TemporaryDirectory() as scratch:
        seen = traced_calls(f"{scratch}/whole", *LIFE)
        call = max(calls, key=lambda name: seen[name])
        said, died = killed_by_strace(f"{scratch}/store", call, max(1, int(seen[call] * share)), *LIFE)
        assert died
        options = Options(root=f"{scratch}/store", segment_bytes=16_384)
        findings = asyncio.run(check(options, Recipe(1), parse_acks(said)))
    assert findings.good, findings.story()

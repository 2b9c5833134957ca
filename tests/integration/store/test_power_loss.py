"""The power of real file systems is cut; more are ``python -m campaigns.faults power`` and ``... cut``."""

from itertools import product

import pytest

from campaigns.faults.cuts import Cutting, Life
from campaigns.faults.loop_file_system import FileSystem, missing_tools
from campaigns.rotation import this_turn
from tests.integration.store.conftest import PATIENCE, Campaign

pytestmark = pytest.mark.timeout(PATIENCE)
CYCLES = 15
PARTS = 12


def need_loop(filesystem: FileSystem) -> None:
    missing = missing_tools(filesystem)
    if missing:
        pytest.skip(f"no power to cut here: {', '.join(missing)} missing")


@pytest.mark.real
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_nothing_promised_is_lost(campaign: Campaign, filesystem: FileSystem, flush: str, sample: int) -> None:
    need_loop(filesystem)
    options = ("--filesystem", filesystem, "--flush", flush, "--seed", str(sample % 1000))
    (figures,) = campaign("power", "--cycles", str(CYCLES), *options)
    assert figures["cycles"] == CYCLES
    assert figures["promised"] > 0
    assert flush == "ASYNC_FLUSH" or figures["lost"] == 0


@pytest.mark.real
@pytest.mark.rotating
@pytest.mark.parametrize(("filesystem", "part"), this_turn(list(product(["ext4", "xfs"], range(PARTS))), __name__))
def test_a_slice_of_all_points(campaign: Campaign, filesystem: FileSystem, part: int) -> None:
    need_loop(filesystem)
    figures = campaign("cut", "--filesystem", filesystem, "--part", f"{part}/{PARTS}")
    assert len(figures) == 4
    assert all(piece["covered"] == piece["points"] > 0 for piece in figures)
    assert sum(piece["lost"] for piece in figures if "-sync" in piece["life"]) == 0


@pytest.mark.real
def test_an_acknowledgement_before_the_sync_is_seen(campaign: Campaign) -> None:
    need_loop("ext4")
    options = ("--filesystem", "ext4", "--flush", "SYNC_FLUSH", "--mutant", "ack-before-sync")
    (figures,) = campaign("power", "--cycles", "1", *options)
    assert figures["broken"] == 1


@pytest.mark.real
def test_a_missing_sync_of_a_directory_is_seen() -> None:
    """Only ext4 can show it: a sync of a file brings its new name along on xfs."""
    need_loop("ext4")
    cutting = Cutting(Life("ext4", "SYNC_FLUSH", quiet=True), seed=1, mutant="no-directory-sync")
    assert cutting.unnamed_segments()["lost"] > 0
    assert any("lost: message" in story for story in cutting.broken)

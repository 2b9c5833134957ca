"""The power of real file systems is cut; more cycles are ``python -m firearrow.testing.faults power``."""

import pytest

from firearrow.testing.faults.loopfs import FileSystem, missing_tools
from tests.integration.store.conftest import Campaign

CYCLES = 15


def need_loop(filesystem: FileSystem) -> None:
    missing = missing_tools(filesystem)
    if missing:
        pytest.skip(f"no power to cut here: {', '.join(missing)} missing")


@pytest.mark.real
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_nothing_promised_is_lost(campaign: Campaign, filesystem: FileSystem, flush: str, rotation: int) -> None:
    need_loop(filesystem)
    options = ("--filesystem", filesystem, "--flush", flush, "--seed", str(rotation % 1000))
    (figures,) = campaign("power", "--cycles", str(CYCLES), *options)
    assert figures["cycles"] == CYCLES
    assert figures["promised"] > 0
    assert flush == "ASYNC_FLUSH" or figures["lost"] == 0
    assert figures["oldest_lost_ms"] <= figures["window_ms"]


@pytest.mark.real
@pytest.mark.parametrize("mutant", ["ack-before-sync", "no-directory-sync"])
def test_a_planted_defect_is_seen(campaign: Campaign, mutant: str) -> None:
    need_loop("ext4")
    (figures,) = campaign("power", "--cycles", "1", "--filesystem", "ext4", "--flush", "SYNC_FLUSH", "--mutant", mutant)
    assert figures["broken"] == 1

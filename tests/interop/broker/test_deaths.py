"""Brokers of ours die under eight producers and eight consumers; ``make broker-deaths`` takes more deaths."""

import pytest

from campaigns.broker.deaths import killed, unpowered
from campaigns.faults.loop_file_system import FileSystem, missing_tools
from campaigns.rotation import this_turn, turn
from firearrow.store.config import FlushMode

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(300)]

DEATHS = 3
FILE_SYSTEMS: list[FileSystem] = ["ext4", "xfs"]


def seed() -> int:
    return turn() or 0


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(flush: FlushMode) -> None:
    run = killed(flush, DEATHS, seed())
    assert run.broken == []
    assert run.findings.acknowledged > 0


def need_loop(filesystem: FileSystem) -> None:
    missing = missing_tools(filesystem)
    if missing:
        pytest.skip(f"no power to cut here: {', '.join(missing)} missing")


@pytest.mark.rotating
@pytest.mark.parametrize("filesystem", this_turn(FILE_SYSTEMS, __name__))
def test_nothing_acknowledged_is_lost_when_the_power_goes(filesystem: FileSystem) -> None:
    need_loop(filesystem)
    run = unpowered(DEATHS, seed(), filesystem=filesystem)
    assert run.broken == []
    assert run.findings.acknowledged > 0


def test_a_broker_that_answers_before_it_syncs_is_caught() -> None:
    need_loop("ext4")
    assert unpowered(1, seed(), mutant="ack-before-sync").findings.lost

"""A real group of three with three machines of etcd: its master is killed, and nothing acknowledged is lost."""

import asyncio

import pytest

from campaigns.failover.failovers import failover
from campaigns.failover.real_group import RealGroup

pytestmark = pytest.mark.real


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_nothing_acknowledged_is_lost_when_the_master_dies(fault: str) -> None:
    with RealGroup() as group:
        outcome = asyncio.run(failover(group, fault))
    assert outcome.acked >= 450
    assert (outcome.lost, outcome.out_of_order) == (0, 0)
    assert outcome.epoch > 1
    print(outcome)

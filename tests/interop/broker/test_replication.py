"""A master and its slave as processes, ours and Apache's: the log is copied byte for byte, across ``kill -9`` of both.

The five pairs take turns.
"""

import pytest

from campaigns.replication.__main__ import PAIRS
from campaigns.replication.copies import OURS, copied_across_kills
from campaigns.rotation import this_turn

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(300)]

SEGMENT = 1 << 20
WAIT_SECONDS = 90.0


@pytest.mark.rotating
@pytest.mark.parametrize(("master", "slave"), this_turn(PAIRS, __name__))
def test_a_slave_copies_the_log_of_its_master(master: str, slave: str) -> None:
    figures = copied_across_kills(master, slave, 2_000, 1, SEGMENT, WAIT_SECONDS)
    assert figures["acknowledged"] > 0
    assert figures["is_whole"] or (master, slave) != (OURS, OURS)

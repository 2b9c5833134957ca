"""A real broker of ours is killed between half messages, ends and questions: every transaction has its outcome once."""

import pytest

from campaigns.broker.killed_transactions import killed
from campaigns.rotation import this_turn

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

KILLS = 5


@pytest.mark.rotating
@pytest.mark.parametrize("flush", this_turn(["ASYNC_FLUSH", "SYNC_FLUSH"], __name__))
def test_transactions_outlive_kills(flush: str) -> None:
    run = killed(KILLS, 1, {"flushDiskType": flush})
    assert run.broken == [], run.figures()
    assert len(run.acknowledged) > KILLS
    assert run.questions > 0

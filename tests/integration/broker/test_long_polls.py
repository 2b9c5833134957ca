"""Long polls at a real broker, on the stock loop and on uvloop, whose timers are not alike."""

from collections.abc import Callable

import pytest

from firearrow.protocol.codes import ResponseCode
from firearrow.testing import Cluster
from tests.integration.broker.conftest import Scenario
from tests.integration.broker.raw import Line, a_pull

pytestmark = pytest.mark.real

NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
SHORT_POLLS = 150
"""Pairs of polls of 0 ms. The time of one in twenty is over in the millisecond in which it begins to wait."""


async def poll_for_no_time() -> None:
    async with Cluster() as cluster:
        await cluster.create_topic("t", queues=4)
        async with Line(cluster.broker_address()) as line:
            for _ in range(SHORT_POLLS):
                line.write(*(a_pull(queue_id=queue, wait_ms=0) for queue in range(4)))
                codes = [heading.code for heading, _ in await line.answers(4)]
                assert codes == [NOT_FOUND] * 4


def test_polls_whose_time_is_over_at_once_are_answered(run: Callable[[Scenario], None]) -> None:
    run(poll_for_no_time)

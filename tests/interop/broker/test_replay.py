"""Groups are moved by time with ``mqadmin`` while they run and while they do not; tools and clients in turn."""

from collections.abc import Callable, Iterator
from itertools import product

import pytest

from campaigns.broker.replay import CLIENTS, Replay, moves_a_running_group, moves_an_offline_group, replay
from campaigns.faults.ledger import Figures
from campaigns.rotation import this_turn
from judges import JudgeProcess

pytestmark = [pytest.mark.apache, pytest.mark.timeout(200)]


TOOLS = ("5.5.0", "4.9.8")


@pytest.fixture(scope="module")
def moving(request: pytest.FixtureRequest) -> Iterator[Replay]:
    """A topic of our broker and the tools whose turn it is."""
    with replay(str(request.param)) as running:
        yield running


@pytest.mark.rotating
@pytest.mark.parametrize(("moving", "client"), this_turn(list(product(TOOLS, CLIENTS)), __name__), indirect=["moving"])
@pytest.mark.parametrize("check", [moves_a_running_group, moves_an_offline_group], ids=lambda check: check.__name__)
def test_a_group_goes_on_at_the_first_message_of_a_time(
    moving: Replay, client: str, check: Callable[[Replay, JudgeProcess], Figures]
) -> None:
    with JudgeProcess(client) as process:
        assert check(moving, process)

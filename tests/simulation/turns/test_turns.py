"""No step of a broker grows with the number of its topics, queues, groups, members, connections or waiting pulls.

Every request that a broker serves is made once and every job runs, at one size and at four times that size; steps are
compared by their lines of Python. Planted loops show that the comparison sees them.
"""

from typing import Final

import pytest

from benchmarks.size.every_request import about_plain_accounts, about_users
from firearrow.broker.gate.promises import PROMISES
from firearrow.runtime.turn import Share
from tests.simulation.turns.measured import LARGE, SMALL, measured
from tests.simulation.turns.plants import PLANTS
from tests.simulation.turns.work import Growth, growing

LEAST: Final = 200
"""Lines by which a step must have grown to count: fewer than a walk over the larger tables takes at a line a row."""
STILL_WHOLE: Final = {
    "GET_CONSUMER_LIST_BY_GROUP": "the list of a group's members is made at once, a line a member, and then kept",
    "DELETE_TOPIC_IN_BROKER": "names that wait for a sync are looked through for each deleted queue",
    "DELETE_TOPIC_IN_BROKER with many queues": "the queues of one topic leave the table together",
    "state_file.StateFile._save_changes": "a journal line has all queues of a group in a topic when one was moved",
    "dequeue.Dequeue.run": "a batch of timers that are due together, of a fixed number and size",
    "enqueue.Enqueue.run": "a batch of new timers, of a fixed number and size",
    "store.Store._flush_views": "a page of entries for the index, of a fixed number",
    "firearrow.remoting.endpoint.Endpoint._flush_all": "a turn's answers, which are bounded by its requests",
    "firearrow.remoting.endpoint.Endpoint._sweep_deadlines": "questions to clients whose time is over together",
    "INVOKE_BROKER_TO_GET_CONSUMER_STATUS": "members are asked 256 at a time",
    "retention.Retention.run": "the files of the log are listed",
    "scrub.Scrub.run": "a piece of the log, of a fixed number of bytes",
}
"""Acts or steps that may grow: pieces of a fixed size above that of the small broker, and work that is still whole."""


@pytest.fixture(scope="module")
def found() -> list[Growth]:
    """The steps that grow."""
    return growing(measured(SMALL).steps, measured(LARGE).steps, LEAST, PLANTS)


def test_every_request_that_a_broker_serves_is_made() -> None:
    asked = measured(SMALL).asked | {one.request.code for one in [*about_users(), *about_plain_accounts()]}
    missing = [code.name for code in PROMISES if code not in asked]
    assert not missing, "add a request to benchmarks/size/every_request.py"


def test_no_step_grows(found: list[Growth]) -> None:
    unknown = [one for one in found if one.act not in PLANTS and not {one.act, one.step} & STILL_WHOLE.keys()]
    assert not unknown, "\n".join(map(str, unknown))


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_loop_is_seen(name: str, found: list[Growth]) -> None:
    assert name in {one.act for one in found}


def test_every_share_has_a_planted_loop() -> None:
    assert {plant.share for plant in PLANTS.values()} == set(Share)

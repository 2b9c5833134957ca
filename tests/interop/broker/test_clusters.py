"""Two name servers and two masters, ours alone and mixed with Apache's; one kind in turn."""

from collections.abc import Callable, Iterator

import pytest

from campaigns.broker.cluster_checks import CHECKS
from campaigns.broker.clusters import KINDS, Cluster
from campaigns.broker.upkeep import JAVA_CLIENTS, RESIZINGS, WAYS, Way, restarts
from campaigns.faults.ledger import Figures
from campaigns.rotation import this_turn

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(300)]

Check = Callable[[Cluster], Figures]


def name(check: Check) -> str:
    return check.__name__.replace("_", "-")


@pytest.fixture(scope="module", params=this_turn(KINDS, __name__))
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of the kind whose turn it is."""
    with Cluster(request.param) as running:
        yield running


@pytest.mark.rotating
@pytest.mark.parametrize("check", CHECKS, ids=name)
def test_two_masters(cluster: Cluster, check: Check) -> None:
    try:
        assert check(cluster)
    finally:
        for judge in cluster.judges:
            judge.process.reset()


@pytest.fixture(scope="module")
def quick_routes() -> Iterator[Cluster]:
    """A cluster of ours with clients that look at routes every second."""
    with Cluster("ours", clients=JAVA_CLIENTS) as running:
        yield running


@pytest.mark.rotating
@pytest.mark.parametrize("check", this_turn(RESIZINGS, __name__), ids=name)
def test_queues_under_load(quick_routes: Cluster, check: Check) -> None:
    try:
        assert check(quick_routes)
    finally:
        for judge in quick_routes.judges:
            judge.process.reset()


@pytest.mark.rotating
@pytest.mark.parametrize("way", this_turn(WAYS, __name__))
def test_a_master_is_restarted_without_a_failed_send(way: Way) -> None:
    failed = restarts(way)["failed_sends"]
    assert failed == 0, f"{failed} sends failed"

"""Brokers for the sources: ours and Apache's 5.5.0."""

from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from firearrow.spark.link import close_links
from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer

APACHE = "5.5.0"
OURS = "firearrow"


@pytest.fixture(scope="session", params=[OURS, APACHE])
def broker(request: pytest.FixtureRequest) -> Iterator[ApacheBroker]:
    """Each in turn, with a name server of its kind."""
    if request.param == OURS:
        with FireArrowNameServer() as names, FireArrowBroker(name_servers=[names.address]) as ours:
            yield ours
    else:
        with ApacheNameServer(APACHE) as apache, ApacheBroker(APACHE, name_servers=[apache.address]) as theirs:
            yield theirs


@pytest.fixture(autouse=True)
def _links_end_with_the_test() -> Iterator[None]:
    yield
    close_links()


def is_ours(broker: ApacheBroker) -> bool:
    return isinstance(broker, FireArrowBroker)

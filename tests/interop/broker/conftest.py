"""Our name server and our broker as processes, shared by the tests here."""

from collections.abc import Iterator

import pytest

from judges import FireArrowBroker, FireArrowNameServer


@pytest.fixture(scope="package")
def our_names() -> Iterator[FireArrowNameServer]:
    """Our name server."""
    with FireArrowNameServer() as server:
        yield server


@pytest.fixture(scope="package")
def our_broker(our_names: FireArrowNameServer) -> Iterator[FireArrowBroker]:
    """Our broker, registered at our name server."""
    with FireArrowBroker(name_servers=[our_names.address]) as broker:
        yield broker

"""A broker of ours with its name server, as processes."""

from collections.abc import Iterator

import pytest

from judges import FireArrowBroker, FireArrowNameServer


@pytest.fixture(scope="module")
def broker() -> Iterator[FireArrowBroker]:
    """One for the tests of a module."""
    with FireArrowNameServer() as names, FireArrowBroker(name_servers=[names.address]) as ours:
        yield ours

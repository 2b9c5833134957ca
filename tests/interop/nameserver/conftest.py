"""Name servers to compare: one of ours and two of Apache's, shared by the whole run."""

from collections.abc import Iterator

import pytest

from judges import ApacheNameServer, FireArrowNameServer, Server


@pytest.fixture(scope="package")
def ours() -> Iterator[Server]:
    with FireArrowNameServer() as server:
        yield server


@pytest.fixture(scope="package")
def apache() -> Iterator[dict[str, Server]]:
    with ApacheNameServer("5.5.0") as new, ApacheNameServer("4.9.7") as old:
        yield {"5.5.0": new, "4.9.7": old}

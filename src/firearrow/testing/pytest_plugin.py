"""Fixtures for tests of programs that use a cluster. Installed with the package: nothing has to be enabled.

| fixture | what |
|---|---|
| `firearrow_cluster` | a real cluster in a thread of its own, one for the whole session |
| `firearrow_address` | where its name server is: the first argument of producers and consumers |
| `firearrow_topic` | the name of a topic of its own for the test, made with four queues |
| `firearrow_group` | the name of a group of its own for the test |

They suit plain tests and tests that are coroutines alike, since the cluster does not live on the test's loop. A test
that stops and kills brokers makes a cluster of its own: `firearrow.testing.Cluster`.

Nothing of the servers is imported before a fixture is asked for, so that the plugin costs nothing where it is not used.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from firearrow.testing.blocking import Cluster

_numbers: Final = count(1)
_NAME_LENGTH: Final = 60


@pytest.fixture(scope="session")
def firearrow_cluster() -> "Iterator[Cluster]":
    """A real cluster in a thread of its own, one for the whole session."""
    from firearrow.testing.blocking import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def firearrow_address(firearrow_cluster: "Cluster") -> str:
    """The address of `firearrow_cluster`'s name server."""
    return firearrow_cluster.address


@pytest.fixture
def firearrow_topic(firearrow_cluster: "Cluster", request: pytest.FixtureRequest) -> str:
    """The name of a topic of its own for the test, made with four queues."""
    return firearrow_cluster.create_topic(_fresh(request))


@pytest.fixture
def firearrow_group(request: pytest.FixtureRequest) -> str:
    """The name of a group of its own for the test."""
    return _fresh(request)


def _fresh(request: pytest.FixtureRequest) -> str:
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", str(request.node.name)).strip("-")
    return f"{readable[:_NAME_LENGTH]}-{next(_numbers)}"

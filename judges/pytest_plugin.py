"""Fixtures over Apache's own servers and the stock clients.

Enabled by `pytest_plugins = ["judges.pytest_plugin"]` in the topmost conftest.

| fixture | what |
|---|---|
| `shared_servers` | all of the below, started when first asked for, ended with the session |
| `apache_version` | each server version in turn |
| `apache_nameserver`, `apache_broker`, `mqadmin` | Apache's, of that version |
| `stock_client` | the process of each stock client in turn |
| `judge` | that client at that name server; its producers and consumers end with the test |

A test that needs servers of its own starts them: `with ApacheBroker(name_servers=[...]) as broker:`.
"""

from collections.abc import Iterator

import pytest

from judges import CLIENTS, ApacheBroker, ApacheNameServer, Judge, JudgeProcess, Mqadmin
from judges.install.artifacts import SERVER_VERSIONS
from judges.shared import SharedServers


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[SharedServers]:
    """Everything that tests share."""
    with SharedServers() as shared:
        yield shared


@pytest.fixture(scope="session", params=SERVER_VERSIONS)
def apache_version(request: pytest.FixtureRequest) -> str:
    """A version of Apache's servers."""
    return str(request.param)


@pytest.fixture(scope="session")
def apache_nameserver(shared_servers: SharedServers, apache_version: str) -> ApacheNameServer:
    """Apache's name server."""
    return shared_servers.name_server(apache_version)


@pytest.fixture(scope="session")
def apache_broker(shared_servers: SharedServers, apache_version: str) -> ApacheBroker:
    """Apache's broker, registered at `apache_nameserver`."""
    return shared_servers.broker(apache_version)


@pytest.fixture(scope="session")
def mqadmin(shared_servers: SharedServers, apache_version: str) -> Mqadmin:
    """Apache's tools."""
    return shared_servers.mqadmin(apache_version)


@pytest.fixture(scope="session", params=CLIENTS)
def stock_client(shared_servers: SharedServers, request: pytest.FixtureRequest) -> JudgeProcess:
    """A stock client, at no name server yet."""
    return shared_servers.client(str(request.param))


@pytest.fixture
def judge(stock_client: JudgeProcess, apache_nameserver: ApacheNameServer) -> Iterator[Judge]:
    """A stock client at Apache's name server."""
    yield stock_client.at(apache_nameserver.address)
    stock_client.reset()

"""The scenarios against Apache's own servers: what they ask of a broker is what Apache's broker does.

One client tries each of them here. With FIREARROW_ALL_SCENARIOS set, every client does that can, at every version:
about five minutes.
"""

import os
from collections.abc import Iterator

import pytest

from judges import CAPABILITIES, CLIENTS, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.scenarios import SCENARIOS
from judges.shared import SharedServers

pytestmark = pytest.mark.apache

# A polling consumer of 5.x pulls with a request code that brokers of 4.9 do not know (LITE_PULL_MESSAGE, 361); these
# brokers have delay levels alone.
IMPOSSIBLE = {("4.9.7", "java-5.5.0", scenario) for scenario in ("pull", "sql-lite", "timer")}
QUICKEST_FIRST = ("go", "java-4.9.8", "node", "cpp", "java-5.5.0")


def able(scenario: str) -> list[str]:
    return [client for client in QUICKEST_FIRST if CAPABILITIES[client].issuperset(SCENARIOS[scenario].needs)]


def matrix() -> Iterator[tuple[str, str, str]]:
    everything = bool(os.environ.get("FIREARROW_ALL_SCENARIOS"))
    for version in SERVER_VERSIONS if everything else SERVER_VERSIONS[:1]:
        for scenario in (name for name, one in SCENARIOS.items() if not one.aged):  # the matrix has those
            for client in able(scenario) if everything else able(scenario)[:1]:
                if (version, client, scenario) not in IMPOSSIBLE:
                    yield version, client, scenario


def test_every_client_is_in_the_matrix() -> None:
    assert sorted(QUICKEST_FIRST) == sorted(CLIENTS)


@pytest.mark.parametrize(("version", "client", "scenario"), list(matrix()))
def test_scenario(shared_servers: SharedServers, version: str, client: str, scenario: str) -> None:
    process = shared_servers.client(client)
    broker = shared_servers.broker(version)
    SCENARIOS[scenario].run(process.at(broker.name_servers[0]), broker.create_topic(fresh(scenario)))
    process.reset()
    if "transaction" in SCENARIOS[scenario].needs:
        # Once a transaction has ended, a thread of 5.5.0 (TransactionalOpBatchService) never rests again: it would
        # take most of a core from every test that follows.
        broker.restart()

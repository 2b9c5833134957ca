"""Transactions and SQL92 filters of the stock clients at Apache's 4.9.7: the same scenarios as at 5.5.0 and at ours.

The matrix compares our broker with 5.5.0 alone. A run takes one client, the next one another.
"""

import pytest

from campaigns.rotation import this_turn
from judges.scenarios import SCENARIOS
from judges.shared import SharedServers

pytestmark = pytest.mark.apache

VERSION = "4.9.7"
CLIENTS = ("java-4.9.8", "go")
NEW = ("transaction", "transaction-death", "sql", "sql-lite", "sql-pull")


@pytest.mark.rotating
@pytest.mark.parametrize("client", this_turn(CLIENTS, __name__))
@pytest.mark.parametrize("scenario", NEW)
def test_a_stock_client_at_4_9_7(shared_servers: SharedServers, client: str, scenario: str) -> None:
    process, broker = shared_servers.client(client), shared_servers.broker(VERSION)
    if not process.can(*SCENARIOS[scenario].needs):
        pytest.skip(f"{client} cannot")
    SCENARIOS[scenario].at(process.at(broker.name_servers[0]), broker)
    process.reset()

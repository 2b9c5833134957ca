"""Stock clients with right, wrong and no keys: the same results at our broker and Apache's; a client a commit."""

import asyncio
from collections.abc import Iterator

import pytest

from campaigns.access.__main__ import ROOT, USERS, V5, broker, make_users
from campaigns.rotation import this_turn
from firearrow.admin import Admin
from firearrow.protocol.auth import Credentials, Signer
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, SystemNetwork
from judges import ApacheBroker, FireArrowBroker, JudgeProcess

pytestmark = [pytest.mark.apache, pytest.mark.timeout(600)]

CLIENTS = ["java-5.5.0", "java-4.9.8", "go"]
COUNT = 3
TOPIC = GROUP = "x"

Broker = ApacheBroker | FireArrowBroker
Pair = dict[str, Broker]


async def prepare(at: Broker) -> None:
    names = at.name_servers[0]
    root = Caller(SystemNetwork(), sign=Signer(Credentials(*ROOT)))
    await make_users(root, Address.parse(at.address))
    await root.close()
    async with Admin(names, access_key=ROOT[0], secret_key=ROOT[1]) as admin:
        await admin.topics.create(TOPIC, queues=4)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with broker("ours", V5) as ours, broker("Apache's", V5) as theirs:
        for server in (ours, theirs):
            asyncio.run(prepare(server))
        yield {"ours": ours, "Apache's": theirs}


def sent_and_received(process: JudgeProcess, server: Broker) -> tuple[int, int, int]:
    """The numbers of acknowledged sends, of failed ones, and of acknowledged ones that were delivered."""
    judge = process.at(server.name_servers[0])
    report = judge.send(TOPIC, COUNT, group=GROUP)
    got = 0
    if report.indexes:
        got = len(judge.receive(TOPIC, COUNT, group=GROUP).messages)
    process.reset()
    return len(report.indexes), len(report.failed), got


@pytest.mark.rotating
@pytest.mark.parametrize("client", this_turn(CLIENTS, __name__))
@pytest.mark.parametrize("user", USERS)
def test_keys_have_the_same_effect_at_both_brokers(pair: Pair, client: str, user: str) -> None:
    with JudgeProcess(client, keys=USERS[user]) as process:
        found = {name: sent_and_received(process, server) for name, server in pair.items()}
    may = user in ("rules", "super")
    expected = (COUNT, 0, COUNT) if may else (0, COUNT, 0)
    assert found == {"ours": expected, "Apache's": expected}

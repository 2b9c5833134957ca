"""Stock Java clients over TLS at our servers, which refuse plaintext; the stock Go client 2.1.2 offers no TLS."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.rotation import this_turn
from firearrow.admin import Admin
from firearrow.client import ClientTls
from judges import FireArrowBroker, FireArrowNameServer, JudgeProcess, fresh
from judges.scenarios import exchange
from tests.interop.client.secured import certified

pytestmark = [pytest.mark.apache, pytest.mark.timeout(300)]

CLIENTS = ["java-5.5.0", "java-4.9.8"]
OVER_TLS = ("-Dtls.enable=true",)
COUNT = 50


class TlsBrokerOfOurs(FireArrowBroker):
    """A broker that refuses plaintext; ready when its name server, which does not, lists it."""

    def _ready(self) -> bool:
        return all(map(self._listed_by, self.name_servers))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBrokerOfOurs]:
    directory = tmp_path_factory.mktemp("tls")
    shown, _ = certified(directory)
    own = {"tls.certificate_path": str(shown), "tls.key_path": str(Path(directory) / "server.key")}
    file = directory / "names.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
    with FireArrowNameServer(arguments=["-c", str(file)]) as names:
        settings = {**own, "tls.mode": "enforcing", "client_tls.enabled": "true"}
        with TlsBrokerOfOurs(name_servers=[names.address], settings=settings) as running:
            yield running


def made(broker: TlsBrokerOfOurs) -> str:
    async def make() -> str:
        topic = fresh("tls")
        async with Admin(broker.name_servers[0], tls=ClientTls(enabled=True)) as admin:
            await admin.topics.create(topic, queues=4)
        return topic

    return asyncio.run(make())


@pytest.mark.rotating
@pytest.mark.parametrize("client", this_turn(CLIENTS, __name__))
def test_a_stock_client_sends_and_receives_over_tls(broker: TlsBrokerOfOurs, client: str) -> None:
    with JudgeProcess(client) as process:
        process.start(OVER_TLS)
        exchange(process.at(broker.name_servers[0]), made(broker), COUNT)


@pytest.mark.rotating
@pytest.mark.parametrize("client", this_turn(CLIENTS, __name__))
def test_a_stock_client_without_tls_is_refused(broker: TlsBrokerOfOurs, client: str) -> None:
    with JudgeProcess(client) as process:
        report = process.at(broker.name_servers[0]).send(made(broker), 1, timeout_ms=2_000)
    assert len(report.failed) == 1

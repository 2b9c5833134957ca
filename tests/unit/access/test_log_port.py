"""The port at which slaves fetch the log, with access on: whoever fetches it reads every topic."""

import asyncio

import pytest
from msgspec.structs import replace

from firearrow.access.settings import AccessConfig
from firearrow.broker.replication.master import Master
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.replication_settings import ReplicationConfig, check_role
from firearrow.errors import SettingsError
from firearrow.protocol.ha_stream import report
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.unit.access.servers import CONFIG
from tests.unit.broker.whole import PORT, Client, Simulated, settings_of


class Copier(asyncio.Protocol):
    """Asks for the log from its beginning."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = asyncio.Event()
        self.enough = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(report(0))  # type: ignore[attr-defined] # a transport of a stream

    def data_received(self, data: bytes) -> None:
        self.got += data
        if b"the body" in self.got:
            self.enough.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set()


def fetched(allowed: str, access: AccessConfig) -> bool:
    """Whether somebody at 10.0.0.2 is sent the log; the broker is at 10.0.0.1."""

    async def main(world: World) -> bool:
        settings: BrokerSettings = replace(
            settings_of(), access=access, replication=ReplicationConfig(ha_allowed_addresses=allowed)
        )
        broker = Simulated(world.node("broker"), settings)
        await broker.start()
        node = world.node("stranger")
        if not access.is_on:
            await Client(node, broker.address).send(body=b"the body")
        copier = Copier()
        await node.network.connect(lambda: copier, Address(broker.node.host, PORT + 1))
        wanted = copier.enough if not access.is_on else copier.ended
        done = [asyncio.ensure_future(event.wait()) for event in (copier.ended, wanted)]
        await asyncio.wait(done, timeout=2.0, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.cancel()
        was_refused = copier.ended.is_set()
        await broker.node.stop()
        return not was_refused

    return World(1).run(main)


OFF = AccessConfig()


@pytest.mark.parametrize(
    ("allowed", "access", "expected"),
    [
        ("", OFF, True),
        ("", CONFIG, False),
        ("10.0.0.0/8", CONFIG, True),
        ("10.0.0.9, 192.168.0.0/16", CONFIG, False),
        ("10.0.0.9", OFF, False),
    ],
)
def test_only_known_addresses_fetch_the_log(allowed: str, access: AccessConfig, *, expected: bool) -> None:
    assert fetched(allowed, access) is expected


def test_the_test_sees_a_port_that_checks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Master, "_may_copy", lambda _self, _feed: True)
    assert fetched("", CONFIG) is True


def test_a_wrong_address_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="haAllowedAddresses"):
        check_role(ReplicationConfig(ha_allowed_addresses="somewhere"), 0)

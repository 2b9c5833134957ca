"""TCP on the stock loop and on uvloop keeps the promises of the network door."""

import asyncio
import socket

import pytest
import uvloop

from firearrow.errors import ConnectionFailed, SettingsError
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.testing.conformance.clock import CLOCK_CHECKS, ClockCheck
from firearrow.testing.conformance.network import NETWORK_CHECKS, NetworkCheck, Site, pair

LOOPS = {"stock": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check", NETWORK_CHECKS, ids=lambda check: check.__name__)
def test_network(check: NetworkCheck, loop: str) -> None:
    network = SystemNetwork()
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(check(Site(network, network, "127.0.0.1")))  # type: ignore[arg-type]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check", CLOCK_CHECKS, ids=lambda check: check.__name__)
def test_clock(check: ClockCheck, loop: str) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(check(SystemClock()))  # type: ignore[arg-type]


@pytest.mark.parametrize("loop", LOOPS)
def test_nagle_is_off_at_both_ends(loop: str) -> None:
    async def main() -> None:
        network = SystemNetwork()
        server, client, theirs = await pair(Site(network, network, "127.0.0.1"))
        for end in (client, theirs):
            raw = end.transport.get_extra_info("socket")
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            end.transport.abort()
        server.listener.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())


def test_an_unknown_host_and_silence_are_connection_failed() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionFailed, match=r"no-such-host\.invalid:1"):
            await SystemNetwork().connect(asyncio.Protocol, Address("no-such-host.invalid", 1))
        with socket.socket() as silent:  # a full backlog: the handshake is never finished
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            address = Address(*silent.getsockname())
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(tuple(address))
            with pytest.raises(ConnectionFailed, match=r"no answer within 0\.05 s"):
                await SystemNetwork(connect_timeout_s=0.05).connect(asyncio.Protocol, address)
            for filler in fillers:
                filler.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9876", Address("127.0.0.1", 9876)),
        ("broker-a:10911", Address("broker-a", 10911)),
        ("[::1]:80", Address("::1", 80)),
        ("fe80::1:80", Address("fe80::1", 80)),
        (" host:0 ", Address("host", 0)),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:65536", "host:-1", "host:\u0661"])
def test_malformed_addresses_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"is not an address|has no port"):
        Address.parse(text)


def test_ipv6_is_printed_in_brackets() -> None:
    assert str(Address("::1", 80)) == "[::1]:80"

"""TLS and plaintext on one port, over real sockets and in simulation."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from firearrow.errors import ConnectionFailed, ConnectionLost, SettingsError
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer
from firearrow.protocol.serialize import encode_request
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Answer, Call, Handler, Handlers, Later
from firearrow.remoting.limits import Limits
from firearrow.remoting.server import Server
from firearrow.remoting.strangers import ADDRESS_BURST_S, ADDRESS_SHARE, OPENING_S
from firearrow.runtime.network import Address, Network, SystemNetwork
from firearrow.runtime.tls import TlsLayer
from firearrow.runtime.tls_settings import ClientTls, ServerTls, TlsMode, client_context, server_context
from firearrow.testing.certificates import CertificateFiles, self_signed
from firearrow.testing.sim.world import World

GET = GetKvConfig(namespace="n", key="k")
Scenario = Callable[[Network, Network, str, CertificateFiles], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return self_signed(str(tmp_path_factory.mktemp("certificates")))


def contexts(files: CertificateFiles) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    settings = ServerTls(certificate_path=files.certificate_path, key_path=files.key_path)
    return server_context(settings), client_context(ClientTls(enabled=True))


def echoing() -> Handlers:
    def get(request: GetKvConfig, call: Call) -> Answer:
        return Answer(GetKvConfigAnswer(value=request.key), call.body)

    handlers = Handlers()
    handlers.on(GetKvConfig, get)
    return handlers


async def both_voices(here: Network, there: Network, host: str, files: CertificateFiles) -> None:
    """A permissive server answers TLS and plaintext; both may ask back, and large bodies pass."""
    shown, believed = contexts(files)
    server = Server(here, echoing(), Limits(write_high_water_bytes=65536), tls=shown)
    await server.start(Address(host, 0))
    secret, plain = Caller(there, tls=believed, handlers=echoing()), Caller(there, handlers=echoing())
    body = bytes(range(256)) * 4096
    for caller in (secret, plain):
        replies = await asyncio.gather(*(caller.call(server.address, GET, body, timeout_ms=60_000) for _ in range(5)))
        assert all(reply.body == body for reply in replies)
    assert len(server.peers) == 2
    for peer in server.peers:
        assert (await peer.call(GET, b"back")).body == b"back"
    await secret.close()
    await plain.close()
    await server.stop()
    assert not server.peers


async def enforced(here: Network, there: Network, host: str, files: CertificateFiles) -> None:
    """An enforcing server hangs up on plaintext, a disabled one on TLS."""
    shown, believed = contexts(files)
    for mode, good, bad in ((TlsMode.ENFORCING, believed, None), (TlsMode.DISABLED, None, believed)):
        server = Server(here, echoing(), tls=shown, tls_mode=mode)
        await server.start(Address(host, 0))
        welcome, unwelcome = Caller(there, tls=good), Caller(there, tls=bad)
        assert (await welcome.call(server.address, GET)).answer.value == "k"
        with pytest.raises((ConnectionLost, ConnectionFailed)):
            await unwelcome.call(server.address, GET)
        await welcome.close()
        await unwelcome.close()
        await server.stop()


async def not_believed(here: Network, there: Network, host: str, files: CertificateFiles) -> None:
    """A caller that checks certificates refuses a self-signed one that it does not know."""
    shown, _ = contexts(files)
    server = Server(here, echoing(), tls=shown)
    await server.start(Address(host, 0))
    strict = Caller(there, tls=client_context(ClientTls(enabled=True, verify_server=True)))
    with pytest.raises(ConnectionFailed, match="TLS"):
        await strict.call(server.address, GET)
    await strict.close()
    async with asyncio.timeout(5):
        while server.peers:  # noqa: ASYNC110 - the server learns it from the network
            await asyncio.sleep(0.01)
    await server.stop()


SCENARIOS: list[Scenario] = [both_voices, enforced, not_believed]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["stock", "uvloop"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_over_sockets(
    scenario: Scenario,
    loop: Callable[[], asyncio.AbstractEventLoop],
    files: CertificateFiles,
) -> None:
    async def run() -> None:
        network = SystemNetwork()
        async with asyncio.timeout(30):
            await scenario(network, network, "127.0.0.1", files)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_in_simulation(scenario: Scenario, seed: int, files: CertificateFiles) -> None:
    async def run(world: World) -> None:
        server, client = world.node("server"), world.node("client")
        await scenario(server.network, client.network, server.host, files)

    World(seed).run(run)


def test_enforcing_needs_a_certificate() -> None:
    with pytest.raises(SettingsError, match="no certificate"):
        Server(SystemNetwork(), echoing(), tls_mode=TlsMode.ENFORCING)


async def open_as_a_stranger(files: CertificateFiles) -> None:
    """The handshake of a peer that proves nobody is charged to its address; the peer gets it back with its proof."""
    shown, believed = contexts(files)

    def guard(request: Any, call: Call, handler: Handler) -> Answer | Later | None:
        call.peer.prove()
        return handler(request, call)

    server = Server(SystemNetwork(), echoing().guarded(guard), tls=shown)
    await server.start(Address("127.0.0.1", 0))
    assert server._endpoint is not None
    strangers, loop = server._endpoint.strangers, asyncio.get_running_loop()
    charge, charged = strangers.charge, list[float]()

    def noting(host: str, seconds: float, now: float) -> float:
        charged.append(seconds)
        return charge(host, seconds, now)

    strangers.charge = noting  # type: ignore[method-assign]
    charge("127.0.0.1", ADDRESS_BURST_S + 0.5 * ADDRESS_SHARE, loop.time())
    caller, began = Caller(SystemNetwork(), tls=believed), loop.time()
    try:
        assert (await caller.call(server.address, GET, timeout_ms=60_000)).answer.value == "k"
        assert loop.time() - began > 0.4, "the address had no time for half a second"
        steps = [seconds for seconds in charged if seconds > 0]
        assert steps[0] == OPENING_S
        assert len(steps) > 2, "no step of the handshake was charged"
        assert min(charged) < -OPENING_S, "the peer has proved who it is"
    finally:
        await caller.close()
        await server.stop()


def test_handshakes_of_strangers_are_charged_to_their_address(files: CertificateFiles) -> None:
    asyncio.run(open_as_a_stranger(files))


def test_a_server_that_charges_nobody_for_handshakes_is_seen(
    files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TlsLayer, "_handshake", TlsLayer._step)
    with pytest.raises(AssertionError, match="no step"):
        asyncio.run(open_as_a_stranger(files))


def test_a_preamble_before_tls(files: CertificateFiles) -> None:
    """A load balancer's preamble, and TLS behind it."""

    async def run() -> None:
        shown, believed = contexts(files)
        server = Server(SystemNetwork(), echoing(), Limits(proxy_protocol=True), tls=shown)
        await server.start(Address("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"PROXY TCP4 192.168.1.9 10.0.0.1 5555 9876\r\n")
        await writer.start_tls(believed)
        writer.write(encode_request(0, GET, 1))
        assert b'"value":"k"' in await reader.read(1000)
        assert str(server.peers[0].address) == "192.168.1.9:5555"
        writer.close()
        await server.stop()

    asyncio.run(run())

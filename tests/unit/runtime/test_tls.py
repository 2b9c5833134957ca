"""TLS over any transport: the network's promises hold through it, and its own failures are clean."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from firearrow.errors import ConnectionFailed, SettingsError
from firearrow.runtime.certificates import Certificates
from firearrow.runtime.network import Address, Network, SystemNetwork
from firearrow.runtime.tls import TlsLayer, connect_tls
from firearrow.runtime.tls_network import TlsNetwork
from firearrow.runtime.tls_settings import ClientTls, ServerTls, TlsMode, client_context, server_context
from firearrow.testing.certificates import CertificateFiles, self_signed
from firearrow.testing.conformance.network import NETWORK_CHECKS, Echo, NetworkCheck, PeerListener, RecordingPeer, Site
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.world import World

LOOPS = {"stock": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
LOCAL = Address("127.0.0.1", 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return self_signed(str(tmp_path_factory.mktemp("certificates")))


def server_settings(files: CertificateFiles) -> ServerTls:
    return ServerTls(certificate_path=files.certificate_path, key_path=files.key_path)


def contexts(files: CertificateFiles) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return server_context(server_settings(files)), client_context(ClientTls(enabled=True))


def secured(network: Network, files: CertificateFiles) -> TlsNetwork:
    """A network with TLS on every connection."""
    return TlsNetwork(network, Certificates(server_settings(files), ClientTls(enabled=True)), TlsMode.ENFORCING)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check", NETWORK_CHECKS, ids=lambda check: check.__name__)
def test_the_network_conforms_through_tls(check: NetworkCheck, loop: str, files: CertificateFiles) -> None:
    network = secured(SystemNetwork(), files)
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(check(Site(network, network, "127.0.0.1")))  # type: ignore[arg-type]


@pytest.mark.parametrize("check", NETWORK_CHECKS, ids=lambda check: check.__name__)
def test_the_simulated_network_conforms_through_tls(check: NetworkCheck, files: CertificateFiles) -> None:
    async def scenario(world: World) -> None:
        server, client = world.node("server"), world.node("client")
        await check(Site(secured(server.network, files), secured(client.network, files), server.host))

    World(3).run(scenario)


def test_a_simulated_handshake_takes_the_same_time_in_every_run(files: CertificateFiles) -> None:
    async def scenario(world: World) -> float:
        node = world.node("alone")
        network = secured(node.network, files)
        server = PeerListener(Echo)
        server.listener = await network.listen(server.accept, Address("localhost", 0))
        client = RecordingPeer()
        await network.connect(lambda: client, server.listener.address)
        client.transport.write(b"x" * 100_000)
        await client.until(lambda peer: len(peer.received) == 100_000)
        return world.loop.time()

    links = LinkProfile(trace_contents=False)
    runs = [(World(9, links=links)) for _ in range(2)]
    assert len({(world.run(scenario), world.trace.digest) for world in runs}) == 1


async def listening(mode: TlsMode, files: CertificateFiles | None) -> PeerListener:
    server = PeerListener(Echo)
    certificates = Certificates(server_settings(files) if files else ServerTls(), ClientTls())
    server.listener = await TlsNetwork(SystemNetwork(), certificates, mode).listen(server.accept, LOCAL)
    return server


async def echoes_plainly(address: Address) -> bool:
    client = RecordingPeer()
    await SystemNetwork().connect(lambda: client, address)
    client.transport.write(b"\0\0\0\1plain")
    await client.until(lambda peer: peer.lost or len(peer.received) == 9)
    client.transport.abort()
    return not client.lost


async def echoes_through_tls(address: Address, context: ssl.SSLContext) -> bool:
    client = RecordingPeer()
    try:
        await connect_tls(SystemNetwork(), lambda: client, address, context)
    except ConnectionFailed:
        return False
    client.transport.write(b"secret")
    await client.until(lambda peer: peer.received == b"secret")
    assert client.transport.get_extra_info("cipher") is not None
    client.transport.abort()
    return True


@pytest.mark.parametrize(
    ("mode", "plain", "tls"),
    [(TlsMode.DISABLED, True, False), (TlsMode.PERMISSIVE, True, True), (TlsMode.ENFORCING, False, True)],
)
def test_the_first_byte_chooses(mode: TlsMode, plain: bool, tls: bool, files: CertificateFiles) -> None:
    async def main() -> None:
        server = await listening(mode, files)
        address = server.listener.address
        assert await echoes_plainly(address) is plain
        assert await echoes_through_tls(address, contexts(files)[1]) is tls
        server.listener.close()

    asyncio.run(main())


def test_verification_needs_trust_and_the_right_name(files: CertificateFiles, tmp_path: Path) -> None:
    other = self_signed(str(tmp_path), ["localhost"])

    async def main() -> None:
        server = await listening(TlsMode.PERMISSIVE, files)
        address = server.listener.address
        trusting = client_context(ClientTls(enabled=True, verify_server=True, trust_path=files.certificate_path))
        assert await echoes_through_tls(address, trusting)
        suspicious = client_context(ClientTls(enabled=True, verify_server=True, trust_path=other.certificate_path))
        with pytest.raises(ConnectionFailed, match="the certificate is refused"):
            await connect_tls(SystemNetwork(), RecordingPeer, address, suspicious)
        server.listener.close()

    asyncio.run(main())


def test_client_certificates_can_be_required(files: CertificateFiles) -> None:
    async def main() -> None:
        settings = ServerTls(
            certificate_path=files.certificate_path,
            key_path=files.key_path,
            trust_path=files.certificate_path,
            client_auth="require",
        )
        server = PeerListener(Echo)
        network = TlsNetwork(SystemNetwork(), Certificates(settings, ClientTls()), TlsMode.ENFORCING)
        server.listener = await network.listen(server.accept, LOCAL)
        address = server.listener.address
        known = client_context(
            ClientTls(enabled=True, certificate_path=files.certificate_path, key_path=files.key_path)
        )
        assert await echoes_through_tls(address, known)
        client = RecordingPeer()  # TLS 1.3 tells the client of the refusal after its own side of the handshake
        await connect_tls(SystemNetwork(), lambda: client, address, client_context(ClientTls(enabled=True)))
        client.transport.write(b"x")
        await client.until(lambda peer: peer.lost)
        assert "certificate required" in str(client.lost_with).lower()
        server.listener.close()

    asyncio.run(main())


@pytest.mark.parametrize("first", [b"\x16garbage that is no handshake at all", b"\x16\x03\x01\x00\x05hello"])
def test_garbage_ends_the_connection(first: bytes, files: CertificateFiles) -> None:
    async def main() -> None:
        server = await listening(TlsMode.PERMISSIVE, files)
        client = RecordingPeer()
        await SystemNetwork().connect(lambda: client, server.listener.address)
        client.transport.write(first)
        await client.until(lambda peer: peer.lost)
        assert not hasattr(server.accepted[0], "transport"), "no handshake, no connection_made"
        server.listener.close()

    asyncio.run(main())


def test_a_handshake_that_never_ends_is_given_up(files: CertificateFiles) -> None:
    failures: list[Exception] = []

    async def scenario(world: World) -> None:
        node = world.node("alone")
        layers: list[TlsLayer] = []

        def accept() -> asyncio.Protocol:
            layers.append(TlsLayer(contexts(files)[0], RecordingPeer(), server_side=True, on_failure=failures.append))
            return layers[-1]

        listener = await node.network.listen(accept, Address("localhost", 0))
        client = RecordingPeer()
        await node.network.connect(lambda: client, listener.address)
        await client.until(lambda peer: peer.lost)
        assert 10 <= world.loop.time() < 11

    World(1).run(scenario)
    assert [str(failure) for failure in failures] == ["no TLS handshake within 10 s"]


def test_a_stream_cut_without_close_notify_is_an_error(files: CertificateFiles) -> None:
    async def main(cut: Callable[[asyncio.Transport], None]) -> RecordingPeer:
        server = await listening(TlsMode.ENFORCING, files)
        client = RecordingPeer()
        transport = await connect_tls(SystemNetwork(), lambda: client, server.listener.address, contexts(files)[1])
        transport.write(b"x")
        await client.until(lambda peer: peer.received == b"x")
        theirs = await server.first()
        cut(transport)
        await theirs.until(lambda peer: peer.lost)
        server.listener.close()
        return theirs

    honest = asyncio.run(main(lambda transport: transport.close()))
    assert (honest.ended, honest.lost_with) == (True, None)
    truncated = asyncio.run(main(lambda transport: transport.abort()))
    assert not truncated.ended
    assert isinstance(truncated.lost_with, ConnectionResetError)


def test_settings_are_checked(tmp_path: Path, files: CertificateFiles) -> None:
    with pytest.raises(SettingsError, match="certificate_path and key_path"):
        server_context(ServerTls())
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(SettingsError, match=r"missing\.pem"):
        server_context(ServerTls(certificate_path=missing, key_path=missing))
    with pytest.raises(SettingsError, match=r"missing\.pem"):
        client_context(ClientTls(verify_server=True, trust_path=missing))
    with pytest.raises(SettingsError, match="cannot use"):
        client_context(ClientTls(certificate_path=files.certificate_path, key_path=missing))

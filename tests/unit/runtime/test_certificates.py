"""Certificates that change while a server runs: new connections get the new ones, standing ones go on."""

import asyncio
import shutil
from pathlib import Path

import pytest

from firearrow.errors import ConnectionFailed, SettingsError
from firearrow.runtime.certificates import Certificates
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.runtime.tls import connect_tls
from firearrow.runtime.tls_network import TlsNetwork
from firearrow.runtime.tls_settings import ClientTls, ServerTls, TlsMode, client_context
from firearrow.testing.certificates import CertificateFiles, self_signed
from firearrow.testing.conformance.network import Echo, PeerListener, RecordingPeer

LOCAL = Address("127.0.0.1", 0)


@pytest.fixture
def used(tmp_path: Path) -> CertificateFiles:
    return self_signed(str(tmp_path), name="used")


@pytest.fixture
def other(tmp_path: Path) -> CertificateFiles:
    return self_signed(str(tmp_path), name="other")


def replace(used: CertificateFiles, other: CertificateFiles) -> None:
    for new, old in zip(other, used, strict=True):
        shutil.copy(new, f"{old}.new")
        Path(f"{old}.new").rename(old)


async def served(certificates: Certificates, mode: TlsMode = TlsMode.ENFORCING) -> PeerListener:
    server = PeerListener(Echo)
    server.listener = await TlsNetwork(SystemNetwork(), certificates, mode).listen(server.accept, LOCAL)
    return server


async def echoes(peer: RecordingPeer, data: bytes) -> bool:
    before = len(peer.received)
    peer.transport.write(data)
    await peer.until(lambda peer: peer.lost or len(peer.received) == before + len(data))
    return not peer.lost


async def end(server: PeerListener, *peers: RecordingPeer) -> None:
    server.listener.close()
    for peer in peers:
        peer.transport.abort()
    for accepted in server.accepted:
        if hasattr(accepted, "transport"):  # its handshake was done
            await accepted.until(lambda peer: peer.lost)


async def connected(address: Address, trust_path: str) -> RecordingPeer:
    peer = RecordingPeer()
    trusting = client_context(ClientTls(enabled=True, verify_server=True, trust_path=trust_path))
    await connect_tls(SystemNetwork(), lambda: peer, address, trusting)
    return peer


def test_new_connections_get_the_new_certificate_and_standing_ones_go_on(
    used: CertificateFiles, other: CertificateFiles, tmp_path: Path
) -> None:
    first = str(shutil.copy(used.certificate_path, tmp_path / "first.pem"))

    async def main() -> None:
        certificates = Certificates(ServerTls(certificate_path=used[0], key_path=used[1]), ClientTls())
        server = await served(certificates)
        standing = await connected(server.listener.address, first)
        certificates.look()
        same = await connected(server.listener.address, first)
        assert await echoes(same, b"nothing has changed")
        replace(used, other)
        certificates.look()
        with pytest.raises(ConnectionFailed, match="certificate is refused"):
            await connected(server.listener.address, first)
        new = await connected(server.listener.address, other.certificate_path)
        assert await echoes(new, b"new")
        assert await echoes(standing, b"still here")
        await end(server, standing, same, new)

    asyncio.run(main())


def test_files_that_do_not_fit_change_nothing_until_they_do(
    used: CertificateFiles, other: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(ServerTls(certificate_path=used[0], key_path=used[1]), ClientTls())
    told: list[object] = []
    certificates.on_change.append(lambda: told.append(certificates.server))
    before = certificates.server
    shutil.copy(other.certificate_path, used.certificate_path)
    certificates.look()
    certificates.look()
    assert certificates.server is before
    assert caplog.text.count("changed certificates are not used") == 1
    Path(used.key_path).unlink()
    certificates.look()
    assert certificates.server is before
    shutil.copy(other.key_path, used.key_path)
    certificates.look()
    assert certificates.server is not before
    assert told == [certificates.server]


def test_an_outgoing_certificate_is_made_anew_too(used: CertificateFiles, other: CertificateFiles) -> None:
    outgoing = ClientTls(enabled=True, certificate_path=used[0], key_path=used[1])
    certificates = Certificates(ServerTls(), outgoing)
    before = certificates.client
    replace(used, other)
    certificates.look()
    assert before is not certificates.client is not None


def test_a_missing_file_is_an_error_at_the_start(used: CertificateFiles) -> None:
    with pytest.raises(SettingsError, match="check both files"):
        Certificates(ServerTls(certificate_path=used[0], key_path="nowhere.key"), ClientTls())

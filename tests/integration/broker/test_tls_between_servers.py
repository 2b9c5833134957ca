"""A master, its slave and their name server speak TLS alone, know one another by certificates, and take new ones."""

import asyncio
import shutil
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from firearrow import Message, Producer
from firearrow.admin.admin import Admin
from firearrow.client import ClientTls
from firearrow.errors import FireArrowError
from firearrow.model.signature import SignatureMethod
from firearrow.protocol.bodies.admin.auth import PolicyEntry
from firearrow.protocol.requests.admin.auth import CopyAccounts
from firearrow.runtime.network import Address
from firearrow.testing.certificates import CertificateFiles, self_signed
from firearrow.testing.ports import free_broker_port, free_port
from judges import fresh
from judges.process import Child
from judges.server_process import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
START_S = 60.0
KEYS = ("owner", "owner-secret")
INNER = ("inner", "inner-secret")
FIRST_REPORT = bytes(8)
NEXT_HOSTS = ("next", "127.0.0.1")
"""A certificate is found among the trusted ones by its subject, the first of these names."""
SERVES = {"master": "broker serves", "slave": "copies the log of"}


class Cluster(NamedTuple):
    """The addresses and files of a cluster."""

    names: str
    port: int
    shown: CertificateFiles
    """The certificate that all servers show, and their clients too."""
    trusted: Path
    """The certificates that everybody trusts: the ones in use, and the next ones."""
    later: CertificateFiles
    logs: Path
    slave_port: int

    @property
    def tls(self) -> ClientTls:
        certificate, key = self.shown
        return ClientTls(
            enabled=True, verify_server=True, trust_path=str(self.trusted), certificate_path=certificate, key_path=key
        )


def common(shown: CertificateFiles, trusted: Path) -> dict[str, str]:
    own = {"certificate_path": shown.certificate_path, "key_path": shown.key_path, "trust_path": str(trusted)}
    incoming = {"mode": "enforcing", "client_auth": "require", **own}
    outgoing = {"enabled": "true", "verify_server": "true", **own}
    return {f"tls.{name}": value for name, value in incoming.items()} | {
        f"client_tls.{name}": value for name, value in outgoing.items()
    }


def begun(directory: Path, name: str, words: list[str], settings: dict[str, str]) -> Child:
    file = directory / f"{name}.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return Child([sys.executable, "-c", MAIN, *words, "-c", str(file)], directory / f"{name}.log")


def text(log: Path) -> str:
    return log.read_text() if log.exists() else ""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("tls")
    shown, later = self_signed(str(directory), name="shown"), self_signed(str(directory), NEXT_HOSTS, name="later")
    trusted = directory / "trusted.pem"
    trusted.write_text(Path(shown.certificate_path).read_text() + Path(later.certificate_path).read_text())
    names, master, slave = free_port(), free_broker_port(), free_broker_port()
    tls = common(shown, trusted)
    access = {
        "authenticationEnabled": "true",
        "initAuthenticationUser": f'{{"username":"{KEYS[0]}","password":"{KEYS[1]}"}}',
        "innerClientAuthenticationCredentials": (
            f'{{"accessKey":"{INNER[0]}","secretKey":"{INNER[1]}","signatureMethod":"HmacSHA256"}}'
        ),
        "certificateUsers": "true",
        "authorizationEnabled": "true",
    }
    for_all = {"brokerName": "secured", "namesrvAddr": f"127.0.0.1:{names}", "brokerIP1": "127.0.0.1", **tls, **access}
    brokers = {
        "master": {"brokerRole": "SYNC_MASTER", "brokerId": "0", "listenPort": str(master), "brokerIP2": "127.0.0.1"},
        "slave": {"brokerRole": "SLAVE", "brokerId": "1", "listenPort": str(slave)},
    }
    children = [
        begun(directory, "names", ["nameserver", "--directory", str(directory)], {"listenPort": str(names), **tls})
    ]
    try:
        for name, settings in brokers.items():
            own = {"storePathRootDir": str(directory / f"store-{name}"), **for_all, **settings}
            children.append(begun(directory, name, ["broker"], own))
            wait_for(lambda name=name: SERVES[name] in text(directory / f"{name}.log"), f"the {name}", START_S)  # type: ignore[misc]
        yield Cluster(f"127.0.0.1:{names}", master, shown, trusted, later, directory, slave)
    finally:
        for child in reversed(children):
            child.kill()


def producer(cluster: Cluster) -> Producer:
    return Producer(
        cluster.names,
        group=fresh("P"),
        tls=cluster.tls,
        access_key=KEYS[0],
        secret_key=KEYS[1],
        send_timeout_ms=60_000,
        retries=1_000,  # a SYNC_MASTER refuses messages until its slave has joined
    )


def test_a_message_reaches_the_slave_over_tls(cluster: Cluster) -> None:
    async def send() -> None:
        topic = fresh("secured")
        async with producer(cluster) as sender:
            while not (await sender.send(Message(topic, b"hush"))).is_ok:
                pass  # the slave is connected, and its first report is on its way

    asyncio.run(asyncio.wait_for(send(), START_S))


@pytest.mark.parametrize("kind", ["plain", "without a certificate"])
def test_the_port_for_slaves_gives_strangers_nothing(cluster: Cluster, kind: str) -> None:
    with socket.create_connection(("127.0.0.1", cluster.port + 1), timeout=10) as stranger:
        if kind == "plain":
            stranger.sendall(FIRST_REPORT)
            assert _ends(stranger)
            return
        context = ssl.create_default_context(cafile=str(cluster.trusted))
        with context.wrap_socket(stranger, server_hostname="127.0.0.1") as secured:
            secured.sendall(FIRST_REPORT)
            with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
                secured.recv(1)


def test_a_checked_certificate_is_a_user_whose_rules_count(cluster: Cluster) -> None:
    allowed, other = fresh("allowed"), fresh("other")

    async def scenario() -> None:
        method = SignatureMethod.SHA256
        owner = Admin(cluster.names, tls=cluster.tls, access_key=KEYS[0], secret_key=KEYS[1], signature_method=method)
        async with owner as admin, Producer(cluster.names, group=fresh("P"), tls=cluster.tls) as sender:
            for topic in (allowed, other):
                await admin.topics.create(topic, broker="secured")
            with pytest.raises(FireArrowError, match="User:localhost is not found"):
                await sender.send(Message(allowed, b"no user of that name yet"))
            master = Address("127.0.0.1", cluster.port)
            await admin.accounts.create_user(master, "localhost", "never used")
            rule = PolicyEntry(resource=f"Topic:{allowed}", actions=["Pub"], decision="Allow")
            await admin.accounts.put_rule(master, "User:localhost", rule)
            while not (await sender.send(Message(allowed, b"signed by nobody"))).is_ok:
                pass  # the slave is connected, and its first report is on its way
            with pytest.raises(FireArrowError, match="permission"):
                await sender.send(Message(other, b"no rule"))
            slave = Address("127.0.0.1", cluster.slave_port)
            while not await admin.accounts.rules(slave, "User:localhost"):
                pass  # the slave copies its master's tables every 10 s
            with pytest.raises(FireArrowError, match="servers of the cluster"):
                await admin.brokers.ask(slave, CopyAccounts())

    asyncio.run(asyncio.wait_for(scenario(), START_S))


def test_new_certificates_are_shown_and_standing_connections_go_on(cluster: Cluster) -> None:
    expected = Path(cluster.later.certificate_path).read_text()

    async def scenario() -> None:
        topic = fresh("secured")
        async with producer(cluster) as sender:
            assert (await sender.send(Message(topic, b"before"))).is_ok
            for later, shown in zip(cluster.later, cluster.shown, strict=True):
                shutil.copy(later, shown)
            address = ("127.0.0.1", cluster.port)
            await asyncio.to_thread(
                wait_for, lambda: ssl.get_server_certificate(address) == expected, "the new certificate", START_S
            )
            assert (await sender.send(Message(topic, b"after"))).is_ok
        async with producer(cluster) as newcomer:
            assert (await newcomer.send(Message(topic, b"new"))).is_ok

    asyncio.run(asyncio.wait_for(scenario(), 2 * START_S))
    assert "is refused" not in text(cluster.logs / "names.log")


def _ends(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True

"""Secrets are in nothing that is written: markers stand for them, and everything written is searched.

A broker and a name server with users, TLS with an encrypted key, metrics and the audit log, at the level DEBUG;
commands, a client, requests that succeed and that fail. Only files that hold secrets on purpose may hold a marker:
the account file (mode 0600), plain_acl.yml, and the settings that the test itself has written.
"""

import asyncio
import base64
import logging
import os
import signal
import stat
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from firearrow.client import Message, Producer
from firearrow.errors import FireArrowError
from firearrow.protocol.auth import Credentials
from firearrow.protocol.bodies.admin.auth import UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.requests.admin.auth import (
    AuthCreateUser,
    AuthListUser,
    AuthUpdateUser,
    GetBrokerClusterAclConfig,
    UpdateAndCreateAclConfig,
)
from firearrow.protocol.requests.admin.config import GetBrokerConfig, GetNamesrvConfig, UpdateBrokerConfig
from firearrow.runtime.tls_settings import ClientTls
from firearrow.spark.bodies.registry import SchemaRegistry
from firearrow.testing.certificates import self_signed
from firearrow.testing.ports import free_port
from judges.process import ChildFailed
from judges.server_process import wait_for
from tests.integration.security import plants
from tests.integration.security.test_secret_reading import SECRETS as PLAIN_SECRETS
from tests.integration.security.test_secret_reading import plain_broker
from tests.integration.security.victim import INNER, MAIN, ROOT, USERS_ON, Victim

pytestmark = pytest.mark.real

KEY_PASSWORD = "password-of-key-4be7"
USER_PASSWORD = "password-of-user-88c3"
WRONG = Credentials("root", "wrong-password-0d4f")
STRAY = "stray-password-a9e1"
SECRETS = [ROOT.secret_key, INNER.secret_key, KEY_PASSWORD, USER_PASSWORD, WRONG.secret_key, STRAY, *PLAIN_SECRETS]
ON_PURPOSE = ("server.conf", "own/config/access.json", "own/config/plain_acl.yml", "own/access.json")
DEBUG = ("--log-format", "json", "--log-level", "debug")


@dataclass
class Written:
    """The written texts: outputs by their writer, and directories."""

    outputs: dict[str, bytes] = field(default_factory=dict)
    directories: list[Path] = field(default_factory=list)

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Everything, by where it was found."""
        yield from self.outputs.items()
        for directory in self.directories:
            for path in directory.rglob("*"):
                if path.is_file():
                    yield str(path), path.read_bytes()


def forms(secret: str) -> set[bytes]:
    """The forms in which a secret can be written."""
    data = secret.encode()
    return {
        data,
        base64.b64encode(data).rstrip(b"="),
        data.hex().encode(),
        urllib.parse.quote(secret).encode(),
        data[::-1],
    }


def found(written: Written) -> list[str]:
    """Secrets in places where they should not be, and private files that others can read."""
    wrong = []
    for where, data in written.all():
        here = [secret for secret in SECRETS if any(form in data for form in forms(secret))]
        if here and not where.endswith(ON_PURPOSE):
            wrong.append(f"{where} holds {here}")
        if where.endswith("access.json") and stat.S_IMODE(Path(where).stat().st_mode) != 0o600:
            wrong.append(f"{where} can be read by others")
    return wrong


def encrypted_key(directory: Path) -> dict[str, str]:
    """Settings of TLS with a key that has a password."""
    files = self_signed(str(directory))
    key = serialization.load_pem_private_key(Path(files.key_path).read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
    form = serialization.PrivateFormat.PKCS8
    Path(files.key_path).write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    paths = {"tls.certificate_path": files.certificate_path, "tls.key_path": files.key_path}
    return {**paths, "tls.key_password": KEY_PASSWORD}


def ask_for_everything(server: Victim) -> None:
    """Successes and refusals, with secrets wherever a request can hold one."""
    user = AuthCreateUser(username="user")
    bodies = [
        encode_body(UserInfo(password=USER_PASSWORD)),
        encode_body(UserInfo(password=USER_PASSWORD, user_type=STRAY)),
        encode_body(UserInfo(password=STRAY * 1000)),
        b'{"username":"user","password":"%s"' % STRAY.encode(),
        b'{"username":"user","password":["%s"]}' % STRAY.encode(),
        STRAY.encode() + b"\xff",
    ]
    for body in bodies:
        for keys in (ROOT, WRONG, None):
            server.ask(user, body, keys)
            server.ask(AuthUpdateUser(username="user"), body, keys)
    for length in (6, 600):
        secret = (STRAY * 100)[:length] if length > 6 else STRAY
        server.ask(UpdateAndCreateAclConfig(access_key="user", secret_key=secret, topic_perms="x=?"), b"", ROOT)
    server.ask(UpdateBrokerConfig(), f"initAuthenticationUser={STRAY}\ntls.key_password={STRAY}\n".encode(), ROOT)
    for request in (GetBrokerConfig(), GetNamesrvConfig(), AuthListUser(), GetBrokerClusterAclConfig()):
        server.ask(request, b"", ROOT)


def run(words: list[str], environment: Mapping[str, str], written: Written, **more: bytes) -> int:
    """Run a command; its outputs are among what was written."""
    command = [sys.executable, "-c", MAIN, *words]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False, **more)  # type: ignore[call-overload]
    written.outputs[f"output of {words}"] = done.stdout + done.stderr
    return int(done.returncode)


def commands(broker: Victim, written: Written, home: Path) -> None:
    """Commands that succeed and that fail."""
    right = {"FIREARROW_NAMESRV": broker.address, "FIREARROW_ACCESS_KEY": "root", "XDG_CONFIG_HOME": str(home)}
    right["FIREARROW_SECRET_KEY"] = ROOT.secret_key
    wrong = {**right, "FIREARROW_SECRET_KEY": WRONG.secret_key}
    at = ["-b", broker.address]
    made = {**right, "FIREARROW_USER_PASSWORD": USER_PASSWORD}
    assert run(["user", "create", "shop", *at], made, written) == 0
    assert run(["user", "create", "shop", *at], {**wrong, "FIREARROW_USER_PASSWORD": STRAY}, written) != 0
    assert run(["user", "list", "--json", *at], right, written) == 0
    assert run(["--secret-key", WRONG.secret_key, "user", "list", *at], right, written) != 0
    assert run(["--secret-key", STRAY, "--nonsense"], right, written) != 0


async def client_fails(broker: Victim, written: Written) -> None:
    """A client with a wrong secret: what it raises, and what it is."""
    keys = {"access_key": WRONG.access_key, "secret_key": WRONG.secret_key}
    tls = ClientTls(enabled=True, key_password=KEY_PASSWORD)
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        (broker.address, {}),
        ("127.0.0.1:1", {"tls": tls}),
        (broker.address, {"secret": STRAY}),
    )
    for address, more in cases:
        try:
            async with Producer(address, group="P", request_timeout_ms=1000, **{**keys, **more}) as producer:
                written.outputs[f"repr of {more}"] = f"{producer!r} {producer.settings!r}".encode()
                await producer.send(Message.of("t", b"x"))
        except FireArrowError as error:
            written.outputs[f"error of {address} {sorted(more)}"] = f"{error!r} {error}".encode()
        else:
            raise AssertionError(f"{address} let it pass")


def bad_starts(written: Written) -> None:
    """Servers that do not start, because of a setting beside or in a secret."""
    settings = (
        {**USERS_ON, "initAuthenticationUser": f'{{"username":"root","password":"{STRAY}"'},
        {**USERS_ON, "innerClientAuthenticationCredentials": f'{{"accessKey":1,"secretKey":"{STRAY}"}}'},
        {"initAuthenticationUsers": STRAY, "tls.key_pasword": STRAY, "tls.mode": "never"},
        {"tls.certificate_path": "none.pem", "tls.key_path": "none.key", "tls.key_password": STRAY},
    )
    for number, given in enumerate(settings):
        server = Victim("nameserver" if number == 0 else "broker", given)
        try:
            server.start()
        except ChildFailed:
            written.outputs[f"start {number}"] = server.log.read_bytes()
        else:
            raise AssertionError(f"{given} let a server start: {server.log.read_text()}")
        finally:
            server.close()


def scrape(port: int) -> bytes:
    """The page of the metrics port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        body: bytes = answer.read()
    return body


def replay(broker: Victim, written: Written) -> None:
    """Ask a broker for everything, at the level DEBUG."""
    broker.child.signal(signal.SIGUSR1)
    ask_for_everything(broker)
    broker.stop()
    assert broker.log.stat().st_size > 1000
    written.directories.append(broker.home)


def test_no_secret_is_in_anything_that_servers_commands_and_clients_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written, metrics = Written(), free_port()
    tls = encrypted_key(tmp_path)
    with ExitStack() as servers, caplog.at_level(logging.DEBUG):
        broker = Victim("broker", {**USERS_ON, **tls})
        broker.arguments = (*DEBUG, "--metrics-port", str(metrics))
        names = Victim("nameserver", {**USERS_ON, **tls})
        names.arguments = DEBUG
        for server in (broker, names):
            servers.enter_context(server)
            written.directories.append(server.home)
        ask_for_everything(names)
        commands(broker, written, tmp_path / "home")
        asyncio.run(client_fails(broker, written))
        written.outputs["metrics"] = scrape(metrics)
        replay(broker, written)
        assert (broker.own / "audit").is_dir()
        written.outputs["the log of this process"] = caplog.text.encode()
        with pytest.raises(FireArrowError) as error:
            SchemaRegistry(f"ftp://user:{STRAY}@registry")
        written.outputs["registry"] = str(error.value).encode()
        assert found(written) == []
        assert USER_PASSWORD.encode() in (broker.own / "config" / "access.json").read_bytes(), (
            "the search looks elsewhere"
        )


def test_no_secret_is_in_the_words_of_a_server_that_does_not_start() -> None:
    written = Written()
    bad_starts(written)
    assert len(written.outputs) == 4
    assert all(written.outputs.values())
    assert found(written) == []


def test_no_secret_is_in_a_traceback() -> None:
    written = Written()
    with Victim("broker", USERS_ON, plants.breaks_when_it_makes_a_user.__name__) as broker:
        replay(broker, written)
        wait_for(lambda: "ZeroDivisionError" in broker.log.read_text(), "the traceback")
        assert found(written) == []


def test_no_secret_of_49_is_written_elsewhere() -> None:
    written = Written()
    with plain_broker() as broker:
        broker.ask(GetBrokerClusterAclConfig(), b"", Credentials("admin", PLAIN_SECRETS[-1]))
        broker.ask(GetBrokerClusterAclConfig(), b"", Credentials("admin", STRAY))
        replay(broker, written)
        assert found(written) == []


def test_a_server_that_logs_a_password_is_seen() -> None:
    written = Written()
    with Victim("broker", USERS_ON, plants.logs_users_whole.__name__) as broker:
        replay(broker, written)
        assert [line for line in found(written) if "output.log" in line and USER_PASSWORD in line]

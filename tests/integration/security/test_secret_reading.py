"""CVE-2024-23321: who could read the ACL configuration read the secrets of admins in it.

Our rule: secrets are written, never read back: no answer to any request holds one, whoever asks.
"""

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firearrow.protocol.auth import Credentials
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests import ALL
from firearrow.protocol.requests.admin.auth import (
    AuthCreateAcl,
    AuthCreateUser,
    AuthGetUser,
    AuthListUser,
    GetBrokerClusterAclConfig,
)
from firearrow.protocol.requests.admin.config import GetBrokerConfig
from tests.integration.security.victim import INNER, ROOT, USERS_ON, Victim
from tests.unit.access.servers import sample

pytestmark = pytest.mark.real

READER = Credentials("reader", "password-of-reader-51d0")
ADMIN = Credentials("admin", "secret-key-of-admin-c0de")
PLAIN = f"""
globalWhiteRemoteAddresses: []
accounts:
  - {{accessKey: {ADMIN.access_key}, secretKey: {ADMIN.secret_key}, admin: true}}
  - {{accessKey: {READER.access_key}, secretKey: {READER.secret_key}, admin: false, defaultTopicPerm: SUB}}
"""
SECRETS = [keys.secret_key for keys in (ROOT, INNER, READER, ADMIN)]
MAINS = {
    "firearrow": "import sys; from firearrow.cli import main; sys.exit(main())",
    "mqadmin": "import sys; from firearrow.cli.mqadmin import main; sys.exit(main())",
}
EXPORTS = (
    ("firearrow", "user", "list"),
    ("firearrow", "acl", "list"),
    ("mqadmin", "listUser"),
    ("mqadmin", "getBrokerConfig"),
)


def leaked(data: bytes) -> list[str]:
    """The secrets in an answer, as they are or as base64 or hexadecimal digits."""
    texts = {
        secret: (secret.encode(), base64.b64encode(secret.encode()), secret.encode().hex().encode())
        for secret in SECRETS
    }
    return [secret for secret, forms in texts.items() if any(form in data for form in forms)]


def make_reader(broker: Victim) -> None:
    """Make a user that may read everything about the cluster."""
    assert (
        broker.ask(AuthCreateUser(username="reader"), encode_body(UserInfo(password=READER.secret_key)), ROOT).code == 0
    )
    entry = PolicyEntry(resource="*", actions=["Get", "List"], decision="Allow")
    info = AclInfo(subject="User:reader", policies=[Policy(policy_type="Custom", entries=[entry])])
    assert broker.ask(AuthCreateAcl(subject="User:reader"), encode_body(info), ROOT).code == 0


def answers(broker: Victim, keys: Credentials) -> Iterator[tuple[str, bytes]]:
    """Everything that a broker says to every request there is."""
    reads: list[Request[Any]] = [
        AuthGetUser(username="root"),
        AuthGetUser(username="reader"),
        AuthListUser(),
        GetBrokerConfig(),
    ]
    for request in [*reads, GetBrokerClusterAclConfig(), *map(sample, ALL)]:
        answer = broker.ask(request, keys=keys)
        yield type(request).__name__, f"{answer.remark}{answer.fields}".encode() + answer.body


def replay(broker: Victim) -> None:
    """Read with every request, as those who may read everything."""
    is_plain = "aclEnable" in broker.settings
    if not is_plain:
        make_reader(broker)
    heard = 0
    for keys in (ADMIN if is_plain else ROOT, READER):
        for name, data in answers(broker, keys):
            heard += len(data)
            assert not leaked(data), f"{name} shows {keys.access_key} a secret"
    assert heard > 10_000, "the requests were not answered"


def plain_broker(plant: str = "") -> Victim:
    """A broker with the accounts of 4.9."""
    broker = Victim("broker", {"aclEnable": "true"}, plant)
    (broker.own / "config").mkdir()
    (broker.own / "config" / "plain_acl.yml").write_text(PLAIN)
    return broker


def test_no_request_shows_a_password() -> None:
    with Victim("broker", USERS_ON) as broker:
        replay(broker)


def test_no_request_shows_a_secret_key_of_49() -> None:
    with plain_broker() as broker:
        replay(broker)


def test_no_command_exports_a_password(tmp_path: Path) -> None:
    with Victim("broker", USERS_ON) as broker:
        make_reader(broker)
        # With a broker's address no name server is asked, but the commands want to know one.
        keys = {
            "FIREARROW_NAMESRV": broker.address,
            "FIREARROW_ACCESS_KEY": ROOT.access_key,
            "FIREARROW_SECRET_KEY": ROOT.secret_key,
        }
        for program, *words in EXPORTS:
            command = [sys.executable, "-c", MAINS[program], *words, "-b", broker.address]
            done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **keys}, capture_output=True, check=False)
            assert done.returncode == 0, done
            assert re.search(b"root|reader|brokerName", done.stdout), done
            assert not leaked(done.stdout + done.stderr)

"""Commands at Apache's brokers behind accounts and behind TLS: the right key, a wrong one, none."""

from pathlib import Path

import pytest

from judges import ApacheNameServer, fresh
from judges.install.artifacts import SERVER_VERSIONS
from tests.interop.cli.commands import Commands
from tests.interop.client.secured import OWNER, SecuredBroker, TlsBroker, certified

pytestmark = pytest.mark.apache


@pytest.mark.parametrize("version", SERVER_VERSIONS)
def test_commands_sign_with_keys_of_the_environment(version: str) -> None:
    topic, group = fresh("signed"), fresh("G")
    with ApacheNameServer(version) as names, SecuredBroker(version, names.address):
        command = Commands(names.address)
        denied = command.fails("topic", "create", topic)
        assert "Traceback" not in denied
        command.environment |= {"FIREARROW_ACCESS_KEY": OWNER[0], "FIREARROW_SECRET_KEY": "wrong-secret"}
        assert "wrong-secret" not in command.fails("produce", topic, "-m", "x")
        command.environment["FIREARROW_SECRET_KEY"] = OWNER[1]
        command("topic", "create", topic, "-q", "1")
        command("produce", topic, "-m", "x")
        assert command("consume", topic, "-f", "raw") == "x\n"
        assert command("consume", topic, "-g", group, "-f", "raw", "--limit", "1") == "x\n"
        assert group in command("group", "list")
        command("topic", "delete", topic, "--yes")


@pytest.mark.parametrize("version", SERVER_VERSIONS)
def test_commands_speak_tls(version: str, tmp_path: Path) -> None:
    topic = fresh("tls")
    authority, flags = certified(tmp_path)
    with ApacheNameServer(version, flags=flags) as names, TlsBroker(version, names.address, flags):
        command = Commands(names.address)
        assert "Traceback" not in command.fails("topic", "list", "--all", "-n", names.address)
        command("--trust", str(authority), "topic", "create", topic, "-q", "1")
        command.environment["FIREARROW_TLS"] = "1"
        command("produce", topic, "-m", "x")
        assert command("consume", topic, "-f", "raw") == "x\n"

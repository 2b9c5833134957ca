"""CVE-2023-37582: a name server wrote what anybody sent it into a file that anybody named (configStorePath).

Our rule: no path is a setting that changes over the wire, and a refused request changes no byte of any file. Apache's
first mend refused and then went on; the bytes of all files are compared here.
"""

from typing import Any

import pytest

from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.config import (
    GetBrokerConfig,
    GetNamesrvConfig,
    UpdateBrokerConfig,
    UpdateNamesrvConfig,
)
from firearrow.protocol.requests.naming.kv_config import PutKvConfig
from tests.integration.security.victim import Victim

pytestmark = pytest.mark.real

EVIL = r"attacker\nlisten=0.0.0.0\n* * * * * root touch /pwned"
BODIES = (
    "{path}={evil}\nproductEnvName={text}\n",
    "rocketmqHome={evil}\n",
    "configBlackList=x\n{path}={evil}\n",
    "{allowed}\n{path}={evil}\n",
    "{path}={evil}\n{allowed}\n",
    "{allowed}\n{number}=1\\n{path}={evil}\n",
    "{number}={text}\n",
)
PATHS = {"nameserver": ("configStorePath", "kvConfigPath"), "broker": ("storePathRootDir", "brokerConfigPath")}
ALLOWED = {"nameserver": "orderMessageEnable=true", "broker": "brokerPermission=4"}
NUMBER = {"nameserver": "waitSecondsForService", "broker": "fileReservedTime"}


def replay(server: Victim) -> None:
    """Ask the server to write what we want where we want it."""
    update: Request[Any] = UpdateNamesrvConfig() if server.role == "nameserver" else UpdateBrokerConfig()
    get: Request[Any] = GetNamesrvConfig() if server.role == "nameserver" else GetBrokerConfig()
    settings, before = server.ask(get).body, server.bytes_of_files()
    names = {"text": EVIL, "allowed": ALLOWED[server.role], "number": NUMBER[server.role]}
    bodies = [
        body.format(path=path, evil=evil, **names)
        for body in BODIES
        for path in PATHS[server.role]
        for evil in (server.home / "evil", "../../../evil")
    ]
    taken = [body for body in bodies if server.ask(update, body.encode()).code == 0]
    after = server.bytes_of_files()
    assert not [name for name in after if "evil" in name], "a file was written where the attacker wanted it"
    changed = sorted(name for name in after if before.get(name) != after[name])
    assert not changed, f"refused, and yet changed: {changed}"
    assert server.ask(get).body == settings, "settings have changed"
    assert not taken, f"not refused: {taken}"


@pytest.mark.parametrize("role", ["nameserver", "broker"])
def test_nothing_is_written_where_a_request_says(role: str) -> None:
    with Victim(role) as server:
        replay(server)


def test_a_namespace_is_no_path() -> None:
    with Victim("nameserver") as server:
        assert server.ask(PutKvConfig(namespace="../../evil", key="../evil", value=EVIL)).code == 0
        assert "cage/a/b/c/own/kvConfig.json" in server.paths()
        assert not [path for path in server.paths() if "evil" in path]

"""The audit log of a real broker that is killed (SIGKILL) while it refuses requests: no line is lost or damaged."""

import asyncio
import sys
from pathlib import Path

import pytest

from firearrow.access.audit_lines import Verified, verify
from firearrow.errors import ConnectionFailed, ConnectionLost, RequestRefused
from firearrow.protocol.requests.admin.config import GetBrokerConfig
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.testing.ports import free_broker_port
from judges.process import Child
from judges.server_process import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
START_S = 60.0
KILLS = 3
REFUSALS = 100
AT_ONCE = 8
SETTINGS = """
listenPort={port}
brokerIP1=127.0.0.1
bind_address=127.0.0.1
storePathRootDir={store}
authenticationEnabled=true
auditLogFileSize=16384
initAuthenticationUser={{"username":"root","password":"root-secret"}}
innerClientAuthenticationCredentials={{"accessKey":"root","secretKey":"root-secret"}}
"""


def verified(store: Path) -> Verified:
    return verify([(file.name, file.read_bytes()) for file in sorted((store / "audit").iterdir())])


async def be_refused(port: int, child: Child) -> int:
    """Ask without an account, several at once, until the broker is killed; return how many refusals were read."""
    caller, refused = Caller(SystemNetwork()), 0

    async def ask() -> None:
        nonlocal refused
        while True:
            try:
                await caller.call(Address("127.0.0.1", port), GetBrokerConfig())
            except RequestRefused:
                refused += 1
                if refused == REFUSALS:
                    child.kill()
            except (ConnectionLost, ConnectionFailed):
                return

    try:
        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    finally:
        await caller.close()
    return refused


def test_kills_damage_no_line(tmp_path: Path) -> None:
    port, store, refused = free_broker_port(), tmp_path / "store", 0
    settings = tmp_path / "broker.conf"
    settings.write_text(SETTINGS.format(port=port, store=store))
    for turn in range(KILLS):
        log = tmp_path / f"{turn}.log"
        child = Child([sys.executable, "-c", MAIN, "broker", "-c", str(settings)], log)
        try:
            wait_for(lambda log=log: "broker serves" in log.read_text(), "the broker", START_S)  # type: ignore[misc]
            refused += asyncio.run(be_refused(port, child))
        finally:
            child.kill()
        found = verified(store)
        assert found.faults == ()
        # A line is written in the turn after its request: of those in flight at the kill some may have none.
        assert found.lines >= refused - AT_ONCE * (turn + 1)
    assert refused >= KILLS * REFUSALS
    assert len(list((store / "audit").iterdir())) > 1

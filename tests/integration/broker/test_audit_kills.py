"""The audit log of a real broker that is killed (SIGKILL) at work: no line is lost or damaged."""

import asyncio
import sys
from pathlib import Path

import pytest

from campaigns.samples import a_topic
from firearrow.access.audit_lines import AuditVerification, verify
from firearrow.access.audit_log import ALLOWED, REFUSED
from firearrow.errors import ConnectionFailed, ConnectionLost, RequestRefused
from firearrow.protocol.auth import Credentials, Signer
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.testing.ports import free_broker_port
from judges.process import Child
from judges.server_process import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
START_S = 60.0
KILLS = 3
ANSWERS = 100
AT_ONCE = 8
A_CHANGE = a_topic("T")
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


def verified(store: Path, which: str) -> AuditVerification:
    files = sorted((store / "audit").glob(f"{which}-*"))
    return verify([(file.name, file.read_bytes()) for file in files])


async def ask_until_killed(port: int, child: Child) -> tuple[int, int]:
    """Ask as root and without an account, several at once, until the broker is killed; return how many of each."""
    root = Caller(SystemNetwork(), sign=Signer(Credentials("root", "root-secret")))
    nobody = Caller(SystemNetwork())
    answered = refused = 0

    async def ask(caller: Caller) -> None:
        nonlocal answered, refused
        while True:
            try:
                await caller.call(Address("127.0.0.1", port), A_CHANGE)
                answered += 1
                if answered == ANSWERS:
                    child.kill()
            except RequestRefused:
                refused += 1
            except (ConnectionLost, ConnectionFailed):
                return

    try:
        await asyncio.gather(*(ask(caller) for _ in range(AT_ONCE) for caller in (root, nobody)))
    finally:
        await root.close()
        await nobody.close()
    return answered, refused


def test_kills_damage_no_line(tmp_path: Path) -> None:
    port, store, answered = free_broker_port(), tmp_path / "store", 0
    settings = tmp_path / "broker.conf"
    settings.write_text(SETTINGS.format(port=port, store=store))
    for turn in range(KILLS):
        log = tmp_path / f"{turn}.log"
        child = Child([sys.executable, "-c", MAIN, "broker", "-c", str(settings)], log)
        try:
            wait_for(lambda log=log: "broker serves" in log.read_text(), "the broker", START_S)  # type: ignore[misc]
            now_answered, refused = asyncio.run(ask_until_killed(port, child))
        finally:
            child.kill()
        answered += now_answered
        allowed, refusals = verified(store, ALLOWED), verified(store, REFUSED)
        assert allowed.faults == refusals.faults == ()
        assert refused
        assert refusals.lines > turn  # refusals are damped: not every one has its line
        # A line is written in the turn after its request: of those in flight at the kill some may have none.
        assert allowed.lines >= answered - AT_ONCE * (turn + 1)
    assert answered >= KILLS * ANSWERS

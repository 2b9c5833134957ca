"""Self-check: the broker connects to the address that name servers give to clients, and asks itself a question.

A wrong address is the most common mistake of an installation, and clients only say that they cannot connect. The
question carries nothing secret; the answer must come from this very process. In some networks a host cannot reach its
own public address, so a failure is only a warning.
"""

import logging
from typing import Final

from firearrow.broker.identity import Identity
from firearrow.errors import AccessDenied, FireArrowError
from firearrow.fastjson import decode
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

INSTANCE_KEY: Final = "firearrowInstance"
"""The running value that tells one process from another."""
TIMEOUT_MS: Final = 3_000

log = logging.getLogger(__name__)


async def check(caller: Caller, identity: Identity, instance: str) -> str | None:
    """Return why clients may not reach the broker; None when the broker reached itself."""
    address = Address(identity.ip, identity.port)
    try:
        reply = await caller.call(address, GetBrokerRuntimeInfo(), timeout_ms=TIMEOUT_MS)
        answered = decode(reply.body, KVTable).table.get(INSTANCE_KEY)
    except AccessDenied:
        return None  # a broker answers, and this one has no keys (innerClientAuthenticationCredentials) to ask further
    except FireArrowError as error:
        return f"nobody answers at {address}, the address that clients are told: {error}"
    if answered != instance:
        return f"another process answers at {address}, the address that clients are told"
    return None


async def warn(caller: Caller, identity: Identity, instance: str) -> None:
    """Run `check` and log the fault that it finds."""
    fault = await check(caller, identity, instance)
    if fault is not None:
        log.warning("clients may not reach this broker: set brokerIP1 or --advertise", extra={"why": fault})

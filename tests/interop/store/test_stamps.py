"""Apache 5.5.0 told to stamp and to check stamps: it agrees with ours about every one of them.

Without being told it copies the stamp of a delayed message as a property like any other; `test_in_turns` covers that.
"""

import asyncio

import pytest

from campaigns.store.plan import message
from campaigns.store.programs import examine_as_ours, write_as_ours
from campaigns.store.talk import talking_to
from tests.interop.store.conftest import BrokerOf
from tests.interop.store.sizes import SECONDS

pytestmark = [pytest.mark.apache, pytest.mark.timeout(SECONDS)]

MESSAGES = 3200
STRICT = {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"}


def test_apache_checks_our_stamps(broker_of: BrokerOf) -> None:
    """Ours dies, so that Apache reads the log again; it stamps what it delivers, and ours checks those stamps."""

    async def work() -> None:
        async with broker_of("5.5.0", **STRICT) as broker:
            promised = await asyncio.to_thread(
                write_as_ours, broker.store, broker.port, 0, MESSAGES, killed_after=MESSAGES
            )
            due = [number for number in promised if message(number).is_delivered]
            await asyncio.to_thread(broker.start)
            async with talking_to(broker.address) as talk:
                await talk.holds(len(due), SECONDS / 4)
            await asyncio.to_thread(broker.kill)
            findings = await asyncio.to_thread(examine_as_ours, broker.store, promised)
        assert not findings.wrong, findings
        assert findings.planned == len(due)
        assert findings.whole == findings.records > MESSAGES, "stamps of Apache's are as good as ours"

    asyncio.run(work())

"""Many messages due in the same second, stored ahead: how late they come, and that none is early.

    python -m campaigns.timer burst --count 100000

Apache's broker and ours are measured one after the other in one run, each at its own defaults (precision 1000 ms): the
store time of the delivered record against the time that was asked for.
"""

import asyncio
import math
from pathlib import Path
from typing import Final

from campaigns.faults.ledger import Figures
from campaigns.timer.talk import Timer, TimerTalk, now_ms, talking
from judges import ApacheBroker, FireArrowBroker, fresh

SENT_A_SECOND: Final = 2500
MARGIN_S: Final = 8
PATIENCE_S: Final = 240
PROBE_S: Final = 0.02


async def burst(broker: ApacheBroker, count: int, whose: str) -> Figures:
    """Send messages for one time and read them after it; return how late they were."""
    await asyncio.to_thread(broker.start)
    topic = await asyncio.to_thread(broker.create_topic, fresh("burst"), 1)
    due_ms = now_ms() + (math.ceil(count / SENT_A_SECOND) + MARGIN_S) * 1000
    async with talking(broker.address, topic) as talk:
        await talk.send_all(Timer(number, due_ms) for number in range(count))
        left_ms = due_ms - now_ms()
        assert left_ms > 0, "sending took too long for this plan"
        pending_mib = _resident_mib(broker)
        slowest_ms = await _watch(talk, count, left_ms)
        late = sorted(message.store_timestamp - due_ms for message in await talk.delivered())
    await asyncio.to_thread(broker.stop)
    return {
        "whose": whose,
        "timers": count,
        "delivered": len(late),
        "early": sum(one < 0 for one in late),
        "late_ms_p50": late[len(late) // 2],
        "late_ms_p99": late[len(late) * 99 // 100],
        "late_ms_max": late[-1],
        "slowest_request_ms": slowest_ms,
        "pending_resident_mib": pending_mib,
    }


async def _watch(talk: TimerTalk, count: int, left_ms: int) -> int:
    """Ask for the end of the queue until all are there; return the slowest answer, in milliseconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + left_ms / 1000 + PATIENCE_S
    slowest = 0.0
    while True:
        began = loop.time()
        end = await talk.end()
        slowest = max(slowest, loop.time() - began)
        if end >= count:
            return round(slowest * 1000)
        assert loop.time() < until, f"{end} of {count} messages came"
        await asyncio.sleep(PROBE_S)


def _resident_mib(broker: ApacheBroker) -> int:
    """The resident memory of a broker's process."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return 0


def brokers(name_server: str) -> dict[str, ApacheBroker]:
    """Apache's broker and ours."""
    names = [name_server]
    return {
        "apache": ApacheBroker("5.5.0", name_servers=names, name=fresh("burst"), measured=True),
        "ours": FireArrowBroker(name_servers=names, name=fresh("burst"), settings={"brokerFastFailureEnable": "false"}),
    }

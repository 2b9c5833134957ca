"""Many messages due in the same second, stored ahead: how late they come, and that none is early.

    python -m campaigns.timer burst --count 500000

Apache's broker and ours are measured one after the other in one run, each at its own defaults (precision 1000 ms): the
store time of the delivered record against the time that was asked for, a whole second. Messages for a time in two days
are sent first: their rate tells how far ahead the time of the others must be, and the broker is warm.
"""

import asyncio
from typing import Final

from campaigns.faults.ledger import Figures
from campaigns.timer.stream import stream
from campaigns.timer.talk import TimerTalk, now_ms, talking
from judges import ApacheBroker, FireArrowBroker, fresh

WARM_UP: Final = 20_000
"""Messages from which the rate is told."""
WARM_UP_DUE_S: Final = 40 * 3600
SLOWER: Final = 1.6
"""The factor by which all messages may be slower than the first."""
MARGIN_S: Final = 8
PATIENCE_S: Final = 240
PROBE_S: Final = 0.02
MIB: Final = 1 << 20
# Readers get more than 32 messages at once, so that reading half a million of them takes seconds.
_SETTINGS: Final = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(MIB)}


async def burst(broker: ApacheBroker, count: int, whose: str) -> Figures:
    """Send messages for one time and read them after it; return how late they were."""
    await asyncio.to_thread(broker.start)
    topic = await asyncio.to_thread(broker.create_topic, fresh("burst"), 1)
    due_ms = (now_ms() // 1000 + await _sending_s(broker, count) + MARGIN_S) * 1000
    began_ms = now_ms()
    await stream(broker.address, topic, due_ms, count)
    sent_ms = now_ms()
    assert sent_ms < due_ms, f"sending took {sent_ms - due_ms} ms too long: raise SLOWER or MARGIN_S"
    async with talking(broker.address, topic) as talk:
        pending_mib = broker.memory_bytes() // MIB
        cpu_s = broker.cpu_seconds()
        slowest_ms = await _watch(talk, count, due_ms - now_ms())
        cpu_s = broker.cpu_seconds() - cpu_s
        delivered = await talk.delivered()
    await asyncio.to_thread(broker.stop)
    late = sorted(message.store_timestamp - due_ms for message in delivered)
    return {
        "whose": whose,
        "timers": count,
        "delivered": len({message.body for message in delivered}),
        "early": sum(one < 0 for one in late),
        "late_ms_p1": late[len(late) // 100],
        "late_ms_p50": late[len(late) // 2],
        "late_ms_p99": late[len(late) * 99 // 100],
        "late_ms_max": late[-1],
        "sent_a_second": round(count * 1000 / (sent_ms - began_ms)),
        "slowest_request_ms": slowest_ms,
        "pending_resident_mib": pending_mib,
        "cpu_s": round(cpu_s, 1),
    }


async def _sending_s(broker: ApacheBroker, count: int) -> int:
    """Return how many seconds sending ``count`` messages takes at most, by a measured rate."""
    topic = await asyncio.to_thread(broker.create_topic, fresh("warm"), 1)
    due_ms = now_ms() + WARM_UP_DUE_S * 1000
    few = min(WARM_UP, max(count // 10, 1))
    began_ms = now_ms()
    await stream(broker.address, topic, due_ms, few)
    return round(SLOWER * (now_ms() - began_ms) / 1000 * count / few)


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


def brokers(name_server: str) -> dict[str, ApacheBroker]:
    """Apache's broker and ours."""
    names = [name_server]
    ours = _SETTINGS | {"brokerFastFailureEnable": "false", "mappedFileSizeCommitLog": str(1 << 30)}
    return {
        "apache": ApacheBroker("5.5.0", name_servers=names, name=fresh("burst"), settings=_SETTINGS, measured=True),
        "ours": FireArrowBroker(name_servers=names, name=fresh("burst"), settings=ours),
    }

"""Millions of pending timers: how much memory the broker takes, and how long it takes to start.

    python -m campaigns.timer pending --count 10000000 --ledger

The store is filled by the broker's own code in this process (`fill`), which takes minutes for ten million. Then the
broker is started, stopped and started, killed and started. Before each of these ends, messages that are due soon are
sent; each of them must come after the start, and not early.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from campaigns.faults.ledger import Figures
from campaigns.timer.fill import fill, filling
from campaigns.timer.talk import Timer, now_ms, talking
from firearrow.broker.settings.config import BrokerSettings
from firearrow.runtime.loops import new_loop
from judges import FireArrowBroker, fresh

SAMPLE: Final = 1_000
"""Messages that are due soon."""
SOON_S: Final = 30
SPREAD_S: Final = 36 * 3600
"""Seconds over which the pending messages are due; inside the window of the wheel, so that none is stored again."""
BEGIN_S: Final = 3 * 3600
PATIENCE_S: Final = 60
MIB: Final = 1 << 20
_SETTINGS: Final = {
    "brokerFastFailureEnable": "false",
    "mappedFileSizeCommitLog": str(1 << 30),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}


def pending(name_server: str, count: int) -> Iterator[Figures]:
    """Fill a store with messages that wait, then start brokers on it."""
    with closing(FireArrowBroker(name_servers=[name_server], name=fresh("pending"), settings=_SETTINGS)) as broker:
        empty_mib = _begun(broker)["resident_mib"]
        topic = broker.create_topic(fresh("timed"), 1)
        broker.stop()
        filled_s = _fill(broker, count)
        told = {"timers": count, "filled_s": filled_s, "empty_resident_mib": empty_mib, **_disk_mib(broker)}
        yield {"start": "first", **told, **_begun(broker)}
        for end in ("stop", "kill"):
            timers = [Timer(number, now_ms() + SOON_S * 1000 + number * 7) for number in range(SAMPLE)]
            asyncio.run(_send(broker, topic, timers))
            (broker.kill if end == "kill" else broker.stop)()
            begun = _begun(broker)
            yield {"start": f"after {end}", "timers": count, **begun, **asyncio.run(_delivered(broker, topic, timers))}
            topic = broker.create_topic(fresh("timed"), 1)
        broker.stop()


def _begun(broker: FireArrowBroker) -> Figures:
    """Start the broker; return how long it took, and its memory."""
    began = time.monotonic()
    broker.start()
    ready_s = round(time.monotonic() - began, 1)
    resident, most = broker.memory_bytes() // MIB, broker.memory_bytes("VmHWM") // MIB
    return {"ready_s": ready_s, "resident_mib": resident, "most_resident_mib": most}


def _fill(broker: FireArrowBroker, count: int) -> int:
    began, begin_ms = time.monotonic(), (now_ms() // 1000 + BEGIN_S) * 1000

    async def all_of_them() -> None:
        async with filling(str(broker.store), BrokerSettings()) as at:
            await fill(at, "other", count, lambda number: begin_ms + number * 7919 % (SPREAD_S * 1000))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(all_of_them())
    return round(time.monotonic() - began)


def _disk_mib(broker: FireArrowBroker) -> Figures:
    """The bytes on disk of log, timer log and wheel, without holes."""

    def used(name: str) -> int:
        where = Path(broker.store) / name
        files = [where] if where.is_file() else [file for file in where.rglob("*") if file.is_file()]
        return sum(file.stat().st_blocks * 512 for file in files) // MIB

    return {"commit_log_mib": used("commitlog"), "timer_log_mib": used("timerlog"), "wheel_mib": used("timerwheel")}


async def _send(broker: FireArrowBroker, topic: str, timers: list[Timer]) -> None:
    async with talking(broker.address, topic) as talk:
        await talk.send_all(timers)


async def _delivered(broker: FireArrowBroker, topic: str, timers: list[Timer]) -> Figures:
    """Wait for messages; return whether all came, when, and how often."""
    async with talking(broker.address, topic) as talk:
        await talk.has_all(timers, (timers[-1].due_ms - now_ms()) / 1000 + PATIENCE_S)
        found = await talk.delivered()
    due = {timer.body: timer.due_ms for timer in timers}
    times = Counter(message.body for message in found)
    late = sorted(message.store_timestamp - due[message.body] for message in found)
    return {
        "sample": len(timers),
        "lost": len(due.keys() - times.keys()),
        "early": sum(one < 0 for one in late),
        "twice": sum(count > 1 for count in times.values()),
        "late_ms_p99": late[len(late) * 99 // 100] if late else 0,
    }

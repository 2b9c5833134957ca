"""Timed messages are sent to one broker, which ends or is killed; the other one delivers them from the same directory.

python -m campaigns.timer handover --count 10000 --ledger
"""

import asyncio
import math
from collections import Counter
from typing import Final

from campaigns.faults.ledger import Figures
from campaigns.timer.talk import Timer, now_ms, talking
from judges import ApacheBroker, FireArrowBroker, fresh

SECONDS_TO_CHANGE: Final = 25
"""Longer than one broker takes to end and the other to start."""
SPREAD_S: Final = 6
"""Seconds over which the messages are due."""
SENT_A_SECOND: Final = 1500
PATIENCE_S: Final = 120


class Handover:
    """One directory, with a broker of Apache's and one of ours that take turns on it."""

    def __init__(self, name_server: str) -> None:
        name = fresh("timers")
        self.apache = ApacheBroker("5.5.0", name_servers=[name_server], name=name)
        told = {"storePathRootDir": str(self.apache.store), "brokerFastFailureEnable": "false"}
        self.ours = FireArrowBroker(name_servers=[name_server], name=name, settings=told)

    async def play(self, count: int, *, to_apache: bool, killed: bool) -> Figures:
        """Hand ``count`` messages over; return what was found."""
        first, second = (self.ours, self.apache) if to_apache else (self.apache, self.ours)
        sending_s = math.ceil(count / SENT_A_SECOND)
        await asyncio.to_thread(first.start)
        topic = await asyncio.to_thread(first.create_topic, fresh("timed"), 1)
        begin_ms = now_ms() + (sending_s + SECONDS_TO_CHANGE) * 1000
        timers = [Timer(number, begin_ms + number * 7919 % (SPREAD_S * 1000)) for number in range(count)]
        async with talking(first.address, topic) as talk:
            await talk.send_all(timers)
            assert now_ms() < begin_ms, "sending took too long for this plan"
        await asyncio.to_thread(first.kill if killed else first.stop)
        await asyncio.to_thread(second.start)
        # Our broker keeps new topics in a journal first, which Apache's does not read.
        await asyncio.to_thread(second.create_topic, topic, 1)
        async with talking(second.address, topic) as talk:
            await talk.has_all(timers, (begin_ms - now_ms()) / 1000 + SPREAD_S + PATIENCE_S)
            await asyncio.sleep(2)  # messages that come twice come in the same slots
            delivered = await talk.delivered()
        await asyncio.to_thread(second.stop)
        times = Counter(message.body for message in delivered)
        due = {timer.body: timer.due_ms for timer in timers}
        late = sorted(message.store_timestamp - due[message.body] for message in delivered)
        return {
            "to": "apache" if to_apache else "ours",
            "killed": killed,
            "timers": count,
            "lost": sum(timer.body not in times for timer in timers),
            "early": sum(lateness < 0 for lateness in late),
            "twice": sum(number > 1 for number in times.values()),
            "late_ms_p50": late[len(late) // 2],
            "late_ms_p99": late[len(late) * 99 // 100],
        }

    def close(self) -> None:
        """End both brokers and remove the directory."""
        self.ours.close()
        self.apache.close()

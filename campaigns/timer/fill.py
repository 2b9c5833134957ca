"""Fills the directory of a broker with pending timers, through the code of the broker but for network and requests.

The records are those that a send makes (`parked` is asked), and the timers' own loops put them into the wheel.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Final, NamedTuple

from campaigns.timer.talk import Timer
from firearrow.broker.send.incoming import Destination
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.timer.admission import parked, slot_ms
from firearrow.broker.timer.timers import Timers
from firearrow.model import Host, keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import encode_properties
from firearrow.runtime.clock import SystemClock, elapsed_ms
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.machine import this_machine
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views.views import ViewsConfig

AT_ONCE: Final = 512
MOST_AHEAD: Final = 4096
"""Messages of the timers' queue that may wait for the wheel."""
LOOK_AGAIN_S: Final = 0.001
_HOST: Final = host_bytes(Host("127.0.0.1", 10911))


class Filling(NamedTuple):
    """An open store with its timers."""

    store: Store
    timers: Timers


@asynccontextmanager
async def filling(directory: str, settings: BrokerSettings) -> AsyncIterator[Filling]:
    """Open the store of a directory and its timers; both end in order."""
    disk, clock, machine = RealDisk(directory), SystemClock(), this_machine()
    views = ViewsConfig(queues=settings.queues, index=settings.index, delays_ms=settings.broker.delays_ms)
    config = StoreConfig(log=settings.log, views=views, retention=settings.retention, scrub=settings.scrub)
    store = await Store.open(disk, clock, config, machine.boot_id, zone=machine.zone)
    timers = Timers(
        store=store,
        clock=clock,
        disk=disk,
        settings=LiveSettings(settings),
        chance=random.Random(0),
        stats=BrokerStats("DefaultCluster", elapsed_ms()),
    )
    store.views.dispatch.views.append(timers.arrived)
    await timers.load()
    running = [asyncio.create_task(store.run()), asyncio.create_task(timers.run())]
    try:
        yield Filling(store, timers)
    finally:
        running[1].cancel()
        await asyncio.gather(running[1], return_exceptions=True)
        await timers.close()
        await store.close()
        running[0].cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def fill(at: Filling, topic: str, count: int, due_ms: Callable[[int], int]) -> None:
    """Store messages for queue 0 of a topic; return when all are in the wheel. ``due_ms`` is asked by number."""
    for first in range(0, count, AT_ONCE):
        append(at, topic, [Timer(number, due_ms(number)) for number in range(first, min(first + AT_ONCE, count))])
        await in_wheel(at, MOST_AHEAD)
    await in_wheel(at, 0)


async def in_wheel(at: Filling, but: int) -> None:
    """Wait until all messages but some are in the wheel."""
    files = at.timers.files
    assert files is not None
    while at.store.max_offset(TIMER_TOPIC, 0) - files.queue_offset > but:  # noqa: ASYNC110 - looked at for every batch
        await asyncio.sleep(LOOK_AGAIN_S if but == 0 else 0)


def append(at: Filling, topic: str, timers: Sequence[Timer]) -> None:
    """Store messages for the timers, as sends do."""
    files = at.timers.files
    assert files is not None
    precision_ms = files.precision_ms
    now_ms = timers[0].due_ms - precision_ms
    asked = {keys.UNIQ_KEY: timers[0].unique_key, keys.TIMER_DELIVER_MS: str(timers[0].due_ms)}
    place = parked(Destination(topic, 0, asked), 0, files.config, now_ms)
    rest = b"%s\x01%s\x02%s\x010\x02" % (keys.REAL_TOPIC.encode(), topic.encode(), keys.REAL_QID.encode())
    form = f"{keys.UNIQ_KEY}\x01TIMER%027d\x02{keys.TIMER_DELIVER_MS}\x01%d\x02{keys.TIMER_OUT_MS}\x01%d\x02".encode()
    properties = [form % (timer.number, timer.due_ms, slot_ms(timer.due_ms, precision_ms)) + rest for timer in timers]
    assert properties[0] == encode_properties(place.properties), "a send stores other properties"
    queue_ids = [0] * len(timers)
    births = list(repeat(now_ms, len(timers)))
    columns = MessageColumns(queue_ids, births, queue_ids, [timer.body for timer in timers], properties)
    tails = [at.store.queues.tail_of(TIMER_TOPIC, 0)] * len(timers)
    at.store.log.append_columns(Envelope(TIMER_TOPIC, _HOST, _HOST), tails, columns)

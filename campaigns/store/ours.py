"""Puts the messages of a plan into a store of ours: ``python -m campaigns.store.ours DIR --count 1000``.

A place is printed once the store has reached its level for it, so that whoever kills this program knows what must be
there. With ``--stay`` it neither ends nor closes when it is done, and waits to be killed. Delayed messages are
scheduled as a broker schedules them: in the queue of their level, with their own topic and queue as properties.
"""

import argparse
import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from campaigns.drafts import append_batch
from campaigns.store.places import Place, lines_of
from campaigns.store.plan import DELAY_LEVELS, QUEUES, Planned, step, steps, topic_names
from campaigns.store.talk import BORN_MS, SETTINGS
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.tables.topics import PATH as TOPICS
from firearrow.broker.tables.topics import TopicTable
from firearrow.model import EpochMs, Host, keys
from firearrow.model.delays import parse_delay_levels
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.record.encode import Draft
from firearrow.record.hosts import HostBytes, host_bytes
from firearrow.record.properties import encode_properties
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.machine import this_machine
from firearrow.store.config import FlushMode, LogConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.placement import FLUSHED, WRITTEN
from firearrow.store.queue.consume_queue import SCHEDULE_TOPIC
from firearrow.store.queue.table import QueueConfig
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views.views import ViewsConfig

AHEAD: Final = 64
"""Steps that are appended before the oldest of them must be reached."""
BORN_HOST: Final = host_bytes(Host("127.0.0.1", 40_000))
_SLOTS: Final = 100_000


def store_config(flush: FlushMode = "ASYNC_FLUSH") -> StoreConfig:
    """The settings of ours that match those of the brokers."""
    log = LogConfig(mapped_file_size_commit_log=int(SETTINGS["mappedFileSizeCommitLog"]), flush_disk_type=flush)
    index = IndexConfig(max_hash_slot_num=_SLOTS, max_index_num=int(SETTINGS["maxIndexNum"]))
    # Often, so that a writer that is killed leaves queues, index and checkpoint behind as well as the log.
    queues = QueueConfig(dispatch_flush_interval=100)
    views = ViewsConfig(queues=queues, index=index, delays_ms=parse_delay_levels(DELAY_LEVELS))
    return StoreConfig(log=log, views=views)


@asynccontextmanager
async def opened(root: Path, flush: FlushMode = "ASYNC_FLUSH") -> AsyncIterator[Store]:
    """The store of a directory, running; closed in order at the end."""
    disk = RealDisk(str(root))
    store = await Store.open(disk, SystemClock(), store_config(flush), this_machine().boot_id)
    running = asyncio.get_running_loop().create_task(store.run())
    try:
        yield store
        await store.close()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await disk.close()


def draft_of(planned: Planned, store_host: HostBytes) -> Draft:
    """A message as a broker would hand it to the store."""
    topic, queue_id, properties = planned.topic, planned.queue_id, planned.properties
    if planned.delay_level:
        properties = properties | {keys.REAL_TOPIC: topic, keys.REAL_QID: str(queue_id)}
        topic, queue_id = SCHEDULE_TOPIC, planned.delay_level - 1
    born = EpochMs(BORN_MS + planned.number)
    stored = encode_properties(properties)
    return Draft(
        topic, queue_id, planned.body, stored, born, BORN_HOST, store_host, planned.number % 7, planned.sys_flag
    )


async def write(store: Store, numbers: list[range], port: int, *, flush: FlushMode) -> AsyncIterator[dict[int, Place]]:
    """Append steps; yield the places of those that are as safe as was asked for."""
    level = FLUSHED if flush == "SYNC_FLUSH" else WRITTEN
    store_host = host_bytes(Host("127.0.0.1", port))
    ahead: deque[tuple[int, dict[int, Place]]] = deque()
    for one in numbers:
        some = step(one).messages
        batch = append_batch(store, [draft_of(planned, store_host) for planned in some])
        places = {
            planned.number: Place(physical, queue_offset)
            for planned, physical, queue_offset in zip(some, batch.physical_offsets, batch.queue_offsets, strict=True)
        }
        ahead.append((batch.end, places))
        if len(ahead) > AHEAD:
            end, places = ahead.popleft()
            await store.reached(end, level)
            yield places
            # One turn of the loop for whatever else the store does.
            await asyncio.sleep(0)
    for end, places in ahead:
        await store.reached(end, level)
        yield places


async def save_topics(root: Path) -> None:
    """Write the topics of the plan into ``topics.json``, beside those that are there, so that a broker serves them."""
    disk = RealDisk(str(root))
    table = TopicTable()
    file = StateFile(disk, TOPICS, table)
    await file.load()
    missing = [name for name in topic_names() if name not in table]
    table.put_all([_topic(name) for name in missing], int(time.time() * 1000))
    await file.close()
    await disk.close()


def _topic(name: str) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)


async def _main(given: argparse.Namespace) -> None:
    root = Path(given.directory)
    await save_topics(root)
    async with opened(root, given.flush) as store:
        async for places in write(store, steps(given.first, given.count), given.port, flush=given.flush):
            sys.stdout.write(lines_of(places.items()))
            sys.stdout.flush()
        if given.stay:
            await asyncio.Event().wait()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="append the messages of a plan and print where they are")
    parser.add_argument("directory")
    parser.add_argument("--flush", choices=("SYNC_FLUSH", "ASYNC_FLUSH"), default="ASYNC_FLUSH")
    parser.add_argument("--first", type=int, default=0, help="number of the first message")
    parser.add_argument("--count", type=int, default=1000, help="messages")
    parser.add_argument("--port", type=int, default=10911, help="port in the store host of every message")
    parser.add_argument("--stay", action="store_true", help="do not close: wait to be killed")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()

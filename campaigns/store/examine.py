"""Opens a store with our code, ours or Apache's, and looks for every message.

    python -m campaigns.store.examine DIR < places

Places that were promised are read from standard input, as `places` writes them. What must hold:

* every promised message is at its place, and every record of the plan is as it was sent, byte for byte;
* every queue, read from its first to its last message, gives the records of the log in order, without a gap;
* every record is found by its id, every message by its key, and by its key and time;
* the message at a time is the right one, at both boundaries, for every time at which something was stored;
* ``verify`` finds nothing wrong.

With ``--every 10`` ids and keys are asked of every tenth message. The findings are printed as JSON.
"""

import argparse
import asyncio
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from pathlib import Path
from typing import Final

import msgspec

from campaigns.store.ours import opened
from campaigns.store.places import Place, parse_places
from campaigns.store.plan import message, number_of
from campaigns.store.raw_log import RawLog, Row
from firearrow.errors import FireArrowError
from firearrow.model import PhysicalOffset, keys
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_id
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.inspection.directory import StoreView
from firearrow.store.inspection.inspect import StoreVerification, overview, verify
from firearrow.store.queue.consume_queue import SCHEDULE_TOPIC
from firearrow.store.read.lookup import Boundary
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.store import Store

SHOWN: Final = 20
PULLED_AT_ONCE: Final = 500
FOUND_AT_MOST: Final = 64
_STORE_HOST: Final = slice(64, 72)


class Findings(msgspec.Struct):
    """The findings in a store."""

    records: int = 0
    """Records in the log."""
    planned: int = 0
    """Different messages of the plan among them, in their own topics."""
    scheduled: int = 0
    """Messages of the plan that wait, or waited, for their time."""
    retried: int = 0
    """Messages of the plan in the retry topic of a group."""
    by_queue: int = 0
    by_id: int = 0
    by_key: int = 0
    by_time: int = 0
    whole: int = 0
    """Records whose checksum covers every byte."""
    wrong: list[str] = []
    """The first deviations from the plan."""

    def complain(self, text: str) -> None:
        """Remember what is wrong."""
        if len(self.wrong) < SHOWN:
            self.wrong.append(text)


async def verified(root: Path) -> StoreVerification:
    """The findings of ``firearrow store inspect --verify``."""
    disk = RealDisk(str(root), read_only=True)
    view = await StoreView.open(disk)
    try:
        return await verify(view, await overview(view))
    finally:
        view.close()
        await disk.close()


async def examine(root: Path, promised: dict[int, Place], *, every: int = 1) -> Findings:
    """Open the store of a directory and look for everything."""
    findings = Findings()
    async with opened(root) as store:
        # After the start: what the last writer left half done is cut by then.
        raw = RawLog(root)
        if len(store.opened.damage):
            findings.complain(f"called damaged: {store.opened.damage.as_list()[:3]}")
        findings.records = len(raw.by_physical)
        _judge_all(raw, promised, findings)
        for (topic, queue_id), rows in raw.queues.items():
            await _read_queue(store, topic, queue_id, rows, findings)
            await _ask_times(store, topic, queue_id, rows, findings)
        await _ask_ids(store, raw, every, findings)
        await _ask_keys(store, raw, every, findings)
    found = await verified(root)
    findings.whole = found.whole
    if not found.clean or found.records != findings.records:
        findings.complain(f"{found.records} records, bad {found.bad[:3]}, queues behind {found.queues[:3]}")
    return findings


def _judge_all(raw: RawLog, promised: dict[int, Place], findings: Findings) -> None:
    seen: set[int] = set()
    for row in raw.by_physical.values():
        number = number_of(row.properties)
        if number < 0:
            continue
        if row.topic == SCHEDULE_TOPIC:
            findings.scheduled += 1
        elif row.topic.startswith("%RETRY%"):
            findings.retried += 1
        else:
            seen.add(number)
        fault = fault_of(row)
        if fault:
            findings.complain(fault)
    findings.planned = len(seen)
    for number, place in promised.items():
        found = raw.by_physical.get(place.physical)
        if found is None or number_of(found.properties) != number or found.queue_offset != place.queue_offset:
            findings.complain(f"message {number} was promised at {place}, and there is {found and found[:4]}")


def fault_of(row: Row) -> str:
    """The fault of a record of the plan; empty when there is none."""
    sent = message(number_of(row.properties))
    if row.body != sent.body or row.sys_flag != sent.sys_flag:
        return f"message {sent.number} at {row.physical} has another body or sysFlag {row.sys_flag}"
    scheduled = row.topic == SCHEDULE_TOPIC
    home = row.properties.get(keys.REAL_TOPIC) if scheduled else row.topic
    if home != sent.topic and not (home or "").startswith("%RETRY%"):
        return f"message {sent.number} at {row.physical} is in {row.topic}, for {home}"
    if home == sent.topic and int(row.properties[keys.REAL_QID] if scheduled else row.queue_id) != sent.queue_id:
        return f"message {sent.number} at {row.physical} is in queue {row.queue_id}"
    given = {key: value for key, value in sent.properties.items() if key != keys.DELAY}
    if not given.items() <= row.properties.items():
        return f"message {sent.number} at {row.physical} has properties {row.properties}"
    return ""


async def _read_queue(store: Store, topic: str, queue_id: int, rows: list[Row], findings: Findings) -> None:
    offset = rows[0].queue_offset
    got = bytearray()
    queue = store.queues.tail_of(topic, queue_id)
    while offset < queue.max_offset:
        pulled = await store.read(topic, queue_id, ReadRequest(offset, PULLED_AT_ONCE, 4 << 20))
        if pulled.next_offset <= offset:
            break
        offset = pulled.next_offset
        findings.by_queue += pulled.messages
        for buffer in pulled.buffers:
            got += buffer
    if [row.queue_offset for row in rows] != list(range(rows[0].queue_offset, rows[-1].queue_offset + 1)):
        findings.complain(f"the log has gaps in {topic}/{queue_id}")
    if offset != rows[-1].queue_offset + 1 or got != b"".join(row.record for row in rows):
        findings.complain(f"{topic}/{queue_id} read from {rows[0].queue_offset} to {offset} is not what the log holds")


async def _ask_times(store: Store, topic: str, queue_id: int, rows: list[Row], findings: Findings) -> None:
    queue = store.queues.tail_of(topic, queue_id)
    times = [row.store_ms for row in rows]
    first, end = rows[0].queue_offset, rows[-1].queue_offset + 1
    for time_ms in sorted({times[0] - 1, *times, times[-1] + 1}):
        lower = await store.lookups.offset_by_time(queue, time_ms, Boundary.LOWER)
        upper = await store.lookups.offset_by_time(queue, time_ms, Boundary.UPPER)
        expected = first + bisect_left(times, time_ms), max(first + bisect_right(times, time_ms) - 1, first)
        findings.by_time += 1
        if (lower, upper) != expected:
            findings.complain(f"{topic}/{queue_id} [{first}, {end}) at {time_ms}: {lower}, {upper}, not {expected}")


async def _ask_ids(store: Store, raw: RawLog, every: int, findings: Findings) -> None:
    for row in list(raw.by_physical.values())[::every]:
        message_id = offset_message_id(HostBytes(row.record[_STORE_HOST]), PhysicalOffset(row.physical))
        try:
            found = await store.lookups.by_message_id(message_id)
        except FireArrowError as error:
            findings.complain(f"message {row.physical} is not found by its id: {error}")
            continue
        findings.by_id += 1
        if found != row.record:
            findings.complain(f"the message at {row.physical} is another by its id")


async def _ask_keys(store: Store, raw: RawLog, every: int, findings: Findings) -> None:
    named: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in raw.by_physical.values():
        words = row.properties.get(keys.KEYS, "").split()
        for key in filter(None, (row.properties.get(keys.UNIQ_KEY, ""), *words)):
            named[row.topic, key].append(row)
    for (topic, key), rows in list(named.items())[::every]:
        newest = rows[::-1][:FOUND_AT_MOST]
        found = await store.lookups.by_key(topic, key, FOUND_AT_MOST, newest[-1].store_ms, newest[0].store_ms)
        findings.by_key += 1
        if len(rows) <= FOUND_AT_MOST and sorted(found.records) != sorted(row.record for row in rows):
            findings.complain(f"{key} in {topic} finds {len(found.records)} messages, not {len(rows)}")
        elif not {row.record for row in rows}.issuperset(found.records) or len(found.records) < len(newest):
            findings.complain(f"{key} in {topic} finds other messages than its {len(rows)}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="open a store and look for every message in it")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--every", type=int, default=1, help="ask ids and keys of every so many messages")
    given = parser.parse_args()
    findings = asyncio.run(examine(given.directory, parse_places(sys.stdin.read()), every=given.every))
    sys.stdout.write(msgspec.json.encode(findings).decode() + "\n")
    sys.exit(1 if findings.wrong else 0)


if __name__ == "__main__":
    main()

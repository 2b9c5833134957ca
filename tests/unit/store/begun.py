"""Stores in which something is begun as Apache's broker begins it: half messages, timed messages, pops."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from firearrow.model import keys
from firearrow.model.names import HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC
from firearrow.record.properties import format_properties
from firearrow.runtime.disk.door import Disk
from firearrow.store.placement import AppendPosition
from firearrow.store.store import Store
from firearrow.store.timer.layout import SLOT, UNIT, WHEEL_SLOTS, TimerCheck
from firearrow.store.timer.recovery import CHECK_PATH
from firearrow.store.timer.timer_log import DIRECTORY as LOG
from firearrow.store.timer.wheel import PATH as WHEEL
from tests.simulation.store.kit import draft

REVIVE_LOG = "rmq_sys_REVIVE_LOG_DefaultCluster"
NOW_S = 1_790_000_000
SLOTS = WHEEL_SLOTS
DELETES = 4


class SetOut(NamedTuple):
    """A message in the wheel."""

    message: AppendPosition
    due_s: int
    topic: str = "T"
    magic: int = 1


class Begun:
    """Puts into an open store and beside it what Apache's broker would."""

    def __init__(self, store: Store, disk: Disk) -> None:
        self.store = store
        self.disk = disk

    def put(self, topic: str, properties: Mapping[str, str] | None = None, body: bytes = b"body") -> AppendPosition:
        return self.store.append(draft(body, topic, 0, format_properties(properties or {})))

    def half(self, **properties: str) -> int:
        """A half message; its offset."""
        properties = {keys.TRAN_MSG: "true", keys.REAL_TOPIC: "T", keys.REAL_QID: "0"} | properties
        return self.put(HALF_TOPIC, properties).queue_offset

    def end(self, *offsets: int, old: bool = False) -> None:
        """An op message: half messages that are committed or rolled back, by 5.x together, by 4.9 one."""
        body = str(offsets[0]) if old else "".join(f"{offset}," for offset in offsets)
        self.put(OP_HALF_TOPIC, {keys.TAGS: "d"}, body.encode())

    def timed(self, **properties: str) -> AppendPosition:
        """A timed message in its queue."""
        return self.put(TIMER_TOPIC, {keys.REAL_TOPIC: "T", keys.REAL_QID: "0"} | properties)

    def check_point(self, first: int, count: int, *, topic: str = REVIVE_LOG, **more: object) -> AppendPosition:
        """Messages of a queue from an offset on are handed out."""
        body = {"bm": 0, "c": "g", "n": count, "pt": 1000, "q": 0, "so": first, "t": "T", "bn": "b", "ro": 0} | more
        return self._mark(topic, "ck", body)

    def acknowledge(self, first: int, *offsets: int, topic: str = REVIVE_LOG) -> AppendPosition:
        """Messages of a check-point are done."""
        name = {"c": "g", "pt": 1000, "q": 0, "so": first, "t": "T", "bn": "b"}
        if len(offsets) == 1:
            return self._mark(topic, "ack", name | {"ao": offsets[0]})
        return self._mark(topic, "bAck", name | {"ao": 0, "aol": list(offsets)})

    def _mark(self, topic: str, tag: str, body: dict[str, object]) -> AppendPosition:
        real = {keys.REAL_TOPIC: REVIVE_LOG} if topic == TIMER_TOPIC else {}
        return self.put(topic, {keys.TAGS: tag} | real, json.dumps(body).encode())

    async def save_offsets(self, **of_group: dict[str, int]) -> None:
        """``consumerOffset.json``, as fastjson writes it, for queue 0 of topics."""
        rows = (f'"{topic}@{group}":{{0:{offset}}}' for group, at in of_group.items() for topic, offset in at.items())
        self.disk.make_directory("config")
        await self.disk.replace("config/consumerOffset.json", b'{"offsetTable":{%s}}' % ",".join(rows).encode())

    async def save_wheel(
        self,
        timers: Sequence[SetOut],
        *,
        next_s: int,
        next_offset: int,
        precision_ms: int = 1000,
        in_wheel: int | None = None,
        wheel_path: str = WHEEL,
    ) -> None:
        """The wheel with messages in it, all or the first ones, the log of timers, and the checkpoint."""
        wheel = self.disk.open(wheel_path, create=True)
        wheel.truncate(SLOTS * SLOT.size)
        log = bytearray()
        last: dict[int, tuple[int, int]] = {}
        for timer in timers:
            time = timer.due_s * 1000 // precision_ms
            before, number = last.get(time, (-1, 0))
            size = timer.message.end - timer.message.physical_offset
            place = len(log)
            fields = (timer.magic, timer.due_s * 1000, 0, timer.message.physical_offset, size, java_hash(timer.topic))
            log += UNIT.pack(UNIT.size, before, *fields, 0)
            last[time] = place, number + (-1 if timer.magic & DELETES else 1)
            if in_wheel is None or place < in_wheel * UNIT.size:
                wheel.write_at(time % SLOTS * SLOT.size, [SLOT.pack(time, 0, place, last[time][1], 0)])
        for name in ("config", LOG):
            self.disk.make_directory(name)
        await wheel.sync()
        wheel.close()
        await self.disk.replace(f"{LOG}/{0:020d}", bytes(log).ljust(1 << 16, b"\0"))
        covered = (len(timers) if in_wheel is None else in_wheel) * UNIT.size
        check = TimerCheck(next_s * 1000, covered, next_offset, next_offset)
        await self.disk.replace(CHECK_PATH, check.encode().ljust(4096, b"\0"))


def java_hash(text: str) -> int:
    """``String.hashCode``."""
    value = 0
    for letter in text:
        value = (value * 31 + ord(letter)) & 0xFFFFFFFF
    return value - (value >> 31 << 32)

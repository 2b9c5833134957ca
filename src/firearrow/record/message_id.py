"""Ids of messages, both written as upper-case hexadecimal.

::

    offsetMsgId  store host (ip 4 | 16, port 4), physical offset 8               32 or 56 digits; made by the broker
    UNIQ_KEY     ip 4 | 16, pid 2, loader hash 4, ms since the month began 4,    32 or 56 digits; made by the client
                 counter 2

An offsetMsgId says where the record lies. A UNIQ_KEY is unique while no two generators share ip, pid and loader
hash and none makes more than 65,536 in a millisecond; a process that forks must make a new generator. Must agree
with Java's ``MessageDecoder.createMessageId`` and ``MessageClientIDSetter``.
"""

import re
import struct
from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, Host, PhysicalOffset
from firearrow.record.hosts import HostBytes, host_address

DRAWN_DIGITS: Final = 4
"""The last digits of keys from one `draw`, in which they differ."""
_CLOCK_STEPPED_BACK_MS: Final = 1_000_000
_is_id = re.compile(r"[0-9A-Fa-f]{32}(?:[0-9A-Fa-f]{24})?").fullmatch


def offset_message_id(store_host: HostBytes, physical_offset: PhysicalOffset) -> str:
    """The id of the record at this offset of this broker's log."""
    return f"{store_host.hex()}{physical_offset:016x}".upper()


def offset_message_ids(store_host: HostBytes, places: Sequence[int]) -> str:
    """The ids of the records at these offsets, joined by commas, packed with one `struct` for all."""
    fields: list[bytes | int] = [store_host] * (2 * len(places))
    fields[1::2] = places
    return _ids_struct(len(store_host), len(places)).pack(*fields).hex(",", len(store_host) + 8).upper()


@lru_cache(64)
def _ids_struct(host: int, count: int) -> struct.Struct:
    return struct.Struct(">" + f"{host}sq" * count)


def parse_offset_message_id(text: str) -> tuple[Host, PhysicalOffset]:
    """The broker's address and the physical offset in an offsetMsgId."""
    if _is_id(text) is None:
        raise IllegalMessage(f"{text[:80]!r} is not a message id: a message id has 32 or 56 hexadecimal digits")
    raw = bytes.fromhex(text)
    return host_address(raw[:-8]), PhysicalOffset(int.from_bytes(raw[-8:], "big", signed=True))


class UniqueKeys:
    """Makes the UNIQ_KEYs of one process. The caller passes the time; the zone says when a month begins."""

    def __init__(self, ip: str, pid: int, loader_hash: int, zone: tzinfo) -> None:
        self._prefix = f"{ip_address(ip).packed.hex()}{pid & 0xFFFF:04x}{loader_hash & 0xFFFFFFFF:08x}".upper()
        self._zone = zone
        self._month_begins = self._month_ends = 0
        self._counter = -1

    def next(self, now: EpochMs) -> str:
        """Return a new unique key."""
        elapsed = self._elapsed(now)
        self._counter = (self._counter + 1) & 0xFFFF
        return f"{self._prefix}{elapsed:08X}{self._counter:04X}"

    def draw(self, now: EpochMs, count: int) -> tuple[str, bytes]:
        """Make up to 65,536 keys: return their common beginning, and the last `DRAWN_DIGITS` of each, joined."""
        head = f"{self._prefix}{self._elapsed(now):08X}"
        first = self._counter + 1
        self._counter = (self._counter + count) & 0xFFFF
        counters = [number & 0xFFFF for number in range(first, first + count)]
        return head, struct.pack(f">{count}H", *counters).hex().upper().encode()

    def _elapsed(self, now: EpochMs) -> int:
        if now >= self._month_ends:
            self._month_begins, self._month_ends = month_of(now, self._zone)
        elapsed = now - self._month_begins
        return 0 if -_CLOCK_STEPPED_BACK_MS < elapsed < 0 else elapsed & 0xFFFFFFFF


def month_of(now: EpochMs, zone: tzinfo) -> tuple[int, int]:
    """Return the begin and end of the month of ``now``, in milliseconds since 1970."""
    first = datetime.fromtimestamp(now / 1000, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return int(first.timestamp() * 1000), int(after.timestamp() * 1000)

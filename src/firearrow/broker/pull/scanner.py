"""Scans: which records of a read pass a filter, within the time of a scan. Pure but for the clock."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from firearrow.broker.pull.filter_budget import FilterClock, FilterCost
from firearrow.broker.pull.message_filter import MessageFilter, PropertyFilter, RawValues
from firearrow.model.flags import BORN_HOST_V6, COMPRESSED, HOST_V6_MASK, STORE_HOST_V6
from firearrow.record.layout import HEAD_SIZE, MAGIC_V1, SHORT, V6_EXTRA, Buffer
from firearrow.store.property_fields import field
from firearrow.store.read.queue_reader import ReadResult, ReadStatus

LOOKED_AT_UNTIMED: Final = 32
"""The most records between two looks at the clock, which take as long as judging one of them."""
STEPS_UNTIMED: Final = 512
"""The most steps between two looks at the clock, and those of one evaluation."""
REMEMBERED_FILTERS: Final = 64
"""The most filters whose verdicts are remembered; then all are forgotten."""
REMEMBERED_VERDICTS: Final = 512
"""The most verdicts of a filter that are remembered; then they are forgotten."""
REMEMBERED_BYTES: Final = 64
"""The longest values, in all, whose verdict is remembered."""

_head: Final = struct.Struct(">iI28xi44xi").unpack_from
"""Size, magic, sysFlag and, when both hosts are IPv4, the length of the body."""
_int: Final = struct.Struct(">i").unpack_from
_queue_offset: Final = struct.Struct(">20xq").unpack_from


class Verdicts(dict[RawValues, bool]):
    """The verdicts of a filter by values: messages often have the same ones, and evaluating takes more than a look-up.

    A scan sets ``cost``, and counts its messages itself.
    """

    __slots__ = ("_wanted", "cost")

    def __init__(self, wanted: PropertyFilter) -> None:
        super().__init__()
        self._wanted = wanted
        self.cost = FilterCost()

    def __missing__(self, raw: RawValues) -> bool:
        """Judge values, and remember the verdict if they are short."""
        cost = self.cost
        errors = cost.errors
        passes = self._wanted.passes_values(raw, cost)
        cost.messages -= 1
        if sum(map(len, raw if isinstance(raw, tuple) else (raw,))) <= REMEMBERED_BYTES and cost.errors == errors:
            if len(self) >= REMEMBERED_VERDICTS:
                self.clear()
            self[raw] = passes
        return passes


class Scanner:
    """Scans for the pulls of one broker."""

    def __init__(self, clock: FilterClock) -> None:
        self._clock = clock
        self._remembered: dict[PropertyFilter, Verdicts] = {}

    def kept(
        self, pulled: ReadResult, wanted: MessageFilter, most: int, max_bytes: int, cost: FilterCost
    ) -> ReadResult:
        """Return a read with the records that pass, at most ``most`` and ``max_bytes`` but at least one if one passes.

        The next offset is behind the last record that was looked at, so that a pull moves on whether something passes
        or not.
        """
        if pulled.status is not ReadStatus.FOUND:
            return pulled
        buffers: list[Buffer] = []
        total, next_offset = 0, pulled.next_offset
        price_ns = cost.price_ns
        self._clock.begin()
        for record, offset in self._passing(pulled.buffers, wanted, cost):
            if record is None or (buffers and total + len(record) > max_bytes):
                next_offset = offset
                break
            buffers.append(record)
            total += len(record)
            if len(buffers) >= most:
                next_offset = offset + 1
                break
        cost.nanoseconds += self._clock.end(cost.price_ns - price_ns)
        status = ReadStatus.FOUND if buffers else ReadStatus.NO_MATCHED_MESSAGE
        return pulled._replace(
            status=status, next_offset=next_offset, buffers=buffers, messages=len(buffers), size=total
        )

    def _passing(
        self, buffers: Sequence[Buffer], wanted: MessageFilter, cost: FilterCost
    ) -> Iterator[tuple[Buffer | None, int]]:
        """Yield the records that pass, with their offsets; None says that the time is over before that offset.

        Few names and calls, because a scan looks at hundreds of records. Properties are the end of a record.
        """
        verdicts, marks = self._verdicts(wanted, cost)
        mark = marks[0] if len(marks) == 1 else b""
        judged, untimed, most_steps = 0, LOOKED_AT_UNTIMED, cost.steps + STEPS_UNTIMED
        try:
            for buffer in buffers:
                data = buffer if isinstance(buffer, bytes) else bytes(buffer)
                begin, length = 0, len(data)
                while begin < length:
                    if untimed <= 0 or cost.steps >= most_steps:
                        if self._clock.is_over:
                            yield None, _queue_offset(data, begin)[0]
                            return
                        untimed, most_steps = LOOKED_AT_UNTIMED, cost.steps + STEPS_UNTIMED
                    untimed -= 1
                    size, magic, sys_flag, body = _head(data, begin)
                    is_v6 = sys_flag & HOST_V6_MASK
                    at = _behind_body(data, begin, sys_flag) if is_v6 else begin + HEAD_SIZE + body
                    at += 3 + data[at] if magic == MAGIC_V1 else 4 + SHORT.unpack_from(data, at)[0]
                    end = begin + size
                    if verdicts is None:
                        passes = wanted.admits(data[begin:end], data[at:end], cost)
                        if sys_flag & COMPRESSED:  # whose body may stand for a much longer one
                            untimed = 0
                    else:
                        properties = data[at:end]
                        raw = field(properties, mark) if mark else tuple([field(properties, each) for each in marks])
                        passes = verdicts[raw]
                        judged += 1
                    if passes:
                        yield data[begin:end], _queue_offset(data, begin)[0]
                    begin = end
        finally:
            cost.messages += judged

    def _verdicts(self, wanted: MessageFilter, cost: FilterCost) -> tuple[Verdicts | None, tuple[bytes, ...]]:
        """Return the verdicts of a filter that looks at few values, and its marks; None for any other filter."""
        if not isinstance(wanted, PropertyFilter) or not wanted.marks:
            return None, ()
        found = self._remembered.get(wanted)
        if found is None:
            if len(self._remembered) >= REMEMBERED_FILTERS:
                self._remembered.clear()
            found = self._remembered[wanted] = Verdicts(wanted)
        found.cost = cost
        return found, wanted.marks


def _behind_body(data: bytes, begin: int, sys_flag: int) -> int:
    """Return where the body of a record with an IPv6 host ends."""
    at = begin + HEAD_SIZE + V6_EXTRA * (bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6))
    return at + int(_int(data, at - 4)[0])

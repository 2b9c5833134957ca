"""Reads the units of a slot: the chain from the last unit to the first, in the timer log.

The units of a slot with very many messages are mostly neighbours, and are checked and taken by columns then; those of
ordinary slots lie far from each other, and little is read around each.
"""

from array import array
from operator import add
from typing import Final, NamedTuple

from firearrow.runtime.turn import Pace
from firearrow.store.timer.layout import DELETES, MAGIC_BITS, NO_POSITION, UNIT, UNIT_BYTES, Slot, Unit, unit_at
from firearrow.store.timer.timer_log import CHAIN_READ_BYTES, TimerLog

NEIGHBOURS: Final = 1024
"""Units taken at once, and before the loop runs."""
FEW: Final = 8
"""Units of one read; when fewer were used, the next read is short."""
SHORT_READ_BYTES: Final = 2 * FEW * UNIT_BYTES

_RECALLS: Final = [bytes([magic]) for magic in range(MAGIC_BITS + 1) if magic & DELETES]


class Chain(NamedTuple):
    """The units of a slot by columns, oldest first."""

    physicals: "array[int]"
    sizes: "array[int]"
    magics: "array[int]"
    written: "array[int]"
    exact: "array[int]"

    def add(self, unit: Unit) -> None:
        """Add a unit behind the others."""
        self.physicals.append(unit.physical)
        self.sizes.append(unit.record_bytes)
        self.magics.append(unit.magic)
        self.written.append(unit.written_ms)
        self.exact.append(unit.exact_ms)

    @property
    def number(self) -> int:
        """The messages less the recalls, as the wheel counts them."""
        magics = self.magics.tobytes()
        return len(magics) - 2 * sum(map(magics.count, _RECALLS))


async def read_chain(log: TimerLog, slot: Slot, precision_ms: int, after: int = NO_POSITION) -> Chain:
    """Return the units of a slot behind a position of the timer log, oldest first."""
    chain = Chain(array("q"), array("i"), array("b"), array("q"), array("q"))
    pace = Pace(NEIGHBOURS)
    position, data, data_at, used, has_neighbours = slot.last, b"", 0, FEW, True
    while position > after:
        if not data_at <= position <= data_at + len(data) - UNIT_BYTES:
            data_at, data = await _around(log, position, CHAIN_READ_BYTES if used >= FEW else SHORT_READ_BYTES)
            used, has_neighbours = 0, True
            if not data_at <= position <= data_at + len(data) - UNIT_BYTES:
                break
        if has_neighbours:
            count = min((position + UNIT_BYTES - max(data_at, after + 1)) // UNIT_BYTES, NEIGHBOURS)
            before = _take_neighbours(chain, data, position - data_at, position, count, slot.time, precision_ms)
            has_neighbours = before is not None
            if before is not None:
                position, used = before, used + count
                await pace.did(count)
                continue
        unit = unit_at(data, position - data_at)
        if not unit.is_valid or unit.due_ms // precision_ms != slot.time or unit.before >= position:
            await _search(log, slot, precision_ms, after, position, chain)
            break
        chain.add(unit)
        position, used = unit.before, used + 1
        await pace.did()
    for column in chain:
        column.reverse()
    return chain


def _take_neighbours(
    chain: Chain, data: bytes, last: int, position: int, count: int, time: int, precision_ms: int
) -> int | None:
    """Add ``count`` units to a chain, newest first, if each is chained to its neighbour in the log.

    ``last`` is where the newest unit stands in ``data``. Return the position before the oldest of them; None, without
    any effect, when one of them belongs to another slot or is not whole.
    """
    first, end = last - (count - 1) * UNIT_BYTES, last + UNIT_BYTES
    first_position = position - (count - 1) * UNIT_BYTES
    # A quick look first: in most slots not even the last two are neighbours.
    if count < FEW or unit_at(data, last).before != position - UNIT_BYTES:
        return None
    sizes, before, magics, written, delays, physicals, lengths, _, exact = zip(
        *UNIT.iter_unpack(data[first:end]), strict=True
    )
    is_run = (
        set(sizes) == {UNIT_BYTES}
        and before[1:] == tuple(range(first_position, position, UNIT_BYTES))
        and before[0] < first_position
        and all(magic | MAGIC_BITS == MAGIC_BITS for magic in set(magics))
        and all(due_ms // precision_ms == time for due_ms in set(map(add, written, delays)))
    )
    if not is_run:
        return None
    for column, values in zip(chain, (physicals, lengths, magics, written, exact), strict=True):
        column.extend(values[::-1])
    oldest: int = before[0]
    return oldest


async def _search(log: TimerLog, slot: Slot, precision_ms: int, after: int, behind: int, chain: Chain) -> None:
    """Add the units of a slot between two positions to a chain, newest first, whatever the links say.

    After a power loss a slot of 5.5.0 may name units that are lost, and whose places were used again.
    """
    found: list[Unit] = []
    pace = Pace(NEIGHBOURS)
    async for position, unit in log.units(max(after + 1, 0)):
        if position > behind:
            break
        if unit.due_ms // precision_ms == slot.time:
            found.append(unit)
        await pace.did()
    for unit in reversed(found):
        chain.add(unit)


async def _around(log: TimerLog, position: int, most: int) -> tuple[int, bytes]:
    """Return bytes of one file that end with the unit at a position, and where they begin."""
    start = log.file_start(position)
    if start is None:
        return position, b""
    first = max(start, position + UNIT_BYTES - most)
    return first, await log.read(first, position + UNIT_BYTES - first)

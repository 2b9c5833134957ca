"""The way through a wheel: the times of its slots, ascending, without a list of all of them.

Places of the wheel follow each other in the order of time for as long as the wheel spans (two weeks at a precision of
one second), from any time on. Slots farther apart than that wait together after a broker was down for long: those of
the first span come first, then those of the next.
"""

from collections.abc import AsyncIterator

from firearrow.runtime.turn import Pace
from firearrow.store.timer.recovery import NEVER_MS
from firearrow.store.timer.wheel import PAGES_AT_ONCE, SLOTS_A_PAGE, Wheel


async def times_below(wheel: Wheel, until_ms: int) -> AsyncIterator[int]:
    """Return the times of all slots with units before ``until_ms``, ascending. Yields to the loop.

    Of slots that get their units meanwhile some are returned, and some are not.
    """
    span_ms = wheel.slots * wheel.precision_ms
    begin_ms = await _first(wheel, 0)
    while begin_ms < until_ms:
        end_ms = begin_ms + span_ms
        async for time_ms in _in_span(wheel, begin_ms, min(end_ms, until_ms)):
            yield time_ms
        begin_ms = await _first(wheel, end_ms)


async def _first(wheel: Wheel, from_ms: int) -> int:
    """Return the first time of a slot with units from a time on; `NEVER_MS` when there is none."""
    pace, first_ms = Pace(PAGES_AT_ONCE), NEVER_MS
    for number in await wheel.used_pages():
        times = (time_ms for time_ms in _times_of_page(wheel, number) if time_ms >= from_ms)
        first_ms = min(first_ms, min(times, default=NEVER_MS))
        await pace.did()
    return first_ms


async def _in_span(wheel: Wheel, begin_ms: int, end_ms: int) -> AsyncIterator[int]:
    """Return the times from ``begin_ms`` to before ``end_ms``, which are less than a wheel apart, ascending."""
    pace, page_ms = Pace(PAGES_AT_ONCE), SLOTS_A_PAGE * wheel.precision_ms
    first = begin_ms // wheel.precision_ms % wheel.slots // SLOTS_A_PAGE
    pages = await wheel.used_pages()
    for number in [*(n for n in pages if n >= first), *(n for n in pages if n < first)]:
        # Places of the first page that lie before the first time serve the end of the span.
        most_ms = min(begin_ms + page_ms, end_ms) if number == first else end_ms
        for time_ms in _times_of_page(wheel, number):
            if begin_ms <= time_ms < most_ms:
                yield time_ms
        await pace.did()
    for time_ms in _times_of_page(wheel, first):
        if begin_ms + page_ms <= time_ms < end_ms:
            yield time_ms


def _times_of_page(wheel: Wheel, number: int) -> list[int]:
    return sorted(slot.time * wheel.precision_ms for slot in wheel.slots_of_page(number))

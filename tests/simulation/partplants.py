"""Faults of one part of a broker, put back one at a time and hunted by the test of that part.

What costs too much at size, or needs a log of Apache's with a clock that went back, shows in no random cluster. No seed
is drawn here: one run sees the fault or does not.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest

from firearrow.broker import registration
from firearrow.broker.dedup import row_windows
from firearrow.broker.dedup.window import Windows
from firearrow.broker.delivery.notices import Notices
from firearrow.broker.delivery.schedule import Due
from firearrow.broker.registration import Registration
from firearrow.broker.statistics.counters import BrokerStats, _Family
from firearrow.broker.statistics.history import CountHistory
from firearrow.broker.statistics.meters import Counts, Meter
from firearrow.broker.statistics.watch import Watch
from firearrow.errors import BadFrame
from firearrow.protocol.requests.group.heartbeat import NotifyConsumerIdsChanged
from firearrow.remoting.handlers import Peer
from tests.unit.broker import test_due, test_membership, test_registration, test_rows, test_stats, test_watch

PutBack = Callable[[pytest.MonkeyPatch], None]
FEW: Final = 50
"""Topics that are measured instead of many: the fault is no small one."""


def delivers_whatever_is_due(patch: pytest.MonkeyPatch) -> None:
    """A20: everything that is due is delivered, and as many are counted from the first on."""

    def due_anywhere(waiting: list[Due], now_ms: int) -> list[Due]:
        return [one for one in waiting if one.due_ms <= now_ms]

    patch.setattr(test_due, "due_first", due_anywhere)


def registers_in_one_frame(patch: pytest.MonkeyPatch) -> None:
    """D1: every topic goes into one registration; a frame holds as many topics as a part does otherwise."""
    register_part = Registration._register_part

    async def framed(self: Registration, address: Any, topics: dict[str, Any], version: Any) -> None:
        if len(topics) > registration.PART_TOPICS:
            raise BadFrame(f"a body of {len(topics)} topics does not fit into a frame")
        await register_part(self, address, topics, version)

    patch.setattr(registration, "parts_of", lambda _topics: 1)
    patch.setattr(registration, "part_of", lambda topics, _number: topics)
    patch.setattr(Registration, "_register_part", framed)


def tells_everybody_of_everybody(patch: pytest.MonkeyPatch) -> None:
    """D3: every comer and every leaver has all others told in the same turn."""

    def add(self: Any, name: str) -> None:
        group = self._clients.group(name)
        for connection in list(group.members) if group else ():
            cast("Peer", connection).push(NotifyConsumerIdsChanged(consumer_group=name))

    patch.setattr(Notices, "add", add)


def samples_all_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    """D4: the counters of all topics are noted in one turn of the loop."""
    sample = CountHistory.sample

    def at_once(self: CountHistory, now_ms: int) -> list[None]:
        list(sample(self, now_ms))
        return [None]

    patch.setattr(CountHistory, "sample", at_once)


def keeps_a_meter_for_every_counter(patch: pytest.MonkeyPatch) -> None:
    """D4: messages and bytes of every topic have a history of their own."""
    of, sample = _Family.of, BrokerStats.sample
    meters: dict[int, tuple[Counts, Meter, Meter]] = {}

    def metered(self: _Family, key: str) -> Counts:
        counts = of(self, key)
        meters.setdefault(id(counts), (counts, Meter(0), Meter(0)))
        return counts

    async def sampled(self: BrokerStats, now_ms: int) -> None:
        await sample(self, now_ms)
        for counts, messages, size in meters.values():
            messages.total, size.total = counts.messages, counts.size
            messages.sample(now_ms)
            size.sample(now_ms)

    patch.setattr(_Family, "of", metered)
    patch.setattr(BrokerStats, "sample", sampled)


def forgets_no_counter(patch: pytest.MonkeyPatch) -> None:
    """A18: the numbers of a deleted topic are made again from counters that stayed."""
    patch.setattr(_Family, "forget", lambda _self, _keys: None)


def shows_constants(patch: pytest.MonkeyPatch) -> None:
    """D9: refusals and failures are counted, and the status says 0."""
    table = Watch.table
    patch.setattr(Watch, "table", lambda self: dict.fromkeys(table(self), "0"))


def begins_with_empty_windows(patch: pytest.MonkeyPatch) -> None:
    """Rows 1: a window holds the rows that this process stored, and none from before its start."""

    async def nothing(*_: Any) -> AsyncIterator[list[Any]]:
        return
        yield []

    patch.setattr(row_windows, "rows_at_end", nothing)


def remembers_rows_that_were_taken_back(patch: pytest.MonkeyPatch) -> None:
    """Rows 2: a row whose write failed stays in the window, so its repeat is answered and stored nowhere."""
    patch.setattr(Windows, "take_back", lambda *_: None)


@dataclass(frozen=True)
class PartPlant:
    """A fault, and the test that sees it."""

    finding: str
    what: str
    put_back: PutBack
    test: Callable[[], None]
    rule: str
    """What its complaint says, as a regular expression."""

    def hunt(self, seed: int) -> None:
        """Raise what is wrong."""
        del seed
        self.test()


def _in_parts() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_registration.test_a_table_that_no_frame_holds_is_registered_in_parts_and_stays_known(patch)


def _without_pauses(test: Callable[[], None]) -> Callable[[], None]:
    def hunt() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("firearrow.broker.statistics.counters.PAUSE_S", 0)
            patch.setattr(test_stats, "MEASURED", FEW)
            test()

    return hunt


PART_PLANTS: Final = (
    PartPlant(
        "A18", "numbers of a deleted topic come back", forgets_no_counter,
        _without_pauses(test_stats.test_a_forgotten_topic_stays_forgotten), "is None",
    ),
    PartPlant(
        "A20", "of delayed messages that are no prefix one is lost, another repeated", delivers_whatever_is_due,
        test_due.test_what_is_due_behind_one_that_is_not_waits_for_it, "delivered",
    ),
    PartPlant(
        "D1", "a table that no frame holds is registered nowhere", registers_in_one_frame, _in_parts, "refused",
    ),
    PartPlant(
        "D3", "everybody is told of everybody", tells_everybody_of_everybody,
        test_membership.test_many_who_come_and_leave_together_are_told_together, "together",
    ),
    PartPlant(
        "D4 time", "all counters are sampled in one turn", samples_all_in_one_turn,
        test_stats.test_a_moment_is_taken_in_steps, "== 3",
    ),
    PartPlant(
        "D4 memory", "two histories for every counter", keeps_a_meter_for_every_counter,
        _without_pauses(test_stats.test_fifty_thousand_topics_that_groups_read_fit_their_budget), "< BUDGET",
    ),
    PartPlant(
        "D9", "the status of a broker shows constants", shows_constants,
        test_watch.test_status_says_what_failed, "putMessageFailedTimes",
    ),
    PartPlant(
        "R1", "a repeat after a crash is stored again", begins_with_empty_windows,
        test_rows.window_rebuilt_after_a_crash, "602 rows are stored, of 301",
    ),
    PartPlant(
        "R2", "a row whose write failed is never stored", remembers_rows_that_were_taken_back,
        test_rows.row_stored_after_a_failed_write, "refused for ever",
    ),
)  # fmt: skip

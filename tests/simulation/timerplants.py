"""Faults that the third review found in timers, retention and full disks, put back one at a time."""

import functools
import logging
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest

from firearrow.broker.timer.slot_delivery import SlotDelivery
from firearrow.errors import DiskError, FireArrowError
from firearrow.store import keepers
from firearrow.store.paths import ABORT
from firearrow.store.recovery.presence import Presence
from firearrow.store.retention import Retention
from firearrow.store.store import Store
from firearrow.store.timer import pending, recovery
from firearrow.store.timer.config import TimerConfig
from tests.simulation.partplants import PartPlant
from tests.unit.broker import test_full_start, test_timer_renewal
from tests.unit.store.timer import test_files as test_timer_files


def looks_at_all_units_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    """The search for pending units before the deletion of a log file never yields to the loop."""
    patch.setattr(pending, "UNITS_AT_ONCE", 1 << 40)


def delivers_what_was_stored_again(patch: pytest.MonkeyPatch) -> None:
    """The old unit of a message that was stored again is delivered too while its file is there."""
    store_portion = SlotDelivery._store_portion

    async def forgetful(self: SlotDelivery, *arguments: Any) -> None:
        files = self._files
        renewed, renewing, files.renewed, files.renewing = files.renewed, files.renewing, 0, 0
        try:
            await store_portion(self, *arguments)
        finally:
            files.renewed, files.renewing = renewed, renewing

    patch.setattr(SlotDelivery, "_store_portion", forgetful)


def stores_portions_again_whole(patch: pytest.MonkeyPatch) -> None:
    """A portion of a slot that finds no room for its last messages is stored again with its first ones."""
    store_portion = SlotDelivery._store_portion

    async def whole(self: SlotDelivery, run: Any, portion: list[int]) -> None:
        at = run.at
        try:
            await store_portion(self, run, portion)
        except DiskError:
            run.at = at
            raise

    patch.setattr(SlotDelivery, "_store_portion", whole)


def writes_pending_timers_again_without_end(patch: pytest.MonkeyPatch) -> None:
    """Files that are not expired are deleted although most of their bytes must be written again."""

    async def blind(_self: keepers.Keepers, _files: Any, wanted: int) -> keepers.DeletionWorth:
        return keepers.DeletionWorth(wanted, 0, Counter())

    patch.setattr(keepers.Keepers, "worth", blind)


def gives_no_timers_up(patch: pytest.MonkeyPatch) -> None:
    """No file is deleted while its timers cannot be written again, for ever."""
    patch.setattr(keepers, "SHORTAGES", 1 << 60)


def takes_every_shortage_for_a_need(patch: pytest.MonkeyPatch) -> None:
    """A write without room makes retention delete a file, although it was a write of retention itself."""
    patch.setattr(Retention, "_forget_own_shortage", lambda _self: None)


def holds_timers_while_sends_are_refused(patch: pytest.MonkeyPatch) -> None:
    """Due timers wait until the disk is less full, and the disk waits until they are delivered."""
    init = SlotDelivery.__init__

    def held(self: SlotDelivery, *arguments: Any, store: Store, **more: Any) -> None:
        init(self, *arguments, store=store, **more)
        self._pressure = cast("Any", store.retention)

    patch.setattr(SlotDelivery, "__init__", held)


def counts_units_of_the_wheel_again(patch: pytest.MonkeyPatch) -> None:
    """Units since the checkpoint are added to the number of a slot that has them already."""
    lay = recovery._lay

    def forgetful(wheel: Any, _counted: dict[int, int], due_ms: int, position: int, **how: bool) -> bool:
        return lay(wheel, {}, due_ms, position, **how)

    patch.setattr(recovery, "_lay", forgetful)


def writes_the_abort_file_at_every_start(patch: pytest.MonkeyPatch) -> None:
    """A start needs room for files that are on disk as they are."""

    async def enter(self: Presence) -> None:
        await self._disk.replace(ABORT, b"firearrow\n")

    patch.setattr(Presence, "enter", enter)


def _in_a_directory(test: Any, *arguments: Any) -> Any:
    def hunt() -> None:
        with tempfile.TemporaryDirectory() as directory:
            test(Path(directory), *arguments)

    return hunt


_with = functools.partial
short_turns: Final = test_timer_renewal.test_units_that_were_delivered_are_passed_in_short_turns


def _with_log(test: Callable[[pytest.LogCaptureFixture], None]) -> Callable[[], None]:
    """Run a test that reads what was logged."""

    class Kept(logging.Handler):
        def __init__(self) -> None:
            super().__init__()
            self.records: list[logging.LogRecord] = []

        def emit(self, record: logging.LogRecord) -> None:
            self.records.append(record)

    def hunt() -> None:
        kept, ours = Kept(), logging.getLogger("firearrow")
        ours.addHandler(kept)
        try:
            test(cast("pytest.LogCaptureFixture", kept))
        finally:
            ours.removeHandler(kept)

    return hunt


full: Final = _with_log(
    test_timer_renewal.test_a_disk_full_of_pending_messages_is_not_rewritten_and_recovers_when_they_are_due
)
no_room: Final = _with_log(test_timer_renewal.test_on_a_disk_without_room_the_oldest_messages_are_given_up_with_a_line)


def gives_up_timers_that_are_behind(patch: pytest.MonkeyPatch) -> None:
    """Whatever keeps timers from being stored again counts as a disk without room."""
    patch.setattr(keepers, "DiskFull", FireArrowError)


TIMER_PLANTS: Final = (
    PartPlant(
        "timers:behind", "timers that are not in the wheel yet are given up", gives_up_timers_that_are_behind,
        test_timer_renewal.fall_behind, "DID NOT RAISE",
    ),
    PartPlant(
        "third:F3", "the loop stands still before a log file is deleted", looks_at_all_units_in_one_turn,
        _in_a_directory(short_turns, frozenset({0, 59})),
        "LONGEST_S",
    ),
    PartPlant(
        "third:F5", "timers come once more for every failed deletion", delivers_what_was_stored_again,
        _with(test_timer_renewal.test_a_message_comes_once_however_often_the_deletion_of_its_file_fails, 0),
        "200 came of 100",
    ),
    PartPlant(
        "timers:once", "the first timers of a portion without room come twice", stores_portions_again_whole,
        _with(test_timer_renewal.test_a_message_comes_once_however_often_its_slot_finds_no_room, 1, TimerConfig()),
        "came of 400",
    ),
    PartPlant(
        "third:F4", "forced retention writes pending timers again without end",
        writes_pending_timers_again_without_end, full, "written again",
    ),
    PartPlant(
        "third:F4 due", "due timers and retention wait for each other", holds_timers_while_sends_are_refused,
        full, "every message comes",
    ),
    PartPlant(
        "third:F4 room", "a disk full of timers to the last byte stays full", gives_no_timers_up,
        no_room, "a file is deleted",
    ),
    PartPlant(
        "timers:need", "timers are given up although nothing needs their room", takes_every_shortage_for_a_need,
        _with_log(test_timer_renewal.test_no_messages_are_given_up_for_sends_that_fill_the_disk), "are given up",
    ),
    PartPlant(
        "timers:number", "a whole timer log is called damaged after a full disk", counts_units_of_the_wheel_again,
        _in_a_directory(test_timer_files.test_units_of_a_wheel_that_has_no_checkpoint_are_counted_once),
        "counted of",
    ),
    PartPlant(
        "third:F7", "a broker that was killed on a full disk does not start", writes_the_abort_file_at_every_start,
        _with(test_full_start.test_a_broker_that_was_killed_on_a_full_disk_starts, power=False), "no space left",
    ),
)  # fmt: skip

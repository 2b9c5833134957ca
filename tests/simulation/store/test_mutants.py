"""Bugs planted on purpose: each must be caught by the crash states within a few seeds."""

from collections.abc import Callable
from typing import Any

import pytest

from firearrow.errors import BadRecord, DiskError, DiskFull
from firearrow.record.stamp import STAMP_SIZE
from firearrow.store.log import flush
from firearrow.store.log import next_segment as ahead
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.log.flush import Flusher
from firearrow.store.log.segments import Segment, sync_names
from firearrow.store.recovery import open_log as opening
from firearrow.store.recovery import recover as recovery
from firearrow.store.recovery import scan, verify
from firearrow.store.recovery.recover import Recovery, RunEnding
from firearrow.store.recovery.verify import judge, resembles_stamp
from tests.simulation.store.crashes import explore

SEEDS = 600
"""Most faults need fewer than 10; a record whose body is whole and whose stamp is not synced comes once in 100."""

Plant = Callable[[pytest.MonkeyPatch], None]


async def _nothing(*_: Any) -> None:
    """Do nothing."""


async def _named(flusher: Flusher) -> bool:
    await sync_names(flusher._disk)
    return True


def acknowledge_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flusher, "_sync_segments", _nothing)


def slot_ahead_of_sync(patch: pytest.MonkeyPatch) -> None:
    honest = Flusher._sync_segments

    async def early(self: Flusher, dirty: list[Segment]) -> None:
        self._slot.note(self._log.written)
        await honest(self, dirty)

    patch.setattr(Flusher, "_sync_segments", early)


def new_segment_without_directory_sync(patch: pytest.MonkeyPatch) -> None:
    for module in (flush, ahead):
        patch.setattr(module, "sync_names", _nothing)


def two_syncs_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flusher, "_sync", Flusher._sync_taken)


def recovery_without_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_make_durable", _nothing)


def failed_write_left_in_place(patch: pytest.MonkeyPatch) -> None:
    def undo(self: CommitLog, error: DiskError, rows: list[Any], segment: Segment) -> DiskError:
        del segment
        for _, some in reversed(rows):
            for tail, _, _, queue_offset, *_ in reversed(some):
                tail.next_offset = queue_offset
        self.tail = self.handed
        if not isinstance(error, DiskFull):
            return self.fence(error)
        for waiters in self._waiters:
            for call in waiters.take(above=self.handed):
                call(error)
        return error

    patch.setattr(CommitLog, "_undo", undo)


def failed_sync_retried(patch: pytest.MonkeyPatch) -> None:
    async def again(self: Flusher, dirty: list[Segment]) -> None:
        for segment in dirty:
            try:
                await segment.file.sync()
            except DiskError:
                continue
            segment.named = segment.named or await _named(self)

    patch.setattr(Flusher, "_sync_segments", again)


def power_loss_taken_for_process_death(patch: pytest.MonkeyPatch) -> None:
    honest = recovery.known_from_slot

    def known(*given: Any) -> recovery.LogFacts:
        return honest(*given)._replace(ending=RunEnding.PROCESS)

    patch.setattr(opening, "known_from_slot", known)


def torn_record_taken_for_anothers(patch: pytest.MonkeyPatch) -> None:
    def naive(buffer: bytes, start: int, physical: int) -> bool:
        try:
            head, _ = judge(buffer, start, physical, ours=False)
        except BadRecord:
            return False
        return not resembles_stamp(buffer[head.end - STAMP_SIZE : head.end])

    patch.setattr(verify, "_is_torn", lambda *_: False)
    patch.setattr(scan, "written_by_another", naive)


PLANTS: list[Plant] = [
    acknowledge_before_sync,
    slot_ahead_of_sync,
    new_segment_without_directory_sync,
    two_syncs_at_once,
    recovery_without_sync,
    failed_sync_retried,
    power_loss_taken_for_process_death,
    failed_write_left_in_place,
    torn_record_taken_for_anothers,
]


def _explore_all() -> None:
    for seed in range(SEEDS):
        explore(seed, per_call=2)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)) as caught:
        _explore_all()
    assert isinstance(_innermost(caught.value), AssertionError), "something else broke"

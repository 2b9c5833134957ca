"""Work that Apache's broker has begun is counted: never as nothing when it is there, and as nothing when it is
finished."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from campaigns.store.ours import opened
from firearrow.model import keys
from firearrow.model.names import HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.inspection import pending
from firearrow.store.inspection.directory import StoreView
from firearrow.store.inspection.messages import OpenMessages, SeenMessages
from firearrow.store.inspection.pending import PendingCounts, count_pending
from firearrow.store.placement import FLUSHED
from firearrow.store.timer.layout import UNIT_BYTES
from tests.unit.store.begun import DELETES, NOW_S, REVIVE_LOG, Begun, SetOut

Scene = Callable[[Begun], Awaitable[None]]


@pytest.fixture
def counted(tmp_path: Path) -> Callable[[Scene], PendingCounts]:
    """Play a scene in a new store, and count in the open store and from outside."""

    async def count(scene: Scene) -> PendingCounts:
        disk = RealDisk(str(tmp_path))
        async with opened(tmp_path) as store:
            await scene(Begun(store, disk))
            await store.reached(store.log.tail, FLUSHED)
            inside = await count_pending(disk, OpenMessages(store))
            beside_timers = await count_pending(disk, OpenMessages(store), delivers_timers=True)
        view = await StoreView.open(disk)
        outside = await count_pending(disk, SeenMessages(view))
        view.close()
        await disk.close()
        assert inside == outside
        assert beside_timers.check_points == inside.check_points, "also those among the timed messages"
        return inside

    return lambda scene: asyncio.run(count(scene))


Counted = Callable[[Scene], PendingCounts]


def test_a_store_of_plain_messages_has_nothing(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        begun.put("T")

    assert not counted(scene)


# ---- transactions


@pytest.mark.parametrize("old", [False, True], ids=["5.x", "4.9"])
def test_half_messages_without_an_end(counted: Counted, old: bool) -> None:
    async def scene(begun: Begun) -> None:
        offsets = [begun.half() for _ in range(5)]
        begun.end(offsets[1], old=old)
        begun.end(offsets[3], old=old)

    assert counted(scene) == PendingCounts(half_messages=3, batched_ops=0 if old else 2)


def test_several_ends_in_one_message(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        offsets = [begun.half() for _ in range(12)]
        begun.end(*offsets)

    assert not counted(scene)


def test_what_the_group_has_passed_is_finished(counted: Counted) -> None:
    """Apache asked about the first two, put one of them into the queue again, and it was committed from there."""

    async def scene(begun: Begun) -> None:
        for _ in range(4):
            begun.half()
        begun.end(1)
        begun.end(3)
        await begun.save_offsets(CID_RMQ_SYS_TRANS={HALF_TOPIC: 3, OP_HALF_TOPIC: 1})

    assert not counted(scene)


def test_only_what_comes_after_the_group_counts(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        for _ in range(4):
            begun.half()
        begun.end(1)
        await begun.save_offsets(CID_RMQ_SYS_TRANS={HALF_TOPIC: 2, OP_HALF_TOPIC: 1})

    assert counted(scene) == PendingCounts(half_messages=2)


def test_a_copy_of_a_message_that_was_ended_is_finished(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        begun.half()
        begun.half(**{keys.TRAN_PREPARED_QUEUE_OFFSET: "0"})
        begun.half(**{keys.TRAN_PREPARED_QUEUE_OFFSET: "7"})
        begun.end(0)

    assert counted(scene) == PendingCounts(half_messages=1, batched_ops=1)


# ---- timers


def test_a_broker_that_delivers_timers_does_not_walk_through_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> PendingCounts:
        disk = RealDisk(str(tmp_path))
        async with opened(tmp_path) as store:
            begun = Begun(store, disk)
            timers = [SetOut(begun.timed(), NOW_S + 9) for _ in range(30)]
            await begun.save_wheel(timers, next_s=NOW_S, next_offset=30)
            await store.reached(store.log.tail, FLUSHED)
            monkeypatch.setattr(pending, "timers_of", None)
            return await count_pending(disk, OpenMessages(store), delivers_timers=True)

    assert not asyncio.run(main())


@pytest.mark.parametrize("precision_ms", [100, 1000])
def test_timed_messages_in_the_wheel(counted: Counted, precision_ms: int) -> None:
    async def scene(begun: Begun) -> None:
        due = [NOW_S - 5, NOW_S, NOW_S + 9, NOW_S + 9, NOW_S + 300]
        timers = [SetOut(begun.timed(), due_s) for due_s in due]
        await begun.save_wheel(timers, next_s=NOW_S, next_offset=5, precision_ms=precision_ms)

    assert counted(scene) == PendingCounts(timers=4)


def test_a_wheel_whose_slots_are_delivered_is_empty(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        timers = [SetOut(begun.timed(), NOW_S + number) for number in range(5)]
        await begun.save_wheel(timers, next_s=NOW_S + 5, next_offset=5)

    assert not counted(scene)


@pytest.mark.parametrize("in_wheel", range(5))
def test_the_timer_log_is_laid_over_the_wheel(counted: Counted, in_wheel: int) -> None:
    """A broker that was killed wrote the timer log first."""

    async def scene(begun: Begun) -> None:
        timers = [SetOut(begun.timed(), due_s) for due_s in (NOW_S + 9, NOW_S + 9, NOW_S - 1, NOW_S + 300, NOW_S + 9)]
        await begun.save_wheel(timers, next_s=NOW_S, next_offset=5, in_wheel=in_wheel)

    assert counted(scene) == PendingCounts(timers=4)


def test_a_snapshot_of_the_wheel_is_read(counted: Counted) -> None:
    """5.5.0 with timerWheelSnapshotFlush writes no other wheel."""

    async def scene(begun: Begun) -> None:
        timers = [SetOut(begun.timed(), NOW_S + 9) for _ in range(3)]
        await begun.save_wheel(
            timers, next_s=NOW_S, next_offset=3, in_wheel=2, wheel_path=f"timerwheel.{2 * UNIT_BYTES}"
        )

    assert counted(scene) == PendingCounts(timers=3)


def test_timed_messages_that_are_not_in_the_wheel_yet(counted: Counted) -> None:
    """After a crash one is in both, and counts once."""

    async def scene(begun: Begun) -> None:
        messages = [begun.timed() for _ in range(3)]
        timers = [SetOut(message, NOW_S + 9) for message in messages[:2]]
        await begun.save_wheel(timers, next_s=NOW_S, next_offset=1)

    assert counted(scene) == PendingCounts(timers=3)


def test_timed_messages_without_any_wheel(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        begun.timed()

    assert counted(scene) == PendingCounts(timers=1)


def test_what_recalls_a_timed_message_is_none(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        recalls = begun.timed(**{keys.TIMER_DEL_UNIQKEY: "x"})
        await begun.save_wheel([SetOut(recalls, NOW_S + 9, magic=1 | DELETES)], next_s=NOW_S, next_offset=1)
        begun.timed(**{keys.TIMER_DEL_UNIQKEY: "y"})

    assert not counted(scene)


def test_a_slot_whose_units_are_gone_counts_what_the_wheel_says(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        await begun.save_wheel([SetOut(begun.timed(), NOW_S + 9)] * 3, next_s=NOW_S, next_offset=1)
        await begun.disk.replace(f"timerlog/{0:020d}", bytes(1 << 16))

    assert counted(scene) == PendingCounts(timers=3)


# ---- pop


def test_check_points_without_all_their_acknowledgements(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        begun.check_point(0, 2)
        begun.acknowledge(0, 0)
        begun.acknowledge(0, 1)
        begun.check_point(2, 2)
        begun.acknowledge(2, 3)
        begun.check_point(4, 2, d=[0, 5])
        begun.acknowledge(4, 4, 9)
        begun.check_point(10, 3, bm=0b101)

    assert counted(scene) == PendingCounts(check_points=2)


def test_check_points_that_were_seen_to(counted: Counted) -> None:
    """The group's offset is that of the last one it has seen to; acknowledgements may follow it."""

    async def scene(begun: Begun) -> None:
        begun.check_point(0, 2)
        begun.check_point(2, 1)
        begun.acknowledge(2, 2)
        await begun.save_offsets(CID_RMQ_SYS_REVIVE_GROUP={REVIVE_LOG: 1})

    assert not counted(scene)


def test_check_points_wait_for_their_time_among_the_timers(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        marks = [begun.check_point(first, 1, topic=TIMER_TOPIC) for first in range(3)]
        marks.append(begun.acknowledge(0, 0, topic=TIMER_TOPIC))
        timers = [SetOut(mark, NOW_S + 9, REVIVE_LOG) for mark in marks]
        timers.append(SetOut(begun.timed(), NOW_S + 9))
        await begun.save_wheel(timers, next_s=NOW_S, next_offset=5)
        begun.acknowledge(1, 1, topic=TIMER_TOPIC)

    assert counted(scene) == PendingCounts(timers=1, check_points=1)


def test_a_check_point_that_cannot_be_read_counts(counted: Counted) -> None:
    async def scene(begun: Begun) -> None:
        begun.put(REVIVE_LOG, {keys.TAGS: "ck"}, b"{")

    assert counted(scene) == PendingCounts(check_points=1)


def test_counts_in_words() -> None:
    said = str(PendingCounts(half_messages=1, timers=2))
    assert said == (
        "1 half message of transactions that are neither committed nor rolled back, "
        "2 timed messages whose time has not come"
    )

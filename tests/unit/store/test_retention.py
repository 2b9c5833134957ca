"""The deletion of old files, the warnings before it, and the refusal of sends."""

import asyncio
import logging

import pytest

from firearrow.errors import DiskError, DiskFull
from firearrow.runtime.disk.door import Usage
from firearrow.store.deletion import HOUR_MS, LogFile, RetentionConfig, decide
from firearrow.store.keepers import Keepers
from firearrow.store.read.queue_reader import ReadRequest, ReadStatus
from firearrow.store.retention import QUEUES_AT_ONCE, Offsets, Retention
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import draft, fresh_image

NOW = 1_000 * HOUR_MS
CONFIG = RetentionConfig()
GIB = 1 << 30


def used(percent: float) -> Usage:
    """A disk of 100 GiB."""
    return Usage(100 * GIB, int((100 - percent) * GIB))


def files(*ages_h: float) -> list[LogFile]:
    """Log files of a gibibyte, by hours since their last write, oldest first."""
    return [LogFile(number * GIB, GIB, int(NOW - age * HOUR_MS)) for number, age in enumerate(ages_h)]


@pytest.mark.parametrize(
    ("percent", "hour", "ages", "deleted", "forced"),
    [
        (10, 3, (100, 90, 1), 0, 0),
        (10, 4, (100, 90, 1), 2, 0),
        (10, 4, (100, 1, 90), 1, 0),
        (10, 4, (72, 71.9), 1, 0),
        (75, 3, (100, 1), 0, 0),
        (76, 3, (100, 1), 1, 0),
        (85, 3, (1, 1), 0, 0),
        (87, 3, (1, 1, 1, 1), 2, 2),
        (87, 3, (100, 1, 1, 1), 2, 1),
        (99, 3, (1,) * 40, 10, 10),
        (10, 4, (100,) * 40, 10, 0),
    ],
)
def test_what_a_round_deletes(percent: float, hour: int, ages: tuple[float, ...], deleted: int, forced: int) -> None:
    decision = decide(CONFIG, files(*ages), used(percent), NOW, hour)
    assert (len(decision.delete), decision.forced) == (deleted, forced)
    assert decision.delete == files(*ages)[:deleted]


@pytest.mark.parametrize(
    ("percent", "refusing", "refuse"),
    [(89.9, False, False), (90.1, False, True), (89, True, True), (85.1, True, True), (85, True, False)],
)
def test_sends_are_refused_above_90_until_back_at_85(percent: float, refusing: bool, refuse: bool) -> None:
    assert decide(CONFIG, [], used(percent), NOW, 0, refusing=refusing).refuse is refuse


def test_expired_files_go_when_asked_and_young_ones_stay_when_that_is_forbidden() -> None:
    assert len(decide(CONFIG, files(100, 1), used(10), NOW, 3, asked=True).delete) == 1
    kept = RetentionConfig(clean_file_forcibly_enable=False)
    assert decide(kept, files(1, 1), used(99), NOW, 3).delete == []


def _retention(shop: Shop, usage: Usage, offsets: Offsets | None = None) -> Retention:
    shop.disk.usage = lambda: usage  # type: ignore[method-assign]
    return Retention(
        shop.disk,
        shop.clock,
        CONFIG,
        shop.running.log,
        shop.opened,
        shop.views,
        offsets=lambda: offsets or (),
    )


def test_a_round_deletes_log_queue_and_index_files_and_reads_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        for number in range(200):
            shop.append(draft(b"x" * 100, "T", 0, f"UNIQ_KEY\x01{number:032X}\x02"))
        await shop.flush_all()
        retention = _retention(shop, Usage(1 << 20, 1 << 17), [("g", "T", {0: 3})])
        decision = await retention.round()
        assert decision.forced == len(decision.delete) > 0
        log = shop.running.log
        assert log.min_offset == decision.delete[-1].start + decision.delete[-1].size > 0
        queue = shop.views.queues.tail_of("T", 0)
        assert queue.start > 0
        assert shop.views.index is not None
        assert shop.views.index.files.old[0].header.end_physical >= log.min_offset
        pulled = await shop.reader.read("T", 0, ReadRequest(0, 10, 10_000))
        assert pulled.status is ReadStatus.OFFSET_TOO_SMALL
        pulled = await shop.reader.read("T", 0, ReadRequest(pulled.next_offset, 10, 10_000))
        assert pulled.status is ReadStatus.FOUND
        assert any(getattr(record, "group", "") == "g" for record in caplog.records)
        await shop.close()
        again = await open_shop(shop.disk.image)
        least = again.views.queues.min_offset(again.views.queues.tail_of("T", 0), again.running.log.min_offset)
        assert least == pulled.min_offset

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def test_other_settings_hold_from_the_next_round_on() -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        for number in range(200):
            shop.append(draft(b"x" * 100, "T", 0, f"UNIQ_KEY\x01{number:032X}\x02"))
        await shop.flush_all()
        retention = _retention(shop, Usage(1 << 20, 1 << 19))
        retention.delete_expired_now()
        assert (await retention.round()).delete == [], "no file is 72 hours old"
        retention.configure(RetentionConfig(file_reserved_time=0))
        shop.clock.at_ms += 1
        assert (await retention.round()).delete

    asyncio.run(main())


def test_sends_are_refused_with_a_reason_and_taken_again() -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        retention = _retention(shop, used(95))
        await retention.round()
        assert isinstance(retention.refusal, DiskFull)
        assert "95 % full" in str(retention.refusal)
        shop.disk.usage = lambda: used(86)  # type: ignore[method-assign]
        await retention.round()
        assert retention.refusal is not None
        shop.disk.usage = lambda: used(84)  # type: ignore[method-assign]
        await retention.round()
        assert retention.refusal is None

    asyncio.run(main())


async def _forced(shop: Shop, offsets: Offsets) -> int:
    """Let a round delete young files; return up to where messages are gone from queue 0 of T."""
    await shop.flush_all()
    await _retention(shop, Usage(1 << 20, 1 << 17), offsets).round()
    return shop.views.queues.min_offset(shop.views.queues.tail_of("T", 0), shop.running.log.min_offset)


def test_who_loses_what(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        for number in range(200):
            shop.append(draft(b"x" * 100, "TU"[number % 2], 0))
        offsets = [
            ("behind", "T", {0: 3}),
            ("behind", "gone", {0: 0}),
            ("read", "T", {0: 99}),
            ("done", "U", {0: 100, 7: 0}),
        ]
        first = await _forced(shop, offsets)
        assert 3 < first < 99
        said = [vars(record) for record in caplog.records if "group" in vars(record)]
        assert [(one["group"], one["topic"], one["messages"]) for one in said] == [("behind", "T", first - 3)]
        assert f"group behind loses {first - 3} unread messages of topic T" in caplog.text

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


class Pending:
    """Keeps some bytes of each file; it cannot write them again."""

    kept = "timed messages"

    def __init__(self, *of_files: int) -> None:
        self.of_files = of_files
        self.dropped: list[int] = []

    async def pending_bytes(self, start: int, end: int) -> int:
        assert end == start + GIB
        return self.of_files[start // GIB]

    async def renew_below(self, physical: int) -> None:
        raise DiskFull(f"no room to write what is below {physical}")

    async def drop_below(self, physical: int) -> None:
        self.dropped.append(physical)


@pytest.mark.parametrize(
    ("of_files", "wanted", "deleted"),
    [
        ((0, 0, 0, 0), 2, 2),
        ((GIB, GIB, GIB, GIB), 2, 0),
        ((GIB // 2, GIB // 2, GIB, GIB), 2, 2),
        ((GIB, 0, 0, 0), 1, 1),
        ((GIB, GIB, GIB, 0), 2, 0),
        ((GIB, GIB, 0, 0), 3, 3),
        ((0, GIB, GIB, GIB), 3, 2),
        ((0, GIB // 2, GIB, GIB), 3, 3),
        ((0, GIB, GIB + 1, GIB), 4, 2),
    ],
)
def test_files_are_not_deleted_by_force_when_that_frees_less_than_is_written_again(
    of_files: tuple[int, ...], wanted: int, deleted: int
) -> None:
    keepers = Keepers()
    keepers.all.append(Pending(*of_files))
    assert asyncio.run(keepers.worth(files(1, 1, 1, 1), wanted)).files == deleted


def test_messages_are_given_up_when_there_was_no_room_three_times_in_a_row() -> None:
    async def main() -> None:
        keepers, pending = Keepers(), Pending()
        keepers.all.append(pending)
        for _ in range(2):
            with pytest.raises(DiskFull):
                await keepers.renew_below(GIB)
        await keepers.renew_below(GIB)
        assert pending.dropped == [GIB]
        with pytest.raises(DiskFull):
            await keepers.renew_below(2 * GIB)

    asyncio.run(main())


def test_why_files_are_not_deleted_is_said_although_deletions_cannot_be_made_durable_either(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        for _ in range(200):
            shop.append(draft(b"x" * 100))
        await shop.flush_all()
        retention = _retention(shop, Usage(1 << 20, 1 << 17))

        class Second(Pending):
            async def pending_bytes(self, start: int, end: int) -> int:
                del start, end
                return 0

            async def renew_below(self, physical: int) -> None:
                if physical > shop.opened.segments.size:
                    await super().renew_below(physical)

        retention.keepers.all.append(Second())

        async def refused(path: str = "") -> None:
            raise DiskFull(f"cannot sync {path}")

        shop.disk.sync_directory = refused  # type: ignore[method-assign]
        with pytest.raises(DiskFull, match="no room to write what is below"):
            await retention.round()
        assert shop.running.log.min_offset == shop.opened.segments.size, "the first file is deleted"
        assert [text for text in caplog.messages if "not durable yet" in text]

    asyncio.run(main())


def test_a_log_file_that_cannot_be_deleted_stays_a_part_of_the_log() -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        for _ in range(200):
            shop.append(draft(b"x" * 100))
        await shop.flush_all()
        retention = _retention(shop, Usage(1 << 20, 1 << 17))
        unlink = shop.disk.unlink

        async def refused(path: str) -> None:
            raise DiskError(f"cannot delete {path}")

        shop.disk.unlink = refused  # type: ignore[method-assign]
        with pytest.raises(DiskError):
            await retention.round()
        assert shop.running.log.min_offset == 0
        shop.disk.unlink = unlink  # type: ignore[method-assign]
        await retention.round()
        assert shop.running.log.min_offset > 0

    asyncio.run(main())


def test_others_have_their_turn_while_losses_are_counted() -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image(), segment=1 << 18)
        queues = 2000
        for number in range(queues):
            shop.append(draft(b"x" * 100, "T", number))
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        await shop.flush_all()
        counting = asyncio.create_task(count())
        offsets = [("g", "T", dict.fromkeys(range(queues), 0))]
        decision = await _retention(shop, Usage(1 << 20, 1 << 17), offsets).round()
        counting.cancel()
        assert decision.forced == 1
        assert turns >= queues // QUEUES_AT_ONCE - 1

    asyncio.run(main())

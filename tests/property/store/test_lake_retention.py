"""Retention of topics that are kept for a lake, against a model that looks at every message."""

import asyncio
import logging
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.runtime.disk.door import Usage
from firearrow.store.deletion import HOUR_MS, Floors, LogFile, RetentionConfig, decide
from firearrow.store.lake_topics import LakeTopic, floors
from firearrow.store.retention import Retention
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import draft, fresh_image

NOW = 1_000 * HOUR_MS
CONFIG = RetentionConfig(delete_file_batch_max=4)
SIZE = 1 << 20
EMPTY = Usage(100 * SIZE, 90 * SIZE)
TIGHT = Usage(100 * SIZE, 13 * SIZE)
TOPICS = ("kept", "released", "plain")

AGES = st.lists(st.integers(0, 200), max_size=8)
PLACES = st.integers(0, 8 * SIZE)


def files(ages_h: list[int]) -> list[LogFile]:
    return [LogFile(number * SIZE, SIZE, NOW - age * HOUR_MS) for number, age in enumerate(ages_h)]


@given(AGES, PLACES, PLACES, st.booleans(), st.integers(0, 23))
def test_no_file_is_deleted_by_age_that_a_lake_lacks(
    ages: list[int], lacked: int, released: int, asked: bool, hour: int
) -> None:
    found = Floors(lacked, min(released, lacked))
    decision = decide(CONFIG, files(ages), EMPTY, NOW, hour, asked=asked, floors=found)
    assert decision.forced == 0
    assert decision.delete == files(ages)[: len(decision.delete)], "the oldest first"
    for file in decision.delete:
        end = file.start + file.size
        is_expired = file.modified_ms <= NOW - CONFIG.file_reserved_time * HOUR_MS
        assert end <= found.lacked
        assert is_expired or end <= found.released
    left = files(ages)[len(decision.delete) : CONFIG.delete_file_batch_max]
    if left:
        assert left[0].start + SIZE > found.released, "a released file is deleted in the next round"


@given(AGES, PLACES, st.booleans())
def test_a_full_disk_deletes_what_a_lake_lacks_and_counts_it_as_forced(
    ages: list[int], lacked: int, asked: bool
) -> None:
    decision = decide(CONFIG, files(ages), TIGHT, NOW, 0, asked=asked, floors=Floors(lacked, 0))
    wanted = min(2, len(ages), CONFIG.delete_file_batch_max)
    assert len(decision.delete) >= wanted
    beyond = [file for file in decision.delete if file.start + file.size > lacked]
    assert decision.forced >= len(beyond)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 1)), min_size=20, max_size=120),
    st.tuples(*[st.integers(0, 60)] * 4),
)
def test_floors_are_those_of_the_first_message_in_the_way(
    sent: list[tuple[str, int]], offsets: tuple[int, int, int, int]
) -> None:
    marks = {"kept": dict(enumerate(offsets[:2])), "released": dict(enumerate(offsets[2:]))}
    topics = {"kept": LakeTopic(marks["kept"]), "released": LakeTopic(marks["released"], marks["released"])}

    async def main() -> None:
        shop = await open_shop(fresh_image())
        places = [(topic, queue, shop.append(draft(b"x" * 90, topic, queue))) for topic, queue in sent]
        await shop.flush_all()
        lacked = [
            (place.physical_offset, topic)
            for topic, queue, place in places
            if place.queue_offset >= _mark(marks, topic, queue)
        ]
        kept = [
            place.physical_offset
            for topic, queue, place in places
            if topic != "released" or place.queue_offset >= _mark(marks, topic, queue)
        ]
        found = await floors(shop.views.queues, 0, topics)
        first, topic = min(lacked, default=(found.lacked, ""))
        assert (found.lacked, found.topic) == (first, topic)
        assert found.released == min([*kept, found.lacked])
        assert (await floors(shop.views.queues, 0, {"kept": topics["kept"]})).released == 0
        await shop.close()

    asyncio.run(main())


def _mark(marks: Mapping[str, Mapping[int, int]], topic: str, queue: int) -> int:
    return marks[topic][queue] if topic in marks else 1 << 60


def _retention(shop: Shop, topics: Mapping[str, LakeTopic] | None, usage: Usage) -> Retention:
    shop.disk.usage = lambda: usage  # type: ignore[method-assign]
    config = RetentionConfig(file_reserved_time=0, delete_file_batch_max=100)
    return Retention(
        shop.disk, shop.clock, config, shop.running.log, shop.opened, shop.views, lake_topics=lambda: topics
    )


async def _filled() -> Shop:
    shop = await open_shop(fresh_image())
    for _ in range(200):
        shop.append(draft(b"x" * 100, "T", 0))
    await shop.flush_all()
    return shop


def first_of(shop: Shop) -> int:
    return shop.views.queues.min_offset(shop.views.queues.tail_of("T", 0), shop.running.log.min_offset)


@pytest.mark.parametrize("mark", [0, 77, 150])
def test_rounds_delete_up_to_the_mark_and_say_what_holds_them(mark: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shop = await _filled()
        retention = _retention(shop, {"T": LakeTopic({0: mark} if mark else {})}, EMPTY)
        for _ in range(3):
            retention.delete_expired_now(1)
            await retention.round()
        assert first_of(shop) <= mark
        assert mark - first_of(shop) < 40, "the files below are deleted"
        said = [record for record in caplog.records if "no lake has" in record.getMessage()]
        assert [record.levelname for record in said] == ["WARNING"], "once, not in every round"

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def test_nothing_is_deleted_before_the_topics_are_known() -> None:
    async def main() -> None:
        shop = await _filled()
        retention = _retention(shop, None, EMPTY)
        retention.delete_expired_now(1)
        assert (await retention.round()).delete == []
        known = _retention(shop, {}, EMPTY)
        known.delete_expired_now(1)
        assert (await known.round()).delete

    asyncio.run(main())


def test_a_full_disk_says_what_the_lake_loses(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shop = await _filled()
        await _retention(shop, {"T": LakeTopic({0: 3})}, Usage(1 << 20, 1 << 17)).round()
        lost = first_of(shop) - 3
        assert lost > 0
        assert f"topic T loses {lost} messages that no lake has" in caplog.text

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def test_released_messages_are_deleted_before_they_expire() -> None:
    async def main() -> None:
        shop = await _filled()
        retention = _retention(shop, {"T": LakeTopic({0: 150}, {0: 100})}, EMPTY)
        retention._config = RetentionConfig(delete_file_batch_max=100)
        await retention.round()
        assert 60 < first_of(shop) <= 100

    asyncio.run(main())

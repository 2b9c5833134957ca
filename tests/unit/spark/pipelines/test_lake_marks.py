"""Marks of archives when they open: a table without a commit lowers them, before anything is read."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import pytest

from firearrow.client import Bounds
from firearrow.errors import FireArrowError, NotNow
from firearrow.mirror.group_sync import GroupSync
from firearrow.model import MessageQueue
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import lake_marks
from firearrow.spark.pipelines.archive import Archive
from firearrow.spark.pipelines.lake_marks import LakeMarks, marking
from firearrow.spark.pipelines.progress import QueueLag

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)
SOURCE = {"nameServer": "127.0.0.1:9", "subscribe": "orders"}


class Brokers:
    """The marks that brokers have noted; those in ``gone`` take none."""

    def __init__(self) -> None:
        self.marks: dict[MessageQueue, int] = {}
        self.gone: set[str] = set()
        self.offsets = self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def create(self, _group: object) -> None:
        return None

    async def write_each(self, _group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, FireArrowError]:
        self.marks |= {queue: offset for queue, offset in offsets.items() if queue.broker_name not in self.gone}
        return {queue: NotNow(f"no {queue.broker_name}") for queue in offsets if queue.broker_name in self.gone}


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers()
    monkeypatch.setattr(lake_marks, "Admin", lambda *_, **__: found)
    monkeypatch.setattr(lake_marks, "link_of", lambda *_: None)
    bounds = {queue: Bounds(3, 1000) for queue in (A, B)}
    monkeypatch.setattr(
        lake_marks, "chosen_bounds",
        lambda *_: {queue: each for queue, each in bounds.items() if queue.broker_name not in found.gone},
    )  # fmt: skip
    return found


def opened(ends: dict[str, dict[MessageQueue, int]], told: list[str], **options: str) -> LakeMarks:
    marks = LakeMarks({**SOURCE, **options}, "orders", ends, told.append)
    try:
        marks.open()
    except BaseException:
        marks.close()
        raise
    return marks


def test_a_table_without_a_commit_lowers_the_marks(brokers: Brokers) -> None:
    opened({"bronze": {A: 1000, B: 900}}, []).close()
    assert brokers.marks == {A: 1000, B: 900}
    marks = opened({"bronze": {A: 1000, B: 900}, "typed": {}}, [])
    assert brokers.marks == {A: 3, B: 3}, "where the typed table begins"
    marks.note("typed", [QueueLag("orders/broker-a/0", 500, 0)])
    assert brokers.marks == {A: 500, B: 3}
    marks.close()


def test_an_archive_marks_where_it_begins(brokers: Brokers) -> None:
    opened({"bronze": {}}, [], startingOffsets="latest").close()
    assert brokers.marks == {A: 1000, B: 1000}
    opened({"bronze": {A: 7}}, []).close()
    assert brokers.marks == {A: 7, B: 3}, "a new queue is read from its first message on"


def test_a_broker_that_is_gone_keeps_no_mark_of_others_back(brokers: Brokers) -> None:
    brokers.gone, told = {"broker-a"}, list[str]()
    marks = opened({"bronze": {A: 77, B: 900}}, told)
    assert brokers.marks == {B: 900}
    marks.note("bronze", [QueueLag("orders/broker-b/0", 950, 0)])
    assert (brokers.marks, len(told)) == ({B: 950}, 1), "told once"
    brokers.gone = set()
    marks.note("bronze", [])
    assert brokers.marks == {A: 77, B: 950}
    marks.close()


def test_a_mark_that_cannot_be_lowered_ends_the_archive(brokers: Brokers) -> None:
    brokers.gone, told = {"broker-a"}, list[str]()
    ends: dict[str, dict[MessageQueue, int]] = {"bronze": {A: 77, B: 900}, "typed": {}}
    with pytest.raises(NotNow, match=r"no broker-a.*nothing was read"):
        opened(ends, told)
    assert told == []
    opened(ends, told, failOnDataLoss="false").close()
    assert len(told) == 1


@pytest.mark.usefixtures("brokers")
def test_the_storage_is_reached_before_the_checkpoint_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def end(*_: object) -> dict[MessageQueue, int]:
        calls.append("checkpoint")
        return {A: 1}

    monkeypatch.setattr(lake_marks, "committed_end", end)
    spark: Any = SimpleNamespace(conf=SimpleNamespace(set=lambda name, _: calls.append(name)))
    table = LakeTable("delta", "s3://lake/orders", storage={"s3.region": "here"})
    with marking(spark, Archive(SOURCE, table, "s3://lake/checkpoint"), "orders", pytest.fail):
        assert calls == ["fs.s3a.endpoint.region", "checkpoint"]


def test_a_mirror_leaves_marks_of_archives_alone() -> None:
    nothing: Any = None
    sync = GroupSync(nothing, nothing, nothing, ("*",), "")
    assert [name for name in ("kitchen", "FIREARROW_LAKE_orders") if sync._wants(name)] == ["kitchen"]

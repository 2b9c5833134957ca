"""Store files without a broker: ours and Apache's, whole, torn, damaged, and losing files."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow.errors import SettingsError
from firearrow.spark.options import store_options
from firearrow.spark.source.pushdown import NarrowedRows
from firearrow.spark.source.reader import DataLost
from firearrow.spark.source.store_files import StoreReader, opened
from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer
from tests.spark.source.conftest import APACHE, OURS
from tests.spark.source.reading import numbered, read, read_store, send, table_of

pytestmark = [pytest.mark.apache, pytest.mark.real]

COUNT = 900
FILE_BYTES = 32 * 1024


@pytest.fixture(scope="session", params=[OURS, APACHE])
def written(request: pytest.FixtureRequest) -> Iterator[tuple[Path, list[str]]]:
    """A store of several log files with topics orders and bills, and the names of its rows as a broker told them."""
    settings = {"mappedFileSizeCommitLog": str(FILE_BYTES), "maxMessageSize": "8192"}
    ours = request.param == OURS
    with FireArrowNameServer() if ours else ApacheNameServer(APACHE) as names:
        at = [names.address]
        with (
            FireArrowBroker(name_servers=at, settings=settings)
            if ours
            else ApacheBroker(APACHE, name_servers=at, settings=settings)
        ) as broker:
            for topic in ("orders", "bills"):
                broker.create_topic(topic)
                send(names.address, numbered(topic, COUNT if topic == "orders" else 30))
            told = read({"nameServer": names.address, "subscribe": "orders"}, ["row_id"])["row_id"]
            broker.stop()
            yield broker.store, sorted(told)


@pytest.fixture
def store(written: tuple[Path, list[str]], tmp_path: Path) -> str:
    """A copy of it."""
    shutil.copytree(written[0], tmp_path / "store")
    return str(tmp_path / "store")


def log_files(store: str) -> list[Path]:
    return sorted(path for path in (Path(store) / "commitlog").iterdir() if path.name.isdigit())


def bodies(table: dict[str, list[bytes]]) -> list[int]:
    return sorted(int(body) for body in table["body"])


def test_the_same_rows_as_from_the_broker(written: tuple[Path, list[str]], store: str) -> None:
    table = read_store({"path": store, "subscribe": "orders", "checkCrc": "true"})
    assert sorted(table["row_id"]) == written[1]
    assert bodies(table) == list(range(COUNT))
    assert table["physical_offset"] == sorted(table["physical_offset"]), "in the order of the log"
    assert len(log_files(store)) > 3


def test_topics_are_chosen(store: str) -> None:
    table = read_store({"path": store}, ["topic"])
    assert {"orders", "bills"} <= set(table["topic"])
    assert bodies(read_store({"path": store, "subscribePattern": "bil.*"}, ["body"])) == list(range(30))
    with pytest.raises(SettingsError, match="no topic absent"):
        read_store({"path": store, "subscribe": "absent"})
    assert set(read_store({"path": store, "brokerName": "else"}, ["broker"])["broker"]) == {"else"}


def test_offsets_and_times(store: str) -> None:
    table = read_store({"path": store, "subscribe": "orders"}, ["body", "store_timestamp", "queue_id", "queue_offset"])
    times = sorted(round(moment.timestamp() * 1000) for moment in table["store_timestamp"])
    middle = times[COUNT // 2]
    late = read_store({"path": store, "subscribe": "orders", "startingTimestamp": str(middle)}, ["body"])
    early = read_store({"path": store, "subscribe": "orders", "endingTimestamp": str(middle)}, ["body"])
    assert len(late["body"]) == sum(time >= middle for time in times)
    assert bodies(late) + bodies(early) != []
    assert sorted(bodies(late) + bodies(early)) == list(range(COUNT))
    some = {
        "startingOffsets": '{"orders": 10}',
        "endingOffsets": '{"orders": {"b": {"0": 12, "1": 11, "2": 0, "3": 0}}}',
    }
    table = read_store({"path": store, "subscribe": "orders", "brokerName": "b", **some}, ["queue_id", "queue_offset"])
    assert sorted(zip(table["queue_id"], table["queue_offset"], strict=True)) == [(0, 10), (0, 11), (1, 10)]


def test_tasks_cut_the_log(store: str) -> None:
    many = {"path": store, "subscribe": "orders", "minPartitions": "5", "maxPartitions": "5", "batchRows": "50"}
    planned = StoreReader(store_options(many), ("body",)).partitions()
    assert len(planned) == 5
    assert bodies(read_store(many, ["body"])) == list(range(COUNT))


def test_conditions_leave_out_files(store: str) -> None:
    held = frozenset(read_store({"path": store, "subscribe": "bills"}, ["queue_id"])["queue_id"])
    reader = StoreReader(store_options({"path": store}), ("topic", "tags", "queue_id", "body"))
    reader._narrowing = NarrowedRows(topics=frozenset({"bills"}), tags=frozenset({"A"}), queue_ids=held)
    for file in log_files(store)[:2]:
        file.unlink()
    found = table_of([batch for part in reader.partitions() for batch in reader.read(part)], ["topic"])
    assert set(found["topic"]) == {"bills"}
    assert set(found["tags"]) == {"A"}
    assert set(found["queue_id"]) == held
    reader._narrowing = NarrowedRows(topics=frozenset({"bills"}), queue_ids=frozenset(range(4)) - held)
    assert [batch for part in reader.partitions() for batch in reader.read(part)] == []


def test_files_that_are_gone_before_planning_are_the_past(store: str) -> None:
    log_files(store)[0].unlink()
    left = read_store({"path": store, "subscribe": "orders"}, ["body", "physical_offset"])
    assert 0 < len(left["body"]) < COUNT
    assert min(left["physical_offset"]) >= FILE_BYTES


def test_files_that_vanish_while_they_are_read_are_told(store: str) -> None:
    options = {"path": store, "subscribe": "orders", "minPartitions": "2"}
    reader = StoreReader(store_options(options), ("body",))
    planned = reader.partitions()
    log_files(store)[0].unlink()
    with pytest.raises(DataLost, match=r"messages of orders on broker-a, queue \d, offsets 0 to \d+"):
        [batch for part in planned for batch in reader.read(part)]
    forgiving = StoreReader(store_options({**options, "failOnDataLoss": "false"}), ("body",))
    found = table_of([batch for part in planned for batch in forgiving.read(part)], ["body"])
    assert 0 < len(found["body"]) < COUNT


def test_a_torn_tail_is_passed_over(store: str) -> None:
    whole = read_store({"path": store, "subscribe": "orders"}, ["physical_offset", "store_size"])
    with opened(store) as view:
        starts = [file.start for file in asyncio.run(view.log_files())]
    last = max(start for start in starts if start <= max(whole["physical_offset"]))
    path = Path(store) / "commitlog" / f"{last:020d}"
    in_last = [place for place in whole["physical_offset"] if place >= last]
    torn_from = in_last[len(in_last) // 2] - last
    with path.open("r+b") as file:
        file.truncate(torn_from)
        file.truncate(FILE_BYTES)
    kept = read_store({"path": store, "subscribe": "orders"}, ["physical_offset"])
    assert kept["physical_offset"] == [place for place in whole["physical_offset"] if place < last + torn_from]


def test_damage_is_told(store: str) -> None:
    path = log_files(store)[0]
    with path.open("r+b") as file:
        file.seek(0)
        file.write(b"\x7f\xff\xff\xff")
    with pytest.raises(DataLost, match="the log holds something else"):
        read_store({"path": store}, ["topic"])
    assert read_store({"path": store, "failOnDataLoss": "false"}, ["topic"])["topic"]


def test_no_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not a store"):
        read_store({"path": str(tmp_path)})

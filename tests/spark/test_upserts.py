"""Tables by key: equal to the topic folded by key and order, over retries and tombstones."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from campaigns.rotation import this_turn
from firearrow.blocking import Message, Producer
from firearrow.errors import SettingsError, Unsupported
from firearrow.model import StoredMessage
from firearrow.spark.bodies.body_format import BodyFormat
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive
from firearrow.spark.pipelines.upserts import Upsert
from tests.spark.readers import by_duckdb, by_python
from tests.spark.serving import Served, held, send, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real

FORMATS = ("iceberg", "delta")
CELLS = [(form, version) for version in ("", "_ts_ms") for form in FORMATS]
ROW = "id long NOT NULL, name string NOT NULL, price decimal(10,2)"
Fold = dict[int, tuple[str, str | None]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        yield running


def job(form: str, broker: Served, topic: str, directory: Path, **more: Any) -> archive.Archive:
    table = LakeTable(form, str(directory / form), "shop.orders" if form == "iceberg" else "")  # type: ignore[arg-type]
    source = {"nameServer": broker.name_server, "subscribe": topic, "maxOffsetsPerTrigger": "60"}
    how: dict[str, Any] = {"bodies": BodyFormat("debezium", ROW), "upsert": Upsert(("id",))}
    how |= {"bronze": False, "on_error": "fail"}
    return archive.Archive(source, table, str(directory / f"checkpoint-{form}"), **{**how, **more})


def run(spark: "SparkSession", what: archive.Archive) -> None:
    for query in archive.start(spark, what):
        query.awaitTermination()


def table_of(spark: "SparkSession", what: archive.Archive) -> Fold:
    rows = access.read(spark, what.tables()[archive.TYPED]).collect()
    found = {row.id: (row.name, None if row.price is None else str(row.price)) for row in rows}
    assert len(found) == len(rows), "a key stands in the table once"
    return found


def event(chance: random.Random, number: int) -> Message:
    key, op = chance.randrange(12), chance.choice("ccuurd")
    row = {"id": key, "name": f"n{number}", "price": f"{number}.50"}
    made = {"op": op, "ts_ms": number, "source": {"lsn": number}, "before": None, "after": row}
    if op == "d":
        made |= {"before": {"id": key}, "after": None}
        if chance.random() < 0.3:
            return Message.of("x", b"null", keys=[json.dumps({"id": key}, separators=(",", ":"))])
    wrapped = {"schema": {}, "payload": made} if chance.random() < 0.3 else made
    return Message.of("x", json.dumps(wrapped).encode(), keys=[json.dumps({"id": key}, separators=(",", ":"))])


def change(message: StoredMessage) -> tuple[int, tuple[str, str | None] | None, int]:
    """The key, the row (None: deleted) and the version of an event, read without the code under test."""
    if message.body == b"null":
        return json.loads(message.keys[0])["id"], None, -1
    made = json.loads(message.body)
    made = made.get("payload", made)
    if made["op"] == "d":
        return made["before"]["id"], None, made["ts_ms"]
    return made["after"]["id"], (made["after"]["name"], made["after"]["price"]), made["ts_ms"]


def fold(messages: dict[tuple[int, int], StoredMessage], by_version: bool = False) -> Fold:
    """The last version of every key: in a queue by offset, among queues by store time."""
    last: dict[int, dict[int, tuple[Any, Any]]] = {}
    for (queue, offset), message in sorted(messages.items()):
        key, row, version = change(message)
        order = (version if by_version else 0, offset)
        mine = last.setdefault(key, {})
        if queue not in mine or order > mine[queue][0][0]:
            mine[queue] = ((order, (order[0], message.store_timestamp, queue)), row)
    found = {}
    for key, queues in last.items():
        (_, row) = max(queues.values(), key=lambda each: each[0][1])
        if row is not None:
            found[key] = row
    return found


def send_events(broker: Served, topic: str, seed: int, count: int, start: int = 0) -> None:
    """Events of few keys over all queues, some of them sent again later, as a retry does."""
    chance = random.Random(seed)
    made = [event(chance, number) for number in range(start, start + count)]
    for _ in range(count // 8):
        old = chance.randrange(len(made))
        made.insert(chance.randrange(old, len(made)) + 1, made[old])
    with Producer(broker.name_server, group="events") as producer:
        for message in made:
            producer.send(Message.of(topic, message.body, keys=list(message.keys)))


@pytest.mark.rotating
@pytest.mark.parametrize(("form", "version"), this_turn(CELLS, __name__))
def test_the_table_is_the_fold_of_the_topic(
    spark: "SparkSession", broker: Served, tmp_path: Path, form: str, version: str
) -> None:
    topic = f"fold-{form}-{len(version)}"
    what = job(form, broker, topic, tmp_path, upsert=Upsert(("id",), version=version))
    send_events(broker, topic, 1, 60)
    run(spark, what)
    assert table_of(spark, what) == fold(held(broker.name_server, topic), bool(version))
    send_events(broker, topic, 2, 30, 60)
    run(spark, what)
    assert table_of(spark, what) == fold(held(broker.name_server, topic), bool(version))
    for rows in (by_duckdb(what.tables()[archive.TYPED]), by_python(what.tables()[archive.TYPED])):
        assert sorted(row["id"] for row in rows) == sorted(table_of(spark, what))


@pytest.mark.rotating
@pytest.mark.parametrize("form", this_turn(FORMATS, __name__))
def test_columns_and_partitions_of_a_table_by_key(
    spark: "SparkSession", broker: Served, tmp_path: Path, form: str
) -> None:
    topic, by = f"shaped-{form}", "bucket(2, id), day(store_timestamp)" if form == "iceberg" else "day(store_timestamp)"
    settings: dict[str, Any] = {"evolve": "add", "partition_by": by}
    what = job(form, broker, topic, tmp_path)
    what = replace(what, table=replace(what.table, **settings))
    send_events(broker, topic, 3, 30)
    run(spark, what)
    send_events(broker, topic, 4, 20, 30)
    wider = replace(what, bodies=BodyFormat("debezium", f"{ROW}, note string"))
    run(spark, wider)
    wanted = fold(held(broker.name_server, topic))
    assert table_of(spark, wider) == wanted
    typed = wider.tables()[archive.TYPED]
    assert "note" in access.read(spark, typed).columns
    for rows in (by_duckdb(typed), by_python(typed)):
        assert {row["id"]: (row["name"], row["price"] and str(row["price"])) for row in rows} == wanted
        assert len(rows) == len(wanted)
    with pytest.raises(SettingsError, match="has the key id, not name"):
        archive.start(spark, replace(wider, upsert=Upsert(("name",))))


def test_plain_rows_are_deleted_by_a_condition_and_by_messages_without_body(
    spark: "SparkSession", broker: Served, tmp_path: Path
) -> None:
    def row(key: int, name: str, gone: bool = False) -> Message:
        body = json.dumps({"shop": "a", "id": key, "name": name, "gone": gone}).encode()
        return Message.of("plain", body, keys=[f'{{"id":{key},"shop":"a"}}'])

    send(broker.name_server, [row(1, "a"), row(2, "b"), row(3, "c"), row(1, "a2"), row(2, "", gone=True)])
    send(broker.name_server, [Message.of("plain", b"null", keys=['{"id":3,"shop":"a"}']), Message.of("plain", b"null")])
    how = Upsert(("shop", "id"), delete_when="gone")
    bodies = BodyFormat(schema="shop string, id long, name string, gone boolean")
    what = job("delta", broker, "plain", tmp_path, bodies=bodies, upsert=how, on_error=archive.QUARANTINE)
    run(spark, what)
    rows = access.read(spark, what.tables()[archive.TYPED]).collect()
    assert [(row.id, row.name) for row in rows] == [(1, "a2")]
    (bad,) = access.read(spark, what.tables()[archive.QUARANTINE]).collect()
    assert bad.reason == "the body is empty, and no KEYS say which row is to be deleted"


def test_upserts_that_cannot_be_are_refused(broker: Served, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="give --body-schema too"):
        job("delta", broker, "t", tmp_path, bodies=None).checked()
    with pytest.raises(Unsupported, match="a Parquet table has no way to change rows"):
        job("parquet", broker, "t", tmp_path).checked()

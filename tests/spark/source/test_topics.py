"""Every option of the topics source, at our broker and at Apache's, without a JVM of Spark's."""

import json
import pickle
import socket
import time
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from firearrow.blocking import Message, MessageQueue, PullConsumer
from firearrow.errors import ConnectionFailed, FireArrowError, NoRoute, SettingsError, Unsupported
from firearrow.spark.link import close_links
from firearrow.spark.schema import NAMES
from firearrow.spark.sink.writer import BatchWriter
from firearrow.spark.source import plan
from firearrow.spark.source.reader import DataLost
from judges import ApacheBroker, fresh
from tests.spark.source.conftest import is_ours
from tests.spark.source.reading import numbered, numbers, parts, read, rows_between, send, stream, wait_until

pytestmark = [pytest.mark.apache, pytest.mark.real]

COUNT = 600


@pytest.fixture(scope="session")
def filled(broker: ApacheBroker) -> str:
    """A topic of four queues with 600 numbered messages."""
    topic = broker.create_topic(fresh("filled"))
    send(at(broker), numbered(topic, COUNT))
    return topic


def at(broker: ApacheBroker) -> str:
    return broker.name_servers[0]


def options(broker: ApacheBroker, topic: str, **more: str) -> dict[str, str]:
    return {"nameServer": at(broker), "subscribe": topic, **more}


def test_every_row_with_every_column(broker: ApacheBroker, filled: str) -> None:
    table = read(options(broker, filled, checkCrc="true"))
    assert list(table) == list(NAMES)
    assert sorted(int(body) for body in table["body"]) == list(range(COUNT))
    assert len(set(table["row_id"])) == COUNT
    for row, body in enumerate(table["body"]):
        assert table["keys"][row] == f"k{int(body)}"
        assert table["tags"][row] == "ABC"[int(body) % 3]
        assert dict(table["properties"][row])["a"] == str(int(body) % 10)
    assert set(table["broker"]) == {broker.name}
    assert set(table["topic"]) == {filled}


def test_a_schema_prunes_columns(broker: ApacheBroker, filled: str) -> None:
    assert list(read(options(broker, filled), ["queue_offset", "body"])) == ["queue_offset", "body"]


def test_several_topics_and_patterns(broker: ApacheBroker, filled: str) -> None:
    other = broker.create_topic(filled + "-other")
    send(at(broker), numbered(other, 10, COUNT))
    assert numbers(options(broker, f"{filled}, {other}")) == list(range(COUNT + 10))
    pattern = {"nameServer": at(broker), "subscribePattern": f"{filled}.*"}
    assert numbers(pattern) == list(range(COUNT + 10))
    assert numbers({**pattern, "subscribePattern": filled}) == list(range(COUNT))


def test_assigned_queues(broker: ApacheBroker, filled: str) -> None:
    for text in (json.dumps({filled: {broker.name: [1, 2]}}), json.dumps({filled: [1, 2]})):
        table = read({"nameServer": at(broker), "assign": text}, ["queue_id"])
        assert set(table["queue_id"]) == {1, 2}


def test_offsets_by_queue(broker: ApacheBroker, filled: str) -> None:
    start = json.dumps({filled: {broker.name: {"0": 5, "1": -2}}})
    end = json.dumps({filled: {broker.name: {"0": 9, "1": 3, "2": 0, "3": 0}}})
    table = read(options(broker, filled, startingOffsets=start, endingOffsets=end), ["queue_id", "queue_offset"])
    found = sorted(zip(table["queue_id"], table["queue_offset"], strict=True))
    assert found == [(0, 5), (0, 6), (0, 7), (0, 8), (1, 0), (1, 1), (1, 2)]


def test_times_to_the_millisecond(broker: ApacheBroker) -> None:
    topic = broker.create_topic(fresh("timed"), 1)
    for number in range(3):
        send(at(broker), numbered(topic, 1, number))
    table = read(options(broker, topic), ["body", "store_timestamp"])
    times = [round(moment.timestamp() * 1000) for moment in table["store_timestamp"]]
    assert len(set(times)) == 3, "a send takes longer than a millisecond"
    assert numbers(options(broker, topic, startingTimestamp=str(times[1]))) == [1, 2]
    assert numbers(options(broker, topic, startingTimestamp=str(times[1] + 1))) == [2]
    assert numbers(options(broker, topic, endingTimestamp=str(times[1]))) == [0]
    by_queue = json.dumps({topic: {broker.name: {"0": times[2]}}})
    assert numbers(options(broker, topic, startingOffsetsByTimestamp=by_queue)) == [2]
    assert numbers(options(broker, topic, endingOffsetsByTimestamp=by_queue)) == [0, 1]
    late = str(times[2] + 3_600_000)
    assert numbers(options(broker, topic, startingTimestamp=late)) == []
    with pytest.raises(SettingsError, match="nothing was stored"):
        read(options(broker, topic, startingTimestamp=late, startingOffsetsByTimestampStrategy="error"))


def test_partitions_follow_rows_and_options(broker: ApacheBroker, filled: str) -> None:
    assert len(parts(options(broker, filled))) == 1, "few rows are one task, whatever their queues"
    assert len(parts(options(broker, filled, minPartitions="3"))) == 3
    assert len(parts(options(broker, filled, rowsPerPartition="100", maxPartitions="4"))) == 4
    assert len(parts(options(broker, filled, maxRecordsPerPartition="60"))) == 10
    assert numbers(options(broker, filled, minPartitions="7")) == list(range(COUNT))


def test_how_records_are_fetched_changes_no_row(broker: ApacheBroker, filled: str) -> None:
    for more in (
        {"fetchMaxMessages": "7", "fetchesInFlight": "3", "batchRows": "10"},
        {"fetchMaxBytes": "2000", "fetchesInFlight": "1"},
        {"fetchTimeoutMs": "5000", "fetchRetries": "0", "fetchRetryIntervalMs": "1"},
    ):
        assert numbers(options(broker, filled, **more)) == list(range(COUNT))


def test_tags_are_filtered_by_the_broker(broker: ApacheBroker, filled: str) -> None:
    assert numbers(options(broker, filled, tags="A")) == list(range(0, COUNT, 3))
    assert numbers(options(broker, filled, tags="A || C", minPartitions="5")) == [n for n in range(COUNT) if n % 3 != 1]


def test_sql_is_filtered_by_the_broker(broker: ApacheBroker, filled: str) -> None:
    wanted = options(broker, filled, sql="a BETWEEN 3 AND 4")
    assert numbers(wanted) == [n for n in range(COUNT) if n % 10 in (3, 4)]


def test_cel_is_filtered_by_our_broker_and_refused_for_apaches(broker: ApacheBroker, filled: str) -> None:
    wanted = options(broker, filled, cel="body >= 3.0 && body < 25.0 && int(properties.a) == 4")
    if is_ours(broker):
        assert numbers(wanted) == [4, 14, 24]
    else:
        with pytest.raises(Unsupported, match=f"broker {broker.name} does not filter .* by CEL"):
            read(wanted)


def test_a_missing_replica_is_said(broker: ApacheBroker, filled: str) -> None:
    with pytest.raises(SettingsError, match=f"broker {broker.name} has no replica .* Set readFrom to master"):
        read(options(broker, filled, readFrom="replica"))


def test_an_account_is_refused_where_our_broker_checks_none(broker: ApacheBroker, filled: str) -> None:
    signed = options(broker, filled, accessKey="somebody", secretKey="secret")
    if not is_ours(broker):
        assert numbers(signed) == list(range(COUNT)), "with accounts switched off Apache's broker ignores signatures"
        return
    says = f"broker {broker.name} does not check accounts: .* Leave both out"
    for _ in range(2):
        with pytest.raises(Unsupported, match=says):
            read(signed)
    with pytest.raises(Unsupported, match=says):
        stream(signed).initialOffset()
    target = {"nameServer": at(broker), "topic": filled, "accessKey": "somebody", "secretKey": "secret"}
    with pytest.raises(Unsupported, match=says):
        pickle.dumps(BatchWriter(target, StructType([StructField("body", BinaryType())]), overwrite=False))


def test_compressed_bodies(broker: ApacheBroker) -> None:
    from firearrow.blocking import Producer

    topic = broker.create_topic(fresh("packed"), 1)
    body = b"again " * 2000
    with Producer(at(broker), group="packing") as producer:
        producer.send(Message.of(topic, body))
    wait_until(lambda: read(options(broker, topic), ["body"])["body"] == [body], "the body, inflated")
    with pytest.raises(FireArrowError, match="limit of 100 bytes"):
        read(options(broker, topic, maxBodyBytes="100"))
    (kept,) = read(options(broker, topic, maxBodyBytes="100", badBodies="keep"), ["body"])["body"]
    assert kept != body


def test_what_is_gone_fails_with_the_exact_gap(broker: ApacheBroker, filled: str) -> None:
    ends = json.dumps({filled: {broker.name: {"0": 100_000, "1": 0, "2": 0, "3": 0}}})
    with pytest.raises(DataLost, match=rf"messages of {filled} on {broker.name}, queue 0, offsets \d+ to 99999"):
        read(options(broker, filled, endingOffsets=ends))
    table = read(options(broker, filled, endingOffsets=ends, failOnDataLoss="false"), ["queue_id"])
    assert set(table["queue_id"]) == {0}


def test_offsets_and_queues_that_match_nothing_are_refused(broker: ApacheBroker, filled: str) -> None:
    for name, table, says in (
        ("startingOffsets", {"nothing": 5}, "topic 'nothing', which is not read"),
        ("endingOffsets", {filled: {"broker-x": 5}}, "broker 'broker-x'"),
        ("startingOffsetsByTimestamp", {filled: {broker.name: {"17": 5}}}, "queue 17"),
    ):
        with pytest.raises(SettingsError, match=says):
            read(options(broker, filled, **{name: json.dumps(table)}))
    with pytest.raises(SettingsError, match=r"assign names queue 9 .* it has 0"):
        read({"nameServer": at(broker), "assign": json.dumps({filled: [0, 9]})})
    with pytest.raises(SettingsError, match="assign names queue 9"):
        stream({"nameServer": at(broker), "assign": json.dumps({filled: [0, 9]})}).initialOffset()


def test_offsets_in_kafkas_form(broker: ApacheBroker, filled: str) -> None:
    starts = json.dumps({filled: {"0": 140, "1": -2}})
    begin = stream(options(broker, filled, startingOffsets=starts)).initialOffset()
    assert begin[filled][broker.name] == {"0": 140, "1": 0, "2": 0, "3": 0}


def test_a_beginning_behind_the_end_is_told_and_nothing_is_skipped(broker: ApacheBroker, filled: str) -> None:
    told = options(broker, filled, startingOffsets=json.dumps({filled: 2000}))
    for begin in (stream(told).initialOffset, lambda: read(told)):
        with pytest.raises(DataLost, match=r"the options begin at offset 2000, but the queue ends at \d+"):
            begin()
    lenient = stream({**told, "failOnDataLoss": "false"})
    assert sum(leaves(lenient.initialOffset())) == COUNT, "it begins at the ends that there are"


def test_nobody_there_is_said_in_time() -> None:
    for more in ({"connectTimeoutMs": "300"}, {"fetchRetries": "1", "fetchRetryIntervalMs": "1"}):
        for chosen in ({"subscribe": "orders"}, {"subscribePattern": "o.*"}):
            began = time.monotonic()
            with pytest.raises(
                ConnectionFailed, match=r"cluster at 127.0.0.1:1 could not be reached .* option nameServer"
            ):
                read({"nameServer": "127.0.0.1:1", **chosen, **more})
            assert time.monotonic() - began < 10, "all retries would take 31 s"
            close_links()


def test_a_name_server_that_takes_connections_and_says_nothing_is_not_awaited_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionFailed, match="could not be reached"):
            stream({"nameServer": address, "subscribe": "orders", "connectTimeoutMs": "300"}).initialOffset()


def test_a_topic_that_is_not_there(broker: ApacheBroker) -> None:
    with pytest.raises(NoRoute, match="no name server knows topic"):
        read(options(broker, fresh("absent"), fetchRetries="0"))


# -- streams


def test_a_stream_begins_where_it_is_told(broker: ApacheBroker, filled: str) -> None:
    assert sum(leaves(stream(options(broker, filled)).initialOffset())) == COUNT
    assert sum(leaves(stream(options(broker, filled, startingOffsets="earliest")).initialOffset())) == 0


def leaves(offsets: Any) -> list[int]:
    return list(plan.from_json(offsets).values())


def test_batches_are_limited_by_rows_and_cover_everything(broker: ApacheBroker, filled: str) -> None:
    reader = stream(options(broker, filled, startingOffsets="earliest", maxOffsetsPerTrigger="250"))
    start, sizes, seen = reader.initialOffset(), [], []
    while (end := reader.latestOffset(start, None)) != start:
        rows = rows_between(reader, start, end)
        assert rows == rows_between(reader, start, end), "the same batch again is the same rows"
        sizes.append(len(rows))
        seen += rows
        start = end
    assert sizes == [250, 250, 100]
    assert sorted(seen) == list(range(COUNT))
    assert reader.reportLatestOffset() == plan.to_json(plan.from_json(end))


def test_batches_are_limited_by_bytes(broker: ApacheBroker, filled: str) -> None:
    reader = stream(options(broker, filled, startingOffsets="earliest", maxBytesPerTrigger="20000"))
    start = reader.initialOffset()
    rows = len(rows_between(reader, start, reader.latestOffset(start, None)))
    assert 20 < rows < 200, "records of these messages take between 100 and 1,000 bytes"


def test_a_batch_waits_for_company(broker: ApacheBroker, filled: str) -> None:
    waits = options(broker, filled, startingOffsets="earliest", minOffsetsPerTrigger=str(COUNT + 1))
    reader = stream({**waits, "maxTriggerDelayMs": "600000"})
    start = reader.initialOffset()
    assert reader.latestOffset(start, None) == start
    impatient = stream({**waits, "maxTriggerDelayMs": "0"})
    assert sum(leaves(impatient.latestOffset(start, None))) == COUNT


def test_everything_at_once_when_spark_says_so(broker: ApacheBroker, filled: str) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

    limited = options(broker, filled, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    reader = stream(limited)
    assert sum(leaves(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))) == COUNT
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    assert stream(options(broker, filled, maxBytesPerTrigger="9")).getDefaultReadLimit() == ReadMaxBytes(9)
    assert stream(options(broker, filled, minOffsetsPerTrigger="9")).getDefaultReadLimit() == ReadMinRows(9)
    assert stream(options(broker, filled)).getDefaultReadLimit() == ReadAllAvailable()


def test_available_now_stops_where_it_was_prepared(broker: ApacheBroker) -> None:
    topic = broker.create_topic(fresh("now"), 2)
    send(at(broker), numbered(topic, 40))
    reader = stream(options(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="30"))
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    send(at(broker), numbered(topic, 40, 40))
    seen = []
    while (end := reader.latestOffset(start, None)) != start:
        seen += rows_between(reader, start, end)
        start = end
    assert sorted(seen) == list(range(40))


def test_queues_that_are_added_are_read_from_their_beginning(broker: ApacheBroker) -> None:
    topic = broker.create_topic(fresh("growing"), 1)
    send(at(broker), numbered(topic, 5))
    reader = stream(options(broker, topic, startingOffsets="earliest"))
    start = reader.latestOffset(reader.initialOffset(), None)
    broker.create_topic(topic, 3)
    with PullConsumer(at(broker), group="growing-test", poll_name_server_ms=100) as looker:
        wait_until(lambda: len(looker.queues(topic)) == 3, "three queues")
    from firearrow.blocking import Producer

    with Producer(at(broker), group="growing-test") as producer:
        for number in range(5, 8):
            producer.send(numbered(topic, 1, number)[0], queue=MessageQueue(topic, broker.name, number - 5))
    wait_until(lambda: sum(leaves(reader.latestOffset(start, None))) == 8, "rows of the new queues")
    assert rows_between(reader, start, reader.latestOffset(start, None)) == [5, 6, 7]


def test_progress_is_reported_to_the_group(broker: ApacheBroker, filled: str) -> None:
    group = fresh("PROGRESS")
    reader = stream(options(broker, filled, startingOffsets="earliest", maxOffsetsPerTrigger="100", groupId=group))
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    rows_between(reader, start, end)
    reader.latestOffset(end, None)
    queue = MessageQueue(filled, broker.name, 0)
    with PullConsumer(at(broker), group=group) as looker:
        wait_until(lambda: looker.committed(queue) == end[filled][broker.name]["0"], "the group's offset")
    reader.commit(plan_end := reader.latestOffset(end, None))
    with PullConsumer(at(broker), group=group) as looker:
        wait_until(lambda: looker.committed(queue) == plan_end[filled][broker.name]["0"], "the group's offset")


def test_spark_41_asks_for_an_end_before_it_says_where_to_begin(broker: ApacheBroker) -> None:
    topic = broker.create_topic(fresh("old-spark"), 2)
    send(at(broker), numbered(topic, 100))
    told = options(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="60")
    reader = stream(told)
    first = reader.latestOffset()
    start = reader.initialOffset()
    assert rows_between(reader, start, first) == list(range(100)), "the first batch of a run is not limited"
    assert reader.latestOffset() == first, "the next batch does not go back"
    send(at(broker), numbered(topic, 100, 100))
    second = reader.latestOffset()
    seen = rows_between(reader, first, second)
    assert len(seen) == 60
    again = stream(told)  # killed in the second batch: the next run repeats it, then goes on
    assert rows_between(again, first, second) == seen
    third = again.latestOffset()
    assert sorted(seen + rows_between(again, second, third)) == list(range(100, 200))

"""Every option is read, and what cannot work is refused with a hint."""

import pytest

from firearrow.client import cel, sql
from firearrow.errors import SettingsError
from firearrow.spark.option_list import CONNECTION, SOURCE, STORE
from firearrow.spark.options import EARLIEST, LATEST, Bound, TopicSelection, epoch_ms, source_options, store_options
from firearrow.spark.schema import NAMES, ROW_DDL, chosen, ddl

LEAST = {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}
TIME = "2026-01-31T12:00:00.250+00:00"


def test_defaults() -> None:
    batch, stream = source_options(LEAST, is_stream=False), source_options(LEAST, is_stream=True, cores=7)
    assert (batch.starting, batch.ending) == (Bound("offset", EARLIEST), Bound("offset", LATEST))
    assert stream.starting == Bound("offset", LATEST)
    assert stream.planning.max_partitions == 7
    assert batch.fail_on_data_loss
    assert not batch.reports_progress
    assert batch.fetching.tags == "*"


def test_every_option_of_the_source_is_read_whatever_its_case() -> None:
    given = {
        "NAMESERVER": "a:1;b:2", "accessKey": "me", "secretKey": "secret", "securityToken": "token", "tls": "TRUE",
        "tlsVerify": "true", "tlsCaFile": "ca", "tlsCertFile": "cert", "tlsKeyFile": "key", "tlsKeyPassword": "pw",
        "subscribe": "a, b,a", "startingTimestamp": TIME, "startingOffsetsByTimestampStrategy": "error",
        "maxOffsetsPerTrigger": "100", "maxBytesPerTrigger": "1000", "minOffsetsPerTrigger": "10",
        "maxTriggerDelayMs": "5", "minPartitions": "2", "maxPartitions": "9", "rowsPerPartition": "3",
        "maxRecordsPerPartition": "4", "failOnDataLoss": "false", "groupId": "g", "tags": "A || B",
        "pushFilters": "true", "readFrom": "replica", "fetchRetries": "0", "fetchRetryIntervalMs": "1",
        "fetchTimeoutMs": "2", "fetchMaxMessages": "3", "fetchMaxBytes": "4", "fetchesInFlight": "5", "batchRows": "6",
        "checkCrc": "true", "maxBodyBytes": "7", "badBodies": "keep", "connectTimeoutMs": "8", "batchBytes": "9",
        "SIGNATUREMETHOD": "HmacSHA256",
    }  # fmt: skip
    read = source_options(given, is_stream=True)
    assert repr(read.connection) == "Connection('a:1;b:2', access_key='me', tls=True)"
    assert (read.connection.tls_ca_file, read.connection.tls_key_password) == ("ca", "pw")
    assert read.connection.signature_method == "HmacSHA256"
    assert read.chosen == TopicSelection(("a", "b"))
    assert read.starting == Bound("time", 1769860800250)
    assert read.starting_strategy == "error"
    assert (read.max_offsets_per_trigger, read.max_bytes_per_trigger, read.min_offsets_per_trigger) == (100, 1000, 10)
    assert (read.max_trigger_delay_ms, read.fail_on_data_loss, read.reports_progress) == (5, False, True)
    planning, fetching, decoding = read.planning, read.fetching, read.decoding
    assert (planning.min_partitions, planning.max_partitions) == (2, 9)
    assert (planning.rows_per_partition, planning.max_records_per_partition) == (3, 4)
    assert (fetching.group, fetching.tags, fetching.from_replica) == ("g", "A || B", True)
    assert (fetching.retries, fetching.retry_interval_ms, fetching.timeout_ms) == (0, 1, 2)
    assert (fetching.max_messages, fetching.max_bytes, fetching.in_flight) == (3, 4, 5)
    assert (fetching.connect_timeout_ms, decoding.batch_bytes) == (8, 9)
    assert (decoding.batch_rows, decoding.check_crc, decoding.max_body_bytes, decoding.keep_bad_bodies) == (
        6,
        True,
        7,
        True,
    )
    unread = {option.name.lower() for option in CONNECTION + SOURCE} - {name.lower() for name in given}
    assert unread == {
        "subscribepattern", "assign", "startingoffsets", "startingoffsetsbytimestamp", "endingoffsets",
        "endingtimestamp", "endingoffsetsbytimestamp", "sql", "cel",
    }  # fmt: skip


def test_offsets_and_times_by_queue() -> None:
    table = '{"orders": {"broker-a": {"0": 5, "1": -1}, "broker-b": 9}, "bills": -2}'
    bound = source_options({**LEAST, "startingOffsets": table}, is_stream=False).starting
    assert bound.by_queue == {"orders": {"broker-a": {"0": 5, "1": LATEST}, "broker-b": 9}, "bills": EARLIEST}
    assert bound.option == "startingOffsets"
    times = source_options({**LEAST, "endingOffsetsByTimestamp": f'{{"orders": "{TIME}"}}'}, is_stream=False).ending
    assert (times.kind, times.by_queue) == ("time", {"orders": 1769860800250})


def test_assignments_and_patterns() -> None:
    least = {"nameServer": "h:1"}
    assigned = source_options({**least, "assign": '{"orders": {"broker-a": [0]}}'}, is_stream=False).chosen
    assert assigned.assigned == {"orders": {"broker-a": [0]}}
    assert source_options({**least, "subscribePattern": "ord.*"}, is_stream=False).chosen.pattern == "ord.*"
    assert source_options({**LEAST, "sql": "a > 1"}, is_stream=False).fetching.sql == "a > 1"


def test_a_filter_is_what_the_broker_gets() -> None:
    by_body = source_options({**LEAST, "cel": "body.a > 1"}, is_stream=False).fetching
    assert (by_body.expression, by_body.is_filtered) == (cel("body.a > 1"), True)
    assert source_options({**LEAST, "sql": "a > 1"}, is_stream=False).fetching.expression == sql("a > 1")
    assert source_options({**LEAST, "tags": "A"}, is_stream=False).fetching.expression == "A"
    assert (by_body.unfiltered().expression, by_body.unfiltered().is_filtered) == ("*", False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nameServer": ""}, "nameServer is missing"),
        ({"subscribe": ""}, "nothing to read"),
        ({"assign": "{}"}, "exclude each other"),
        ({"subscribe": "", "assign": "["}, "not JSON"),
        ({"subscribe": "", "assign": "[]"}, "JSON object"),
        ({"subscribe": "", "assign": '{"a": 1}'}, "lists of numbers"),
        ({"subscribe": "", "assign": '{"a": [true]}'}, "lists of numbers"),
        ({"subscribeTopics": "a"}, "did you mean"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"somethingElse": "a"}, "there is no option 'somethingElse'"),
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"startingOffsets": "sometime"}, "not JSON"),
        ({"startingOffsets": '{"orders": -3}'}, "-2 earliest"),
        ({"startingOffsets": '{"orders": true}'}, "an offset is a number"),
        ({"startingTimestamp": "2026-01-31T12:00:00"}, "say the zone"),
        ({"startingTimestamp": "yesterday"}, "ISO 8601"),
        ({"startingTimestamp": "5", "startingOffsets": "earliest"}, "exclude each other"),
        ({"tags": "a", "sql": "b"}, "exclude each other"),
        ({"cel": "true", "sql": "b"}, "exclude each other"),
        ({"sql": ""}, "the expression is empty: write a condition"),
        ({"cel": ""}, "the end of the expression stands where a value is expected"),
        ({"cel": "amount > 1"}, "'amount' at character 1 is not a variable"),
        ({"sql": "city LIKE 'K%'"}, "LIKE"),
        ({"accessKey": "me"}, "go together"),
        ({"tls": "yes"}, "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "1 or more"),
        ({"maxOffsetsPerTrigger": "many"}, "whole number"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "2"}, "is above"),
        ({"minPartitions": "5", "maxPartitions": "2"}, "is above"),
        ({"readFrom": "both"}, "master, replica"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        source_options({**LEAST, **given}, is_stream=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(SettingsError, match="no end in time"):
        source_options({**LEAST, "endingTimestamp": "5"}, is_stream=True)
    until = source_options({**LEAST, "endingOffsets": '{"orders": {"a": {"0": 5}}}'}, is_stream=True).ending
    assert until.by_queue == {"orders": {"a": {"0": 5}}}, "but it may stop at offsets"


def test_options_of_store_files() -> None:
    given = {
        "path": "file:///data/store", "brokerName": "b", "subscribe": "a", "startingTimestamp": "5",
        "endingTimestamp": "6", "minPartitions": "2", "maxPartitions": "3", "rowsPerPartition": "4",
        "maxRecordsPerPartition": "5", "failOnDataLoss": "false", "pushFilters": "true", "batchRows": "6",
        "checkCrc": "true", "maxBodyBytes": "7", "badBodies": "keep", "batchBytes": "9",
    }  # fmt: skip
    read = store_options(given)
    assert (read.path, read.broker, read.chosen.topics) == ("/data/store", "b", ("a",))
    assert (read.starting, read.ending) == (Bound("time", 5), Bound("time", 6))
    assert (read.fail_on_data_loss, read.pushes_filters, read.decoding.batch_rows) == (False, True, 6)
    assert {option.name for option in STORE} - set(given) == {"subscribePattern", "startingOffsets", "endingOffsets"}
    with pytest.raises(SettingsError, match="directory of the store"):
        store_options({})


def test_times() -> None:
    assert epoch_ms("1700000000000", "x") == 1_700_000_000_000
    assert epoch_ms("1970-01-01T01:00:00.001+01:00", "x") == 1


def test_a_schema_chooses_columns() -> None:
    assert chosen([("body", "binary"), ("queue_offset", "bigint"), ("queue_id", "int")]) == (
        "body",
        "queue_offset",
        "queue_id",
    )
    assert ddl(NAMES) == ROW_DDL
    with pytest.raises(SettingsError, match="no column 'value'"):
        chosen([("value", "binary")])
    with pytest.raises(SettingsError, match="body is binary, not string"):
        chosen([("body", "string")])
    with pytest.raises(SettingsError, match="no column"):
        chosen([])


@pytest.mark.parametrize("name", ["startingTimestamp", "endingTimestamp"])
def test_seconds_are_not_taken_for_milliseconds(name: str) -> None:
    told = {"nameServer": "x:1", "subscribe": "t"}
    with pytest.raises(SettingsError, match=rf"{name} is 1794991252, .* if these are seconds, write 1794991252000"):
        source_options({**told, name: "1794991252"}, is_stream=False)
    by_topic = {**told, "startingOffsetsByTimestamp": '{"t": 1794991252}'}
    with pytest.raises(SettingsError, match="write 1794991252000"):
        source_options(by_topic, is_stream=False)
    assert epoch_ms("0", name) == 0, "all that is there"

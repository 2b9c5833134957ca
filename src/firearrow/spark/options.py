"""The options of the sources, read from Spark's. Pure; `option_list` describes each option.

Option names are Spark's style and their case does not matter. Offsets are JSON by topic, broker and queue::

    {"orders": {"broker-a": {"0": 23, "1": -2}}}        -2 is the earliest, -1 the latest, as with Kafka
    {"orders": {"broker-a": 23}}                        one for all queues of a broker
    {"orders": 23}                                      one for all queues of a topic
    {"orders": {"0": 23}}                               Kafka's form, for topics that are on one broker

Queues that a JSON text leaves out start at the earliest and end at the latest. A time is milliseconds since 1970 or ISO
8601 with a zone. Contradicting and unknown options are refused before anything is read; for an unknown option the error
names the nearest known one.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.client.consumer.subscription import Expression, Filter, cel, sql
from firearrow.errors import SettingsError
from firearrow.expression.cel.program import CEL
from firearrow.model.signature import SignatureMethod
from firearrow.runtime.network import Address
from firearrow.spark.option_list import CONNECTION, SOURCE, STORE, Option

EARLIEST: Final = -2
LATEST: Final = -1
DEFAULT_GROUP: Final = "SPARK_FIREARROW_SOURCE"
MARKS: Final = "@stored"
"""The key of marks in the offsets of a checkpoint, see `marks`; not a legal topic name."""
PLACES: Final = "@placed"
"""The key of the physical offsets of marks."""
SECONDS: Final = range(100_000_000, 315_532_800_000)
"""Numbers that are a time since 1973 in seconds, and a time before 1980 in milliseconds."""
LIVES: Final = "@lives"
"""The key of the lives of topics."""
BESIDE_OFFSETS: Final = frozenset({MARKS, PLACES, LIVES})
"""Keys that are not topics."""


class ConnectionOptions(Struct, frozen=True):
    """The name servers of a cluster, and the keys and TLS settings for it."""

    name_server: str
    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""
    tls: bool = False
    tls_verify: bool = False
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_key_password: str = ""
    signature_method: SignatureMethod = SignatureMethod.SHA1

    def __repr__(self) -> str:
        """Keep secrets out of logs."""
        return f"Connection({self.name_server!r}, access_key={self.access_key!r}, tls={self.tls})"


ByQueue = Mapping[str, Any]
"""Numbers by topic, then by broker and queue, as parsed from JSON."""


class Bound(Struct, frozen=True):
    """The beginning or end of reading: a special offset for all, numbers by queue, or times."""

    kind: str
    """``offset`` or ``time``."""
    everywhere: int | None = None
    by_queue: ByQueue = {}
    option: str = ""
    """The option that gave the numbers by queue; `places` checks them against existing queues."""


class PlanningOptions(Struct, frozen=True):
    """Limits for the division of rows into tasks."""

    min_partitions: int = 1
    max_partitions: int = 2
    rows_per_partition: int = 50_000
    max_records_per_partition: int = 10_000_000


class DecodingOptions(Struct, frozen=True):
    """Settings for the conversion of records into rows."""

    batch_rows: int = 16_384
    check_crc: bool = False
    max_body_bytes: int = 4 << 20
    keep_bad_bodies: bool = False
    batch_bytes: int = 32 << 20


class FetchOptions(Struct, frozen=True):
    """Settings of the pulls: group, filter, retries and sizes."""

    group: str = DEFAULT_GROUP
    tags: str = "*"
    sql: str = ""
    cel: str = ""
    from_replica: bool = False
    retries: int = 10
    retry_interval_ms: int = 200
    timeout_ms: int = 30_000
    max_messages: int = 65_536
    max_bytes: int = 1 << 20
    in_flight: int = 16
    connect_timeout_ms: int = 15_000

    @property
    def expression(self) -> Expression:
        """The broker's filter: an SQL92 or CEL expression, or tags."""
        if self.cel:
            return Filter(self.cel, CEL)
        return Filter(self.sql) if self.sql else self.tags

    @property
    def is_filtered(self) -> bool:
        """Whether the broker leaves out messages."""
        return bool(self.sql or self.cel) or self.tags not in ("", "*")

    def unfiltered(self) -> "FetchOptions":
        """Return the same without a filter."""
        return replace(self, tags="*", sql="", cel="")


class TopicSelection(Struct, frozen=True):
    """The chosen topics or queues: exactly one of the three fields, or none for all topics."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: ByQueue = {}


class SourceOptions(Struct, frozen=True):
    """The topics source."""

    connection: ConnectionOptions
    chosen: TopicSelection
    starting: Bound
    ending: Bound
    planning: PlanningOptions
    decoding: DecodingOptions
    fetching: FetchOptions
    starting_strategy: str = "latest"
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    fail_on_data_loss: bool = True
    reports_progress: bool = False
    pushes_filters: bool = False


class StoreOptions(Struct, frozen=True):
    """The store files source."""

    path: str
    broker: str
    chosen: TopicSelection
    starting: Bound
    ending: Bound
    planning: PlanningOptions
    decoding: DecodingOptions
    fail_on_data_loss: bool = True
    pushes_filters: bool = False


class OptionReader:
    """The given options, read by name without regard to case."""

    def __init__(self, options: Mapping[str, str], known: Iterable[Option]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._names = {option.name.lower(): option.name for option in known}
        for name in options:
            if name.lower() not in self._names:
                near = difflib.get_close_matches(name.lower(), self._names, 1)
                hint = f"; did you mean {self._names[near[0]]}?" if near else ""
                raise SettingsError(f"there is no option {name!r}{hint}")

    def text(self, name: str, default: str = "") -> str:
        """Return an option as text, stripped."""
        return self._values.get(name.lower(), default).strip()

    def has(self, name: str) -> bool:
        """Whether an option is given, if only as an empty text."""
        return name.lower() in self._values

    def number(self, name: str, default: int, least: int = 1) -> int:
        """Return an option as a whole number of at least ``least``."""
        text = self.text(name)
        if not text:
            return default
        try:
            value = int(text)
        except ValueError as wrong:
            raise SettingsError(f"option {name} is {text!r}; it takes a whole number") from wrong
        if value < least:
            raise SettingsError(f"option {name} is {value}; it takes {least} or more")
        return value

    def maybe(self, name: str) -> int | None:
        """Return an option as a whole number from 1 on; None if it is not given."""
        return self.number(name, 0) or None

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise SettingsError(f"option {name} is {text!r}; it takes true or false")
        return default if not text else text == "true"

    def one_of(self, name: str, first: str, *others: str) -> str:
        """One of a few words; the first is the default."""
        text = self.text(name, first).lower()
        if text not in (first, *others):
            raise SettingsError(f"option {name} is {text!r}; it takes {', '.join((first, *others))}")
        return text

    def table(self, name: str) -> ByQueue:
        """A JSON object by topic."""
        try:
            found = json.loads(self.text(name))
        except ValueError as wrong:
            raise SettingsError(f"option {name} is not JSON: {wrong}") from wrong
        if not isinstance(found, dict):
            raise SettingsError(f"option {name} takes a JSON object by topic")
        return found

    def at_most_one(self, *names: str) -> str:
        """Return which one of several options is given; None if none is."""
        given = [name for name in names if self.text(name)]
        if len(given) > 1:
            raise SettingsError(f"options {' and '.join(given)} exclude each other; give one of them")
        return given[0] if given else ""


def connection_options(given: OptionReader) -> ConnectionOptions:
    """Return the connection options, of sources and sink."""
    name_server = given.text("nameServer")
    if not name_server:
        raise SettingsError('option nameServer is missing; give the name servers, as "host:9876"')
    for address in name_server.split(";"):
        if address.strip():
            Address.parse(address)
    if bool(given.text("accessKey")) != bool(given.text("secretKey")):
        raise SettingsError("accessKey and secretKey go together; give both or none")
    return ConnectionOptions(
        name_server,
        given.text("accessKey"),
        given.text("secretKey"),
        given.text("securityToken"),
        given.flag("tls", default=False),
        given.flag("tlsVerify", default=False),
        given.text("tlsCaFile"),
        given.text("tlsCertFile"),
        given.text("tlsKeyFile"),
        given.text("tlsKeyPassword"),
        _signature_method(given.text("signatureMethod")),
    )


def _signature_method(text: str) -> SignatureMethod:
    try:
        return SignatureMethod(text or SignatureMethod.SHA1)
    except ValueError:
        known = " or ".join(method.value for method in SignatureMethod)
        raise SettingsError(f"option signatureMethod={text!r} is not known; write {known}") from None


def source_options(options: Mapping[str, str], *, is_stream: bool, cores: int = 2) -> SourceOptions:
    """Return the options of the topics source."""
    given = OptionReader(options, CONNECTION + SOURCE)
    if not given.at_most_one("subscribe", "subscribePattern", "assign"):
        raise SettingsError("nothing to read; give one of subscribe, subscribePattern and assign")
    given.at_most_one("tags", "sql", "cel")
    if is_stream and given.at_most_one("endingTimestamp", "endingOffsetsByTimestamp"):
        raise SettingsError("a stream has no end in time; give endingOffsets as JSON, or read in one job")
    least, most = given.maybe("minOffsetsPerTrigger"), given.maybe("maxOffsetsPerTrigger")
    if least and most and least > most:
        raise SettingsError(f"minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}")
    group = given.text("groupId")
    return SourceOptions(
        connection_options(given),
        _chosen(given),
        _bound(given, "starting", LATEST if is_stream else EARLIEST, is_stream=is_stream),
        _bound(given, "ending", LATEST, is_stream=is_stream),
        _planning(given, cores),
        _decoding(given),
        _fetching(given, group or DEFAULT_GROUP),
        given.one_of("startingOffsetsByTimestampStrategy", "latest", "error"),
        most,
        given.maybe("maxBytesPerTrigger"),
        least,
        given.number("maxTriggerDelayMs", 900_000, 0),
        given.flag("failOnDataLoss", default=True),
        bool(group),
        given.flag("pushFilters", default=False),
    )


def store_options(options: Mapping[str, str], cores: int = 2) -> StoreOptions:
    """Return the options of the store files source."""
    given = OptionReader(options, STORE)
    path = given.text("path").removeprefix("file://")
    if not path:
        raise SettingsError("the directory of the store is missing; give it as load(path)")
    given.at_most_one("subscribe", "subscribePattern")
    return StoreOptions(
        path,
        given.text("brokerName", "broker-a"),
        _chosen(given),
        _bound(given, "starting", EARLIEST, is_stream=False),
        _bound(given, "ending", LATEST, is_stream=False),
        _planning(given, cores),
        _decoding(given),
        given.flag("failOnDataLoss", default=True),
        given.flag("pushFilters", default=False),
    )


def _chosen(given: OptionReader) -> TopicSelection:
    topics = tuple(dict.fromkeys(part for each in given.text("subscribe").split(",") if (part := each.strip())))
    assigned = given.table("assign") if given.text("assign") else {}
    for topic, queues in assigned.items():
        lists = queues.values() if isinstance(queues, dict) else [queues]
        if not all(isinstance(some, list) and all(type(number) is int for number in some) for some in lists):
            raise SettingsError(f"option assign names queues of {topic} by lists of numbers")
    return TopicSelection(topics, given.text("subscribePattern"), assigned)


def _planning(given: OptionReader, cores: int) -> PlanningOptions:
    least = given.number("minPartitions", 1)
    most = given.number("maxPartitions", max(cores, least))
    if least > most:
        raise SettingsError(f"minPartitions {least} is above maxPartitions {most}")
    return PlanningOptions(
        least, most, given.number("rowsPerPartition", 50_000), given.number("maxRecordsPerPartition", 10_000_000)
    )


def _decoding(given: OptionReader) -> DecodingOptions:
    return DecodingOptions(
        given.number("batchRows", 16_384),
        given.flag("checkCrc", default=False),
        given.number("maxBodyBytes", 4 << 20),
        given.one_of("badBodies", "fail", "keep") == "keep",
        given.number("batchBytes", 32 << 20),
    )


def _fetching(given: OptionReader, group: str) -> FetchOptions:
    return FetchOptions(
        group,
        given.text("tags", "*"),
        sql(given.text("sql")).text if given.has("sql") else "",
        cel(given.text("cel")).text if given.has("cel") else "",
        given.one_of("readFrom", "master", "replica") == "replica",
        given.number("fetchRetries", 10, 0),
        given.number("fetchRetryIntervalMs", 200, 0),
        given.number("fetchTimeoutMs", 30_000),
        given.number("fetchMaxMessages", 65_536),
        given.number("fetchMaxBytes", 1 << 20),
        given.number("fetchesInFlight", 16),
        given.number("connectTimeoutMs", 15_000),
    )


def _bound(given: OptionReader, which: str, default: int, *, is_stream: bool) -> Bound:
    by_offset, at_time, by_time = f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp"
    name = given.at_most_one(by_offset, at_time, by_time)
    if not name:
        return Bound("offset", default)
    if name == at_time:
        return Bound("time", epoch_ms(given.text(name), name))
    if name == by_time:
        return Bound("time", None, _numbers(given.table(name), name, lambda value: epoch_ms(str(value), name)), name)
    words = {"earliest": EARLIEST, "latest": LATEST}
    word = words.get(given.text(name).lower())
    if word is not None:
        _refuse_senseless(which, word, is_stream=is_stream)
        return Bound("offset", word)
    table = {topic: said for topic, said in given.table(name).items() if topic not in BESIDE_OFFSETS}
    return Bound("offset", None, _numbers(table, name, lambda value: _offset(value, name)), name)


def _refuse_senseless(which: str, word: int, *, is_stream: bool) -> None:
    if which == "ending" and word == EARLIEST:
        raise SettingsError("endingOffsets cannot be earliest: nothing would be read")
    if which == "starting" and word == LATEST and not is_stream:
        raise SettingsError("startingOffsets cannot be latest in one job: nothing would be read")


def _numbers(table: Any, name: str, read: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON from outside
    found: dict[str, Any] = {}
    for key, value in table.items():
        found[str(key)] = _numbers(value, name, read) if isinstance(value, dict) else read(value)
    return found


def _offset(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < EARLIEST:
        raise SettingsError(f"option {name} holds {value!r}; an offset is a number from 0, or -2 earliest, -1 latest")
    return value


def epoch_ms(text: str, name: str) -> int:
    """Return milliseconds since 1970, from such a number or from ISO 8601 with a zone."""
    if text.isascii() and text.isdigit():
        return _checked_ms(int(text), name)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as wrong:
        raise SettingsError(f"option {name} is {text!r}: write milliseconds since 1970, or ISO 8601") from wrong
    if moment.tzinfo is None:
        raise SettingsError(f"option {name} is {text!r}: say the zone, as 2026-01-31T12:00:00+00:00")
    return round(moment.timestamp() * 1000)


def _checked_ms(number: int, name: str) -> int:
    """Return a number of milliseconds; raise if it is one of seconds, which would be a day of the seventies."""
    if number in SECONDS:
        raise SettingsError(
            f"option {name} is {number}, which is before 1980 in milliseconds since 1970; if these are seconds, write "
            f"{number * 1000}, and for all that is there write 0"
        )
    return number

"""Topics -> tables of a lake, exactly once over any kill. The wiring; `transforms` decides what rows become.

Every table is filled by a query of its own with a checkpoint of its own below the archive's, so each is exactly once by
itself and none waits for another. The checkpoint is the archive's memory: started with it, an archive goes on where it
stopped; without it, an archive begins at the start and would write everything twice.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.spark.bodies.body_format import BodyFormat, resolved
from firearrow.spark.lake import access
from firearrow.spark.lake.access import Trigger
from firearrow.spark.lake.changes import require_changeable
from firearrow.spark.lake.partitioning import PartitionRule, told
from firearrow.spark.lake.table import LakeTable, beside
from firearrow.spark.options import source_options
from firearrow.spark.pipelines import body_schemas, draining, starting, transforms, upserts, views
from firearrow.spark.pipelines.listener import counted
from firearrow.spark.pipelines.progress import WRITTEN
from firearrow.spark.pipelines.upserts import Upsert
from firearrow.spark.source import plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from firearrow.client import MessageQueue

BRONZE: Final = "bronze"
TYPED: Final = "typed"
QUARANTINE: Final = transforms.QUARANTINE
ROWS_PER_BATCH: Final = 2_000_000


class Archive(Struct, frozen=True):
    """An order to archive topics into tables.

    ``source`` holds options of ``format("rocketmq")``; reading begins with everything the topics hold, unless it says
    otherwise. With ``bodies``, or ``body_schema`` (Spark's DDL) for JSON, bodies also fill a typed table and a
    quarantine, beside the bronze one unless named. ``on_error`` says what becomes of bodies that are not of the schema:
    ``quarantine``, ``fail`` or ``skip`` (both without a quarantine). ``bronze=False`` leaves the bronze table out.
    With ``upsert`` the typed table holds the last version of every key instead of every message.
    ``name`` begins the names of the queries: give each archive of a session its own.
    """

    source: Mapping[str, str]
    table: LakeTable
    checkpoint: str
    body_schema: str = ""
    typed_table: LakeTable | None = None
    quarantine_table: LakeTable | None = None
    bronze: bool = True
    name: str = "archive"
    bodies: BodyFormat | None = None
    on_error: str = QUARANTINE
    upsert: Upsert | None = None

    @property
    def body_format(self) -> BodyFormat | None:
        """The format of bodies; None if they are not read."""
        return self.bodies or (BodyFormat(schema=self.body_schema) if self.body_schema else None)

    def checked(self) -> "Archive":
        """Return this archive; raise ``SettingsError`` if it contradicts itself or names an option that is none."""
        source_options(self.source, is_stream=True)
        return self.with_tables_checked()

    def with_tables_checked(self) -> "Archive":
        """As `checked`, for a job that works on the tables of an archive and reads no topic."""
        if self.on_error not in transforms.ERROR_MODES:
            raise SettingsError(f"--on-error is one of {', '.join(transforms.ERROR_MODES)}, not {self.on_error!r}")
        if self.on_error != QUARANTINE and self.body_format is None:
            raise SettingsError(f"--on-error {self.on_error} is about bodies; give --body-schema too")
        if self.upsert is not None:
            if self.body_format is None:
                raise SettingsError("--mode upsert needs the columns of bodies; give --body-schema too")
            require_changeable(self.tables()[TYPED])
        return self

    def tables(self) -> dict[str, LakeTable]:
        """The tables that are filled."""
        found = {BRONZE: self.table} if self.bronze else {}
        if self.body_format is not None:
            found[TYPED] = self.typed_table or beside(self.table, TYPED)
            if self.on_error == QUARANTINE:
                found[QUARANTINE] = self.quarantine_table or beside(self.table, QUARANTINE)
        if not found:
            raise SettingsError("nothing to fill: leave the bronze table in, or give a schema of bodies")
        return found


def source_of(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an archive's source: it begins with everything, unless they say where."""
    is_told = any(name.lower().startswith("starting") for name in given)
    return dict(given) if is_told else {**given, "startingOffsets": "earliest"}


def stream(spark: "SparkSession", archive: Archive) -> "DataFrame":
    """The rows of the topics. A body that does not inflate is kept as it is stored: it must not stop an archive."""
    given = [name.lower() for name in archive.source]
    options = source_of(archive.source)
    if "maxoffsetspertrigger" not in given:
        options["maxOffsetsPerTrigger"] = str(upserts.ROWS_PER_BATCH if archive.upsert else ROWS_PER_BATCH)
    if "badbodies" not in given:
        options["badBodies"] = "keep"
    return spark.readStream.format("rocketmq").options(**options).load()


def frames(rows: "DataFrame", archive: Archive) -> "dict[str, DataFrame]":
    """Return the rows of each table."""
    made, how = {BRONZE: lambda: rows}, archive.body_format
    upsert, key = archive.upsert, archive.upsert.key if archive.upsert else ()
    if how is not None:
        typed = transforms.typed(rows, how, archive.on_error, key)
        made[TYPED] = lambda: upsert.changes(typed) if upsert else typed
        made[QUARANTINE] = lambda: transforms.quarantine(rows, how, key)
    return {name: made[name]() for name in archive.tables()}


def start(spark: "SparkSession", archive: Archive, trigger: Trigger = access.DRAIN) -> "list[StreamingQuery]":
    """Begin, or go on; a query for each table. All tables are compared with their rows before any query begins."""
    how = archive.checked().body_format
    if how is not None:  # a registry is asked once, for both tables
        how = resolved(how)
        archive = replace(archive, body_schema="", bodies=how)
    ready = _fitted(spark, archive)
    if how is not None:
        _change_schema(spark, archive, how)
    return _begin(archive, ready, trigger)


def _fitted(spark: "SparkSession", archive: Archive) -> "dict[str, tuple[DataFrame, LakeTable]]":
    tables, filled = archive.tables(), frames(stream(spark, archive), archive)
    targets = {name: partitioned(tables[name], frame.columns, name) for name, frame in filled.items()}
    _require_used(archive.table, targets.values())

    def fitted(name: str, frame: "DataFrame") -> "DataFrame":
        if name == TYPED and archive.upsert is not None:
            return upserts.fitted(frame, targets[name], archive.upsert)
        return access.fitted(frame, targets[name])

    return {name: (fitted(name, frame), targets[name]) for name, frame in filled.items()}


def _begin(
    archive: Archive, ready: "Mapping[str, tuple[DataFrame, LakeTable]]", trigger: Trigger
) -> "list[StreamingQuery]":
    root, queries = archive.checkpoint.rstrip("/"), []
    for name, (frame, table) in ready.items():
        place, query = f"{root}/{name}", f"{archive.name}-{name}"
        if name == TYPED and archive.upsert is not None:
            begin = partial(upserts.begin, counted(frame), table, archive.upsert, place, trigger, query)
        else:
            begin = partial(access.begin, counted(frame), table, place, trigger, query)
        queries.append(starting.started(begin))
    return queries


def _change_schema(spark: "SparkSession", archive: Archive, how: BodyFormat) -> None:
    """Bring typed table and quarantine to one offset with the format that they had, if it is another one now."""
    root = archive.checkpoint.rstrip("/")
    before = body_schemas.noted(spark, root, how)
    if before == how:
        return
    until = body_schemas.furthest(*(body_schemas.planned_end(spark, f"{root}/{name}") for name in (TYPED, QUARANTINE)))
    tables = archive.tables()
    if before and until and QUARANTINE in tables:
        source = {**archive.source, "endingOffsets": json.dumps(plan.to_json(until))}
        # The tables exist by now and keep their partitions, also those by fields that only the new schema has.
        typed, bad = (replace(table, partition_by="") for table in (tables[TYPED], tables[QUARANTINE]))
        old = replace(archive, source=source, body_schema="", bodies=before, bronze=False)
        _fill_up(spark, replace(old, table=typed, typed_table=typed, quarantine_table=bad), until)
    body_schemas.note(spark, root, how)


def _fill_up(spark: "SparkSession", archive: Archive, until: "Mapping[MessageQueue, int]") -> None:
    def begin() -> "list[StreamingQuery]":
        return _begin(archive, _fitted(spark, archive), access.DRAIN)

    for queries in draining.runs(spark, _checkpoints(archive), lambda: until, begin):
        for query in queries:
            query.awaitTermination()
    for name in (TYPED, QUARANTINE):
        end = body_schemas.planned_end(spark, f"{archive.checkpoint.rstrip('/')}/{name}")
        if any(end.get(queue) != offset for queue, offset in until.items()):
            raise SettingsError(
                f"the schema of bodies has changed, and the {name} table could not be filled with the old one up to "
                "the offset of the change. Start the archive again when all brokers answer"
            )


def partitioned(table: LakeTable, columns: Collection[str], name: str) -> LakeTable:
    """The table with those of its partitions whose columns it has.

    Columns of messages begin with an underscore in a typed table.
    """
    origin = transforms.PROVENANCE if name == TYPED else {}
    rules = [PartitionRule(origin.get(rule.column, rule.column), rule.transform) for rule in table.rules]
    return replace(table, partition_by=told(tuple(rule for rule in rules if rule.column in columns)))


def _require_used(asked: LakeTable, targets: Iterable[LakeTable]) -> None:
    used = {rule.column for target in targets for rule in target.rules}
    for rule in asked.rules:
        if not used & {rule.column, transforms.PROVENANCE.get(rule.column, rule.column)}:
            raise SettingsError(
                f"--partition-by {rule}: no table of this archive has a column {rule.column}. Give a column of "
                "messages, such as topic or store_timestamp, or a field of the body schema"
            )


def drain(spark: "SparkSession", archive: Archive) -> "Iterator[list[StreamingQuery]]":
    """Archive what the topics hold now; yield the queries of each run that this takes. Wait for them in between."""
    source = source_of(archive.source)
    return draining.runs(
        spark, _checkpoints(archive), lambda: draining.ends_of(source), lambda: start(spark, archive, access.DRAIN)
    )


def _checkpoints(archive: Archive) -> list[str]:
    return [f"{archive.checkpoint.rstrip('/')}/{name}" for name in archive.tables()]


def backfill(spark: "SparkSession", store: Mapping[str, str], table: LakeTable, job: str) -> int:
    """Store files -> a table in one job and one commit, once for each name of a job; no broker is involved.

    ``store`` holds options of ``format("rocketmq-store")``, ``path`` among them. Returns how many rows the table has of
    this job.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

    read = Observation()
    rows = spark.read.format("rocketmq-store").options(**store).load().observe(read, F.count(F.lit(1)).alias(WRITTEN))
    access.append(rows, table, job)
    return int(read.get[WRITTEN])


def register_views(spark: "SparkSession", archive: Archive) -> list[str]:
    """Temporary views of the tables as they are now, and of what `views` makes of their rows, for SQL."""
    names = []
    for name, table in archive.tables().items():
        access.read(spark, table).createOrReplaceTempView(name)
        names.append(name)
    if archive.bronze:
        rows = access.read(spark, archive.table)
        for name, view in views.VIEWS.items():
            view(rows).createOrReplaceTempView(name)
            names.append(name)
    return names

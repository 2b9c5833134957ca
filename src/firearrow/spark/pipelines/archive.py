"""Topics -> tables of a lake, exactly once over any kill. The wiring; `transforms` decides what rows become.

Every table is filled by a query of its own with a checkpoint of its own below the archive's, so each is exactly once by
itself and none waits for another. The checkpoint is the archive's memory: started with it, an archive goes on where it
stopped; without it, an archive begins at the start and would write everything twice.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from firearrow.errors import SettingsError
from firearrow.spark.bodies.body_format import BodyFormat
from firearrow.spark.lake import access
from firearrow.spark.lake.access import Trigger
from firearrow.spark.lake.table import LakeTable, beside
from firearrow.spark.pipelines import transforms
from firearrow.spark.pipelines.listener import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BRONZE: Final = "bronze"
TYPED: Final = "typed"
QUARANTINE: Final = transforms.QUARANTINE
ROWS_PER_BATCH: Final = 2_000_000


class Archive(Struct, frozen=True):
    """What to archive where.

    ``source`` holds options of ``format("rocketmq")``; reading begins with everything the topics hold, unless it says
    otherwise. With ``bodies``, or ``body_schema`` (Spark's DDL) for JSON, bodies also fill a typed table and a
    quarantine, beside the bronze one unless named. ``on_error`` says what becomes of bodies that are not of the schema:
    ``quarantine``, ``fail`` or ``skip`` (both without a quarantine). ``bronze=False`` leaves the bronze table out.
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

    @property
    def body_format(self) -> BodyFormat | None:
        """How bodies are read; None if they are not."""
        return self.bodies or (BodyFormat(schema=self.body_schema) if self.body_schema else None)

    def checked(self) -> "Archive":
        """Return this archive; raise ``SettingsError`` if it contradicts itself."""
        if self.on_error not in transforms.ERROR_MODES:
            raise SettingsError(f"--on-error is one of {', '.join(transforms.ERROR_MODES)}, not {self.on_error!r}")
        if self.on_error != QUARANTINE and self.body_format is None:
            raise SettingsError(f"--on-error {self.on_error} is about bodies; give --body-schema too")
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


def stream(spark: "SparkSession", archive: Archive) -> "DataFrame":
    """The rows of the topics. A body that does not inflate is kept as it is stored: it must not stop an archive."""
    given = [name.lower() for name in archive.source]
    options = dict(archive.source)
    if not any(name.startswith("starting") for name in given):
        options["startingOffsets"] = "earliest"
    if "maxoffsetspertrigger" not in given:
        options["maxOffsetsPerTrigger"] = str(ROWS_PER_BATCH)
    if "badbodies" not in given:
        options["badBodies"] = "keep"
    return spark.readStream.format("rocketmq").options(**options).load()


def frames(rows: "DataFrame", archive: Archive) -> "dict[str, DataFrame]":
    """What goes into each table."""
    made, how = {BRONZE: lambda: rows}, archive.body_format
    if how is not None:
        made[TYPED] = lambda: transforms.typed(rows, how, archive.on_error)
        made[QUARANTINE] = lambda: transforms.quarantine(rows, how)
    return {name: made[name]() for name in archive.tables()}


def start(spark: "SparkSession", archive: Archive, trigger: Trigger = access.DRAIN) -> "list[StreamingQuery]":
    """Begin, or go on; a query for each table."""
    tables = archive.checked().tables()
    rows = stream(spark, archive)
    return [
        access.start(
            counted(frame), tables[name], f"{archive.checkpoint.rstrip('/')}/{name}", trigger, f"{archive.name}-{name}"
        )
        for name, frame in frames(rows, archive).items()
    ]


def drains(spark: "SparkSession") -> int:
    """How many runs of the trigger `access.DRAIN` archive everything.

    Before Spark 4.2 a run that finds an unfinished batch repeats that batch and ends, whatever came after it.
    """
    major, minor = (int(part) for part in spark.version.split(".")[:2])
    return 1 if (major, minor) >= (4, 2) else 2


def backfill(spark: "SparkSession", store: Mapping[str, str], table: LakeTable, job: str) -> None:
    """Store files -> a table in one job and one commit, once for each name of a job; no broker is involved.

    ``store`` holds options of ``format("rocketmq-store")``, ``path`` among them.
    """
    access.append(spark.read.format("rocketmq-store").options(**store).load(), table, job)


def register_views(spark: "SparkSession", archive: Archive) -> list[str]:
    """Temporary views of the tables as they are now, and of retries and dead letters, for SQL."""
    names = []
    for name, table in archive.tables().items():
        access.read(spark, table).createOrReplaceTempView(name)
        names.append(name)
    if archive.bronze:
        rows = access.read(spark, archive.table)
        for name, view in transforms.VIEWS.items():
            view(rows).createOrReplaceTempView(name)
            names.append(name)
    return names

"""Topics -> a table that holds the last version of every key: the topic folded by key.

Every batch is folded in Spark to one row a key, the later one by the order of `lake.order`, and its result is brought
into the table by one commit (`lake.changes`). A batch that Spark repeats changes nothing, since a version is not later
than itself.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from firearrow.errors import SettingsError
from firearrow.spark.lake import access, changes
from firearrow.spark.lake.access import Trigger
from firearrow.spark.lake.keys import DELETED
from firearrow.spark.lake.order import PLACE, VERSION
from firearrow.spark.lake.storage import for_spark
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

APPEND: Final = "append"
UPSERT: Final = "upsert"
MODES: Final = (APPEND, UPSERT)
ROWS_PER_BATCH: Final = 200_000
"""A folded batch passes through the driver's memory."""


class Upsert(Struct, frozen=True):
    """The rules that turn rows into changes: the columns of the key, and the expressions that delete and order rows.

    ``delete_when`` and ``version`` are expressions of Spark's SQL over the columns of the typed row; both may be empty.
    """

    key: tuple[str, ...]
    delete_when: str = ""
    version: str = ""

    def changes(self, rows: "DataFrame") -> "DataFrame":
        """Typed rows with what deletes and orders them."""
        if self.delete_when:
            rows = rows.withColumn(DELETED, F.col(DELETED) | F.coalesce(F.expr(self.delete_when), F.lit(False)))
        return rows.withColumn(VERSION, F.expr(self.version)) if self.version else rows

    def fold(self, rows: "DataFrame") -> "DataFrame":
        """The last change of every key."""
        key, whole = [F.col(f"`{name}`") for name in self.key], F.struct(*(F.col(f"`{name}`") for name in rows.columns))
        version = [VERSION] if VERSION in rows.columns else []
        topic, broker, queue, offset, moment = PLACE
        last = self._last(rows, [*key, topic, broker, queue], whole, [*version, offset])
        return self._last(last, key, whole, [*version, moment, topic, broker, queue])

    def _last(
        self, rows: "DataFrame", groups: "Sequence[Column | str]", whole: "Column", order: Sequence[str]
    ) -> "DataFrame":
        found = rows.groupBy(*groups).agg(F.max_by(whole, F.struct(*order)).alias("__last"))
        return found.select("__last.*")


class FoldedBatch(Struct, frozen=True):
    """The function of ``foreachBatch``."""

    table: LakeTable
    how: Upsert

    def __call__(self, batch: "DataFrame", _: int) -> None:
        """Bring a batch into the table."""
        rows = self.how.fold(batch).toArrow()
        if rows.num_rows:
            changes.apply(self.table, rows, self.how.key)


def fitted(frame: "DataFrame", table: LakeTable, how: Upsert) -> "DataFrame":
    """Create the table and that of its deleted keys, or compare them with the changes; return those in its form."""
    changes.require_changeable(table)
    missing = [name for name in PLACE if name not in frame.columns]
    if missing:
        raise SettingsError(f"upserts need the columns {', '.join(missing)}; leave the source's columns as they are")
    changes.require_by_key(table)
    gone = frame.select(*(f"`{name}`" for name in changes.gone_columns(frame.columns, how.key)))
    access.fitted(gone, changes.gone_table(table))
    changes.require_order(table, frame.columns, how.key)
    return access.fitted(frame, table, aside=(DELETED,))


def begin(
    frame: "DataFrame", table: LakeTable, how: Upsert, checkpoint: str, trigger: Trigger, query: str
) -> "StreamingQuery":
    """Keep a table equal to the fold of a stream of changes that `fitted` returned."""
    writer = frame.writeStream.foreachBatch(FoldedBatch(table, how)).queryName(query)
    writer = writer.option("checkpointLocation", for_spark(checkpoint))
    return writer.trigger(**trigger).start()  # type: ignore[arg-type]

"""The data sources of Spark: ``format("rocketmq")`` and ``format("rocketmq-store")``.

This module only turns options and schemas into readers and writers.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from firearrow.runtime.process import core_count
from firearrow.spark.options import source_options, store_options
from firearrow.spark.schema import ROW_DDL, chosen

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter


def columns_of_schema(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema, in its order."""
    return chosen((field.name, field.dataType.simpleString()) for field in schema.fields)


class RocketmqSource(DataSource):
    """Topics as tables."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "rocketmq"

    def schema(self) -> str:
        """The whole row."""
        return ROW_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read in one job."""
        from firearrow.spark.source.reader import PushingTopicsReader, TopicsReader

        options = source_options(self.options, is_stream=False, cores=core_count())
        kind = PushingTopicsReader if options.pushes_filters else TopicsReader
        return kind(options, columns_of_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read as a stream."""
        from firearrow.spark.source.stream import TopicsStreamReader

        options = source_options(self.options, is_stream=True, cores=core_count())
        return TopicsStreamReader(options, columns_of_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        """Write in one job."""
        from firearrow.spark.sink.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802 - Spark's name
        """Write as a stream."""
        from firearrow.spark.sink.writer import StreamWriter

        return StreamWriter(self.options, schema, overwrite)


class RocketmqStoreSource(DataSource):
    """The files of a broker's store as a table."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "rocketmq-store"

    def schema(self) -> str:
        """The whole row."""
        return ROW_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read in one job."""
        from firearrow.spark.source.store_files import PushingStoreReader, StoreReader

        options = store_options(self.options, cores=core_count())
        kind = PushingStoreReader if options.pushes_filters else StoreReader
        return kind(options, columns_of_schema(schema))

"""The module in which Spark finds ``format("rocketmq")``. It looks into every top-level module called ``pyspark_*``.

Nothing but pyspark is imported until the source is used: a module that fails here would hide every other source.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Topics as tables; all of it is `firearrow.spark.formats`."""

    @classmethod
    def name(cls) -> str:
        """The name that users give to ``format``."""
        return "rocketmq"

    def _source(self) -> DataSource:
        from firearrow.spark.formats import RocketmqSource

        return RocketmqSource(self.options)

    def schema(self) -> StructType | str:
        """The row."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read in one job."""
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read as a stream."""
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Write in one job."""
        return self._source().writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Write as a stream."""
        return self._source().streamWriter(schema, overwrite)

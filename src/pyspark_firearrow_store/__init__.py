"""The module in which Spark finds ``format("rocketmq-store")``. It looks into every top-level module called
``pyspark_*``.

Nothing but pyspark is imported until the source is used: a module that fails here would hide every other source.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """The files of a broker's store as a table; all of it is `firearrow.spark.formats`."""

    @classmethod
    def name(cls) -> str:
        """The name that users give to ``format``."""
        return "rocketmq-store"

    def _source(self) -> DataSource:
        from firearrow.spark.formats import RocketmqStoreSource

        return RocketmqStoreSource(self.options)

    def schema(self) -> StructType | str:
        """The row."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read in one job."""
        return self._source().reader(schema)

"""The least that could do the same: a sink that only counts, a source of batches that are ready, one of the clock."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ROWS_PER_MS = 1


@dataclass
class Counted(WriterCommitMessage):
    """Rows of a task."""

    rows: int


class Counting(DataSourceArrowWriter):
    """Takes rows and does nothing."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Counted:
        """Count."""
        return Counted(sum(batch.num_rows for batch in iterator))


class Bare(DataSource):
    """A sink that only counts."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the source for ``format``."""
        return "bare-arrow"

    def writer(self, schema: "StructType", overwrite: bool) -> Counting:  # noqa: ARG002
        """Write in one job."""
        return Counting()


class Share(InputPartition):
    """The batches of a file that one of several tasks hands over."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class ReadyReader(DataSourceReader):
    """Hands over the batches of an Arrow file."""

    TASKS = 2

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        """Two tasks."""
        return [Share(number) for number in range(self.TASKS)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Every second batch of the file, which is mapped and not copied."""
        import pyarrow as pa

        assert isinstance(partition, Share)
        file = pa.ipc.open_file(pa.memory_map(self._path))
        for number in range(partition.number, file.num_record_batches, self.TASKS):
            yield file.get_batch(number)


class Ready(DataSource):
    """A source of batches that nobody has to make: what Spark needs to take rows from Python at all."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the source for ``format``."""
        return "ready-arrow"

    def reader(self, schema: "StructType") -> ReadyReader:  # noqa: ARG002
        """Read the file of the option ``path``."""
        return ReadyReader(self.options["path"])


class Stretch(InputPartition):
    """Milliseconds, the last one exclusive."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__((begin, end))
        self.begin, self.end = begin, end


class ClockReader(DataSourceStreamReader):
    """A row for each millisecond that has passed, which tells when that was."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Now."""
        return {"ms": int(time.time() * 1000)}

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, int]:  # noqa: N802, ARG002
        """Now."""
        return {"ms": int(time.time() * 1000)}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """All of it in one task."""
        return [Stretch(start["ms"], end["ms"])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The milliseconds as times."""
        import pyarrow as pa

        assert isinstance(partition, Stretch)
        times = pa.array([ms * 1000 for ms in range(partition.begin, partition.end)], pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([times], names=["store_timestamp"])


class Clock(DataSource):
    """The clock as a stream: what a micro-batch costs in any case."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "bare-clock"

    def schema(self) -> str:
        """One column."""
        return "store_timestamp timestamp"

    def streamReader(self, schema: "StructType") -> ClockReader:  # noqa: N802, ARG002
        """Read it."""
        return ClockReader()

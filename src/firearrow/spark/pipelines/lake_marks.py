"""Marks of an archive at the brokers: up to which offset its tables have every queue.

A broker of ours honours them for topics with the attribute ``lake.retention``. They are offsets of a group without
members, so Apache's brokers store them too, and do not honour them.

The mark of a queue is the lowest offset that any table of the archive has committed. It is read from the checkpoint
when the archive starts and follows the reports of finished batches; a report comes after its batch is committed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firearrow.admin import Admin
from firearrow.errors import FireArrowError, SettingsError
from firearrow.model import MessageQueue
from firearrow.model.names import LAKE_GROUP_PREFIX, group_fault
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.runtime.portal import Portal
from firearrow.spark.options import source_options
from firearrow.spark.pipelines.archive import Archive
from firearrow.spark.pipelines.body_schemas import end_in, texts
from firearrow.spark.pipelines.progress import BatchProgress, QueueLag
from firearrow.spark.reach import client_tls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ends = Mapping[MessageQueue, int]


def group_of(mark: str) -> str:
    """Return the group that holds the marks of this name; raise ``SettingsError`` for a name that is not legal."""
    fault = group_fault(LAKE_GROUP_PREFIX + mark) if mark else "the name is empty"
    if fault:
        raise SettingsError(f"--mark {mark!r} cannot name a group of brokers: {fault}")
    return LAKE_GROUP_PREFIX + mark


def reached_by_all(ends: Iterable[Ends]) -> dict[MessageQueue, int]:
    """Return the lowest offset of each queue that all queries have reached an offset in."""
    given = list(ends)
    common = set(given[0]).intersection(*given[1:]) if given else set()
    return {queue: min(end[queue] for end in given) for queue in sorted(common)}


def committed_end(spark: "SparkSession", checkpoint: str) -> dict[MessageQueue, int]:
    """Return the end of the last batch that a query has committed; empty for one that has committed none."""
    done = texts(spark, f"{checkpoint}/commits")
    planned = texts(spark, f"{checkpoint}/offsets") if done else {}
    last = max(done, key=int, default="")
    return end_in(planned[last]) if last in planned else {}


class LakeMarks:
    """Writes the marks of one archive, whose queries have the names in ``ends``."""

    def __init__(self, source: Mapping[str, str], mark: str, ends: Mapping[str, Ends]) -> None:
        self._connection = source_options(source, is_stream=True).connection
        self._group = group_of(mark)
        self._ends = dict(ends)
        self._written: dict[MessageQueue, int] = {}
        self._portal = Portal("firearrow-marks")

    def open(self) -> None:
        """Make the group where it is missing, and write the marks of what is committed already."""
        self._portal.call(self._write(makes_group=True))

    def note(self, query: str, queues: Iterable[QueueLag]) -> None:
        """Note a finished batch of a query, and write the marks that moved."""
        self._ends[query] = {_queue(each.queue): each.offset for each in queues}
        self._portal.call(self._write())

    def close(self) -> None:
        """End the thread of the requests."""
        self._portal.close()

    async def _write(self, *, makes_group: bool = False) -> None:
        now = reached_by_all(self._ends.values())
        moved = {queue: offset for queue, offset in now.items() if self._written.get(queue) != offset}
        if not moved and not makes_group:
            return
        at = self._connection
        admin = Admin(
            at.name_server,
            tls=client_tls(at),
            access_key=at.access_key,
            secret_key=at.secret_key,
            security_token=at.security_token,
        )
        async with admin:
            if makes_group:
                await admin.offsets.create(SubscriptionGroupConfig(group_name=self._group))
            await admin.offsets.write(self._group, moved)
        self._written |= moved


@contextmanager
def marking(
    spark: "SparkSession", archive: Archive, mark: str, tell: Callable[[str], None]
) -> Iterator[Callable[[BatchProgress], None]]:
    """Mark what an archive has, within the block: call the result with every finished batch. No-op without a name.

    A mark that cannot be written does not end the archive: ``tell`` is called, and the next batch writes it.
    """
    if not mark:
        yield lambda _batch: None
        return
    root = archive.checkpoint.rstrip("/")
    ends = {f"{archive.name}-{name}": committed_end(spark, f"{root}/{name}") for name in archive.tables()}
    marks = LakeMarks(archive.source, mark, ends)

    def note(batch: BatchProgress) -> None:
        try:
            marks.note(batch.query, batch.queues)
        except FireArrowError as error:
            tell(f"the marks of the archive at the brokers were not moved; the next batch tries again: {error}")

    try:
        marks.open()
        yield note
    finally:
        marks.close()


def _queue(path: str) -> MessageQueue:
    topic, broker, number = path.split("/")
    return MessageQueue(topic, broker, int(number))

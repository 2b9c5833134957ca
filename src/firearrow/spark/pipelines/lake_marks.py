"""Marks of an archive at the brokers: up to which offset its tables have every queue.

A broker of ours honours them for topics with the attribute ``lake.retention``. They are offsets of a group without
members, so Apache's brokers store them too, and do not honour them.

The mark of a queue is the lowest offset that any table of the archive has committed. It is read from the checkpoint
when the archive starts and follows the reports of finished batches; a report comes after its batch is committed. A
table that has committed nothing in a queue counts with the offset at which it will begin: marks of an earlier start are
lowered, and other archives wait for this one, before anything is read.

A mark that is too low only keeps messages for longer, so a failure to raise one is told and the next batch tries again.
A mark that is too high lets a broker delete what a table lacks, so a failure to lower one ends the archive.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from firearrow.admin import Admin
from firearrow.client import Bounds
from firearrow.errors import FireArrowError, NotNow, SettingsError
from firearrow.model import MessageQueue
from firearrow.model.names import LAKE_GROUP_PREFIX, group_fault
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.runtime.portal import Portal
from firearrow.spark.lake.storage import reach
from firearrow.spark.link import link_of
from firearrow.spark.options import source_options
from firearrow.spark.pipelines.archive import Archive, source_of
from firearrow.spark.pipelines.body_schemas import end_in, texts
from firearrow.spark.pipelines.progress import BatchProgress, QueueLag
from firearrow.spark.reach import client_tls
from firearrow.spark.source.reader import Edges, chosen_bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log: Final = logging.getLogger(__name__)

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

    def __init__(
        self, source: Mapping[str, str], mark: str, ends: Mapping[str, Ends], tell: Callable[[str], None] = log.warning
    ) -> None:
        self._options = source_options(source_of(source), is_stream=True)
        self._group = group_of(mark)
        self._ends = dict(ends)
        self._tell = tell
        self._told = ""
        self._written: dict[MessageQueue, int] = {}
        self._portal = Portal("firearrow-marks")

    def open(self) -> None:
        """Make the group where it is missing, and write the mark of every queue; call it before anything is read.

        Raise ``NotNow`` if a mark stays that may lie behind what a table has.
        """
        lacking = self._complete()
        failures = self._portal.call(self._write(makes_group=True))
        unsafe = {queue: failure for queue, failure in failures.items() if queue in lacking}
        if unsafe and self._options.fail_on_data_loss:
            raise NotNow(
                f"the marks of the archive could not be set to where its tables begin: {_shown(unsafe)}. With old "
                "marks, or none, that broker may delete what a table lacks, so nothing was read. Start the archive "
                "again when the broker is back, or give --option failOnDataLoss=false to go on without it"
            )
        self._say(failures)

    def note(self, query: str, queues: Iterable[QueueLag]) -> None:
        """Note a finished batch of a query, and write the marks that moved."""
        now = {_queue(each.queue): each.offset for each in queues}
        self._ends[query] = {**self._ends.get(query, {}), **now}
        self._say(self._portal.call(self._write()))

    def close(self) -> None:
        """End the thread of the requests."""
        self._portal.close()

    def _complete(self) -> set[MessageQueue]:
        """Give every query an offset in every queue; return the queues in which one of them has committed nothing.

        A query without a commit begins at the starting offsets, another one takes a new queue from its first message.
        """
        is_new = not all(self._ends.values())
        link = link_of(self._options.connection, self._options.fetching)
        bounds: Mapping[MessageQueue, Bounds] = {}
        try:
            bounds = chosen_bounds(link, self._options)
        except FireArrowError as error:
            if is_new:
                raise
            self._tell(f"the queues of the archive could not be asked for, so only those it knows are marked: {error}")
        starts = Edges(link, self._options, bounds).starts() if is_new else {}
        firsts = {queue: each.first for queue, each in bounds.items()}
        queues = set(bounds).union(*self._ends.values())
        lacking = {queue for queue in queues if any(queue not in end for end in self._ends.values())}
        for query, end in self._ends.items():
            begins = firsts if end else starts
            self._ends[query] = {queue: end.get(queue, begins.get(queue, 0)) for queue in queues}
        present = {queue.broker_name for queue in bounds}  # a queue that such a broker does not have is deleted
        return {queue for queue in lacking if queue in bounds or queue.broker_name not in present}

    async def _write(self, *, makes_group: bool = False) -> dict[MessageQueue, FireArrowError]:
        """Write the marks that moved; return those that were not written."""
        now = reached_by_all(self._ends.values())
        moved = {queue: offset for queue, offset in now.items() if self._written.get(queue) != offset}
        if not moved and not makes_group:
            return {}
        try:
            async with self._admin() as admin:
                if makes_group:
                    await self._make_group(admin)
                failures = await admin.offsets.write_each(self._group, moved)
        except FireArrowError as error:
            failures = dict.fromkeys(moved, error)
        self._written |= {queue: offset for queue, offset in moved.items() if queue not in failures}
        return failures

    def _admin(self) -> Admin:
        at = self._options.connection
        return Admin(
            at.name_server,
            tls=client_tls(at),
            access_key=at.access_key,
            secret_key=at.secret_key,
            security_token=at.security_token,
            signature_method=at.signature_method,
        )

    async def _make_group(self, admin: Admin) -> None:
        try:
            await admin.offsets.create(SubscriptionGroupConfig(group_name=self._group))
        except FireArrowError as error:
            self._tell(f"group {self._group} could not be made at every broker; the next start tries again: {error}")

    def _say(self, failures: Mapping[MessageQueue, FireArrowError]) -> None:
        """Tell of marks that were not written, unless the same was told last."""
        text = _shown(failures)
        if text and text != self._told:
            self._tell(f"marks of the archive at the brokers were not moved; the next batch tries again: {text}")
        self._told = text


def _shown(failures: Mapping[MessageQueue, FireArrowError]) -> str:
    """Return the reasons of failures, each once."""
    return "; ".join(dict.fromkeys(str(failure) for failure in failures.values()))


@contextmanager
def marking(
    spark: "SparkSession", archive: Archive, mark: str, tell: Callable[[str], None]
) -> Iterator[Callable[[BatchProgress], None]]:
    """Mark what an archive has, within the block: call the result with every finished batch. No-op without a name.

    A mark that cannot be raised does not end the archive: ``tell`` is called, and the next batch writes it.
    """
    if not mark:
        yield lambda _batch: None
        return
    root, tables = archive.checkpoint.rstrip("/"), archive.tables()
    for table in tables.values():
        reach(spark, table.storage_settings)
    ends = {f"{archive.name}-{name}": committed_end(spark, f"{root}/{name}") for name in tables}
    marks = LakeMarks(archive.source, mark, ends, tell)
    try:
        marks.open()
        yield lambda batch: marks.note(batch.query, batch.queues)
    finally:
        marks.close()


def _queue(path: str) -> MessageQueue:
    topic, broker, number = path.split("/")
    return MessageQueue(topic, broker, int(number))

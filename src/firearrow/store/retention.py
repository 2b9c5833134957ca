"""Retention: which files to delete, and when to refuse sends. `decide` is pure; `Retention` carries it out, in rounds.

==========  ====================================================================================================
disk used   what happens
==========  ====================================================================================================
any         at the hours of ``deleteWhen`` log files are deleted whose last write is ``fileReservedTime`` hours ago
above 75 %  such files are deleted at any hour
above 85 %  the oldest files are deleted even if they are younger, with a warning for every group with unread messages
above 90 %  sends are refused too, until usage is back at 85 %
==========  ====================================================================================================

A round deletes ten log files at most, never the one in use, then queue and index files whose messages are all deleted.
What must outlive its log file (`before_delete`) is written again before, file by file, so that every deleted file makes
room for the next. When pending half messages are more than half of the log, no file is deleted that is not expired:
writing them again would go on without end and free little.
Java: ``DefaultMessageStore.CleanCommitLogService``, ``CleanConsumeQueueService``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from firearrow.errors import DiskFull, FireArrowError, ResourceShortage
from firearrow.model.names import TRANSACTION_GROUP
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk, Usage
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.pacing import Pace
from firearrow.store.paths import COMMIT_LOG, log_path
from firearrow.store.queue.consume_queue import ENTRY
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.views.views import Views

HOUR_MS: Final = 3_600_000
DERIVED_FILES_A_ROUND: Final = 200
QUEUES_AT_ONCE: Final = 32
"""Queues checked for unread messages before the work yields to the loop."""

Offsets = Iterable[tuple[str, str, Mapping[int, int]]]
"""Committed offsets: group, topic, offsets by queue."""

logger = logging.getLogger(__name__)


class RetentionConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """How long messages are kept."""

    file_reserved_time: Annotated[
        int, Meta(ge=0, description="Hours that a log file is kept after its last write.")
    ] = 72
    delete_when: Annotated[
        str,
        Meta(
            pattern=r"^([01]?[0-9]|2[0-3])(;([01]?[0-9]|2[0-3]))*$",
            description="Hours of the day, joined by ';', at which expired files are deleted.",
        ),
    ] = "04"
    disk_max_used_space_ratio: Annotated[
        int, Meta(ge=10, le=95, description="Percent of the disk above which expired files are deleted at any hour.")
    ] = 75
    disk_space_clean_forcibly_ratio: Annotated[
        int, Meta(ge=30, le=85, description="Percent of the disk above which unexpired files are deleted.")
    ] = 85
    disk_space_warning_level_ratio: Annotated[
        int, Meta(ge=35, le=90, description="Percent of the disk above which sends are refused.")
    ] = 90
    clean_file_forcibly_enable: Annotated[
        bool, Meta(description="Whether files that are not expired may be deleted at all.")
    ] = True
    delete_file_batch_max: Annotated[int, Meta(ge=1, le=10_000, description="Log files deleted in one round.")] = 10
    clean_resource_interval: Annotated[
        int, Meta(ge=100, le=3_600_000, description="Milliseconds between two rounds.")
    ] = 10_000

    @property
    def hours(self) -> frozenset[int]:
        """The hours of ``deleteWhen``."""
        return frozenset(int(hour) for hour in self.delete_when.split(";"))


class LogFile(NamedTuple):
    """A full file of the log, which may be deleted."""

    start: int
    size: int
    modified_ms: int


class Decision(NamedTuple):
    """What one round deletes, and whether sends are refused."""

    delete: list[LogFile]
    forced: int
    """How many of the files to delete, the last ones, are not expired."""
    refuse: bool
    """Whether sends are refused from now on."""


def decide(
    config: RetentionConfig,
    files: Sequence[LogFile],
    usage: Usage,
    now_ms: int,
    hour: int,
    *,
    asked: bool = False,
    refusing: bool = False,
    kept_bytes: int = 0,
) -> Decision:
    """Which of ``files`` (oldest first) to delete.

    ``asked``: delete expired files at any hour. ``kept_bytes``: the size of what must be written again.
    """
    percent = 100 * (usage.total - usage.free) / max(usage.total, 1)
    expired_before = now_ms - config.file_reserved_time * HOUR_MS
    delete: list[LogFile] = []
    if asked or hour in config.hours or percent > config.disk_max_used_space_ratio:
        for file in files[: config.delete_file_batch_max]:
            if file.modified_ms > expired_before:
                break
            delete.append(file)
    expired = len(delete)
    frees_enough = 2 * kept_bytes <= sum(file.size for file in files)
    if percent > config.disk_space_clean_forcibly_ratio and config.clean_file_forcibly_enable and frees_enough:
        excess = usage.total - usage.free - usage.total * config.disk_space_clean_forcibly_ratio // 100
        for file in files[expired : config.delete_file_batch_max]:
            if sum(gone.size for gone in delete) >= excess:
                break
            delete.append(file)
    level = config.disk_space_clean_forcibly_ratio if refusing else config.disk_space_warning_level_ratio
    return Decision(delete, len(delete) - expired, percent > level)


class Retention:
    """Keeps the disk from filling up."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: RetentionConfig,
        log: CommitLog,
        opened: OpenedLog,
        views: Views,
        *,
        zone: tzinfo = UTC,
        offsets: Callable[[], Offsets] = tuple,
    ) -> None:
        self.refusal: ResourceShortage | None = None
        """Why sends are refused, because of the disk or of the views; None while they are accepted."""
        self._disk_full: DiskFull | None = None
        self._disk = disk
        self._clock = clock
        self._config = config
        self._log = log
        self._opened = opened
        self._views = views
        self._zone = zone
        self._offsets = offsets
        self._asked = 0
        self.before_delete: list[Callable[[int], Awaitable[None]]] = []
        """Called with the end of every file that is to be deleted; it stays when one of them raises."""
        self.kept_bytes: Callable[[], int] = lambda: 0
        """Returns the size of the half messages that must be written again before their files are deleted."""
        views.pressure.on_change = self._note_refusal

    def _note_refusal(self) -> None:
        # Every send reads `refusal`, so it is computed here, when it changes.
        self.refusal = self._disk_full or self._views.pressure.refusal

    def delete_expired_now(self, rounds: int = 20) -> None:
        """Let the next rounds delete expired files whatever the hour."""
        self._asked = rounds

    async def run(self) -> None:
        """A round at every interval, until cancelled."""
        while True:
            await asyncio.sleep(self._config.clean_resource_interval / 1000)
            try:
                await self.round()
            except FireArrowError as error:
                text = "deleting old files failed; the next round tries again: %s"
                logger.error(text, error, extra={"reason": str(error)})  # noqa: TRY400 - the disk is to blame, no line of ours

    async def round(self) -> Decision:
        """Check the disk, delete files that may be deleted, and refuse or accept sends."""
        now_ms = self._clock.now_ms()
        hour = datetime.fromtimestamp(now_ms / 1000, self._zone).hour
        asked, self._asked = self._asked > 0, max(self._asked - 1, 0)
        usage = self._disk.usage()
        decision = decide(
            self._config,
            self._files(),
            usage,
            now_ms,
            hour,
            asked=asked,
            refusing=self._disk_full is not None,
            kept_bytes=self.kept_bytes(),
        )
        self._refuse(decision.refuse, usage)
        if decision.delete:
            await self._delete(decision)
        await self._delete_derived()
        return decision

    def _files(self) -> list[LogFile]:
        """The files of the log that are full and on disk, oldest first."""
        log = self._log
        return [
            LogFile(segment.start, segment.end - segment.start, self._disk.status(log_path(segment.start)).modified_ms)
            for segment in self._opened.segments
            if segment.end <= min(log.flushed, self._views.durable)
        ]

    def _refuse(self, refuse: bool, usage: Usage) -> None:
        if refuse == (self._disk_full is not None):
            return
        used = 100 * (usage.total - usage.free) // max(usage.total, 1)
        self._disk_full = None
        if refuse:
            config = self._config
            self._disk_full = DiskFull(
                f"the disk is {used} % full, above the {config.disk_space_warning_level_ratio} % at which sends are "
                f"refused; they are accepted again at {config.disk_space_clean_forcibly_ratio} %"
            )
            logger.error("sends are refused: %s", self._disk_full, extra={"used_percent": used, "free": usage.free})
        else:
            logger.warning("sends are accepted again: the disk is %d %% full", used, extra={"used_percent": used})
        self._note_refusal()

    async def _delete(self, decision: Decision) -> None:
        names = {"files": len(decision.delete), "not_expired": decision.forced}
        logger.info("log files are deleted", extra=names | {"up_to": decision.delete[-1].start})
        if decision.forced:
            await self._warn(decision.delete[-1].start + decision.delete[-1].size)
        try:
            for file in decision.delete:
                for call in self.before_delete:
                    await call(file.start + file.size)
                segment = self._opened.segments.at(file.start)
                if segment is not None:
                    await self._opened.segments.remove(segment)
        finally:
            await self._disk.sync_directory(COMMIT_LOG)
            self._opened.ranges.ranges.forget(self._log.min_offset)
            await self._opened.ranges.save(self._opened.segments.size)

    async def _warn(self, until: int) -> None:
        """Warn about groups that lose unread messages. Yields to the loop."""
        pace = Pace(QUEUES_AT_ONCE)
        for group, topic, read in self._offsets():
            if group == TRANSACTION_GROUP:
                continue  # its messages are written again
            lost = 0
            for queue_id, offset in list(read.items()):
                lost += await self._unread(topic, queue_id, offset, until)
                await pace.did()
            if lost:
                logger.warning(
                    "group %s loses %d unread messages of topic %s: they are deleted to save the disk",
                    group,
                    lost,
                    topic,
                    extra={"group": group, "topic": topic, "messages": lost},
                )

    async def _unread(self, topic: str, queue_id: int, offset: int, until: int) -> int:
        """How many messages of a queue from ``offset`` on have records below the physical offset ``until``."""
        queues = self._views.queues
        queue = queues.find(topic, queue_id)
        if queue is None or offset >= queue.max_offset:
            return 0
        entry = await queues.entries(queue, offset, 1)
        if entry and ENTRY.unpack(entry)[0] >= until:
            return 0
        return max(queues.first_at_or_above(queue, until) - offset, 0)

    async def _delete_derived(self) -> None:
        start = self._log.min_offset
        await self._views.queues.drop_files_below(start, DERIVED_FILES_A_ROUND)
        if self._views.index is not None:
            await self._views.index.files.drop_below(start, DERIVED_FILES_A_ROUND)

"""Retention: deletes old files and refuses sends on a full disk, in rounds. `deletion` has the pure decision.

==========  ====================================================================================================
disk used   what happens
==========  ====================================================================================================
any         at the hours of ``deleteWhen`` log files are deleted whose last write is ``fileReservedTime`` hours ago;
            at any hour those whose messages are all released by their topics, because a lake has them
above 75 %  such files are deleted at any hour
above 85 %  the oldest files are deleted even if they are younger, with a warning for every group with unread messages
above 90 %  sends are refused too, until usage is back at 85 %
==========  ====================================================================================================

A round deletes ten log files at most, never the one in use, then queue and index files whose messages are all deleted.
Messages that must outlive their log file (`keepers`) are written again before, file by file, so that every deleted file
makes room for the next; files that are not expired stay when that would free too little. They are deleted all the same
when a write finds no room although sends are refused: then one that must not be refused needs it.
Files with messages that a lake still has to get (`lake_topics`) are deleted by no age, only above 85 %, with a warning
for every topic that loses messages.
A slave deletes only files that its master has no more, once it has all that the master had by then: what is pending in
them, the master alone writes again.
Java: ``DefaultMessageStore.CleanCommitLogService``, ``CleanConsumeQueueService``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import Final

from firearrow.errors import DiskError, DiskFull, FireArrowError, ResourceShortage
from firearrow.model.names import LAKE_GROUP_PREFIX, TRANSACTION_GROUP
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk, Usage
from firearrow.runtime.turn import Pace
from firearrow.store.deletion import ALL_HELD, DeletionPlan, Floors, LogFile, RetentionConfig, decide
from firearrow.store.keepers import DeletionWorth, Keepers
from firearrow.store.lake_topics import LakeTopic, floors
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.paths import COMMIT_LOG, log_path
from firearrow.store.queue.consume_queue import ENTRY
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.views.views import Views

DERIVED_FILES_A_ROUND: Final = 200
PAUSE_S: Final = 1.0
"""The least time between two rounds, however often writes find no room."""
QUEUES_AT_ONCE: Final = 32
"""Queues checked for unread messages before the work yields to the loop."""

Offsets = Iterable[tuple[str, str, Mapping[int, int]]]
"""Committed offsets: group, topic, offsets by queue."""

logger = logging.getLogger(__name__)


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
        lake_topics: Callable[[], Mapping[str, LakeTopic] | None] = dict,
        is_copy: bool = False,
    ) -> None:
        self.refusal: ResourceShortage | None = None
        """The reason why sends are refused, because of the disk or of the views; None while they are accepted."""
        self.master_start: int | None = None
        """In a copy: where the master's log began, when it had nothing that is not here; None until it told."""
        self._is_copy = is_copy
        self._is_waiting = False
        self._disk_full: DiskFull | None = None
        self._disk = disk
        self._clock = clock
        self._config = config
        self._log = log
        self._opened = opened
        self._views = views
        self._zone = zone
        self._offsets = offsets
        self._lake_topics = lake_topics
        self._held_by = ""
        self._asked = 0
        self._short = asyncio.Event()
        self._was_short = self._is_futile = False
        log.unsynced.on_shortage = self._note_shortage
        self.keepers = Keepers()
        views.pressure.on_change = self._note_refusal

    def _note_refusal(self) -> None:
        # Every send reads `refusal`, so it is computed here, when it changes.
        self.refusal = self._disk_full or self._views.pressure.refusal

    def _note_shortage(self) -> None:
        self._was_short = True
        self._short.set()

    def configure(self, config: RetentionConfig) -> None:
        """Take other settings, from the next round on."""
        self._config = config

    def delete_expired_now(self, rounds: int = 20) -> None:
        """Let the next rounds delete expired files whatever the hour."""
        self._asked = rounds

    async def run(self) -> None:
        """A round at every interval, and soon after a write of the log found no room, until cancelled."""
        while True:
            await self._wait()
            try:
                await self.round()
            except FireArrowError as error:
                text = "deleting old files failed; the next round tries again: %s"
                logger.error(text, error, extra={"reason": str(error)})  # noqa: TRY400 - the disk is to blame, no line of ours

    async def _wait(self) -> None:
        interval_s = self._config.clean_resource_interval / 1000
        await asyncio.sleep(min(PAUSE_S, interval_s))
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_s - PAUSE_S):
                await self._short.wait()
        self._short.clear()

    async def round(self) -> DeletionPlan:
        """Check the disk, delete files that may be deleted, and refuse or accept sends."""
        now_ms = self._clock.now_ms()
        hour = datetime.fromtimestamp(now_ms / 1000, self._zone).hour
        asked, self._asked = self._asked > 0, max(self._asked - 1, 0)
        usage = self._disk.usage()
        files = self._files()  # before the floors: messages of these files are all in their queues
        found = await self._floors()
        decision = decide(
            self._config,
            files,
            usage,
            now_ms,
            hour,
            asked=asked,
            refusing=self._disk_full is not None,
            floors=found,
        )
        self._tell_held(decision, found)
        # The disk may have filled up since the last round. Whether it is enough to refuse sends, the next one sees.
        is_pressing = self._disk_full is not None or not decision.refuse
        self._refuse(decision.refuse, usage)
        decision = await self._worthwhile(decision, files, usage, is_pressing=is_pressing)
        if self._is_copy:
            decision = self._gone_at_master(decision, usage)
        try:
            if decision.delete:
                await self._delete(decision, is_pressing=is_pressing)
            else:
                self.keepers.forget_shortages()
        except FireArrowError as error:
            if isinstance(error, ResourceShortage):
                self._forget_own_shortage()
            with suppress(DiskError):  # the first failure is the one to tell
                await self._delete_derived()
            raise
        await self._delete_derived()
        return decision

    def _forget_own_shortage(self) -> None:
        """Forget that writes of the keepers found no room: nothing else needs it for that."""
        self._was_short = False
        self._short.clear()

    async def _worthwhile(
        self, decision: DeletionPlan, files: list[LogFile], usage: Usage, *, is_pressing: bool
    ) -> DeletionPlan:
        """Return the decision without files whose deletion would free too little, because of pending messages.

        When a write of the log found no room and that is pressing, one file is deleted whatever is pending in it.
        """
        was_short, self._was_short = self._was_short and is_pressing, False
        if not decision.forced:
            self._is_futile = False
            return decision
        expired = len(decision.delete) - decision.forced
        worth = await self.keepers.worth(files[expired:], decision.forced)
        self._tell_futile(worth, usage)
        forced = max(worth.files, int(was_short))
        return decision._replace(delete=decision.delete[: expired + forced], forced=forced)

    def _gone_at_master(self, decision: DeletionPlan, usage: Usage) -> DeletionPlan:
        """Return the decision without files that the master still has."""
        start = self.master_start or 0
        kept = sum(file.start + file.size > start for file in decision.delete)
        is_waiting = decision.forced > 0 and kept == len(decision.delete)
        if is_waiting and not self._is_waiting:
            logger.error(
                "log files are not deleted although the disk is %d %% full: the master's log begins at %s, so it still "
                "has them; add disk space or remove other files here, or see that the master deletes them",
                _percent(usage),
                "a place that it has not told" if self.master_start is None else start,
                extra={"master_start": self.master_start, "free": usage.free},
            )
        self._is_waiting = is_waiting
        delete = decision.delete[: len(decision.delete) - kept]
        return decision._replace(delete=delete, forced=max(decision.forced - kept, 0))

    def _tell_futile(self, worth: DeletionWorth, usage: Usage) -> None:
        """Log once when pending messages begin to keep files on a disk that is too full."""
        if not worth.files and not self._is_futile:
            pending = " and ".join(f"{size >> 20} MiB of {kept}" for kept, size in worth.pending.items())
            logger.error(
                "log files are not deleted although the disk is %d %% full: %s are pending in %d MiB of them, and "
                "writing those again would free too little; add disk space or remove other files, or wait until they "
                "are due or ended; sends are refused above %d %% until then",
                _percent(usage),
                pending,
                worth.size >> 20,
                self._config.disk_space_warning_level_ratio,
                extra={"pending": dict(worth.pending), "looked_at": worth.size, "free": usage.free},
            )
        self._is_futile = not worth.files

    async def _floors(self) -> Floors:
        topics = self._lake_topics()
        return ALL_HELD if topics is None else await floors(self._views.queues, self._log.min_offset, topics)

    def _tell_held(self, decision: DeletionPlan, found: Floors) -> None:
        """Warn once when a topic begins to hold expired files."""
        topic = found.topic if decision.is_held else ""
        if topic and topic != self._held_by:
            logger.warning(
                "expired log files are kept: no lake has the messages of topic %s from physical offset %d on; "
                "see that its archive runs and marks what it has (--mark)",
                topic,
                found.lacked,
                extra={"topic": topic, "physical": found.lacked},
            )
        self._held_by = topic

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
        used = _percent(usage)
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

    async def _delete(self, decision: DeletionPlan, *, is_pressing: bool) -> None:
        names = {"files": len(decision.delete), "not_expired": decision.forced}
        logger.info("log files are deleted", extra=names | {"up_to": decision.delete[-1].start})
        if decision.forced:
            await self._warn(decision.delete[-1].start + decision.delete[-1].size)
            await self._warn_of_lakes(decision.delete[-1].start + decision.delete[-1].size)
        before = self._log.min_offset
        try:
            for file in decision.delete:
                await self.keepers.renew_below(file.start + file.size, counts=is_pressing)
                segment = self._opened.segments.at(file.start)
                if segment is not None:
                    await self._opened.segments.remove(segment)
        finally:
            if self._log.min_offset > before:
                await self._note_deleted()

    async def _note_deleted(self) -> None:
        """Make deletions durable. A failure is only logged: a file that comes back is deleted again."""
        try:
            await self._disk.sync_directory(COMMIT_LOG)
            self._opened.ranges.ranges.forget(self._log.min_offset)
            await self._opened.ranges.save(self._opened.segments.size)
        except DiskError as error:
            text = "the deletion of log files is not durable yet; the next deletion tries again: %s"
            logger.warning(text, error, extra={"reason": str(error)})

    async def _warn(self, until: int) -> None:
        """Warn about groups that lose unread messages. Yields to the loop."""
        pace = Pace(QUEUES_AT_ONCE)
        for group, topic, read in self._offsets():
            if group == TRANSACTION_GROUP or group.startswith(LAKE_GROUP_PREFIX):
                continue  # messages of the first are written again; the second are marks of lakes
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

    async def _warn_of_lakes(self, until: int) -> None:
        """Warn about topics that lose messages which no lake has. Yields to the loop."""
        pace = Pace(QUEUES_AT_ONCE)
        for name, topic in (self._lake_topics() or {}).items():
            lost = 0
            for queue in self._views.queues.of_topic(name):
                first = self._views.queues.min_offset(queue, self._log.min_offset)
                mark = max(first, topic.marks.get(queue.queue_id, 0))
                lost += await self._unread(name, queue.queue_id, mark, until)
                await pace.did()
            if lost:
                logger.warning(
                    "topic %s loses %d messages that no lake has: they are deleted to save the disk",
                    name,
                    lost,
                    extra={"topic": name, "messages": lost},
                )

    async def _unread(self, topic: str, queue_id: int, offset: int, until: int) -> int:
        """Return the number of messages of a queue from ``offset`` on whose records lie below ``until``, in the log."""
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


def _percent(usage: Usage) -> int:
    return 100 * (usage.total - usage.free) // max(usage.total, 1)

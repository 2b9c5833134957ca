"""Checks: asks producers for the state of transactions that nobody has ended.

A round looks at every pending half message. One that is due is written again at the end of the half queue with its
counter raised, and a producer of its group is asked about that new record; the op message for the old one follows. So
the queue moves on, and the counter survives a restart. After ``transactionCheckMax`` questions, or when it is older
than the log is kept, the message is moved to TRANS_CHECK_MAX_TIME_TOPIC.
Java: ``TransactionalMessageServiceImpl.check``.

A question is counted when it was sent. A round asks as fast as producers read: half messages of a group that does not
read are set aside, and all groups that were set aside are waited for together, for one bounded time. So a group that
does not read delays no other group, and is left to the next round. A half message that cannot be written again, because
it would be over a limit, is asked about where it is, and its questions are not counted.

A pending half message is not lost to retention: before a log file is deleted, the pending half messages in it are
written again (`renew_below`), with the counter as it is. That is at most as much as the file held, and ends with the
age at which they are given up.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.transaction.decisions import Check, judge
from firearrow.broker.transaction.half import as_stored, given_up, question, renewed
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Half, Outcome
from firearrow.broker.transaction.side_by_side import side_by_side
from firearrow.broker.transaction.slice import Slice
from firearrow.errors import FireArrowError, IllegalMessage
from firearrow.model.names import CHECK_MAX_TIME_TOPIC
from firearrow.protocol.conversation import Request
from firearrow.record.encode import Draft
from firearrow.runtime.clock import Clock
from firearrow.runtime.turn import Pace
from firearrow.store.placement import AppendPosition

AT_ONCE: Final = 64
"""Most half messages written again in one turn."""
BYTES_AT_ONCE: Final = 1 << 20
"""Half messages of one turn: no further one after so many bytes."""
READ_WAIT_S: Final = 1.0
"""The time that a round waits while no producer of any group reads; the rest is asked in the next round."""
LOOK_S: Final = 0.02
LOOKED_AT_ONCE: Final = 1_000
"""Most entries of the ledger looked at in one turn."""
FAR_BEHIND: Final = 100_000
"""A half message that waits is written again when so many have been stored since, because a restart reads them all."""
LEAST_AGE_MS: Final = 3_600_000
"""No half message is given up for its age before, however short the log is kept."""
HOUR_MS: Final = 3_600_000

log = logging.getLogger(__name__)

_Asked = tuple[Half, Draft, AppendPosition]


class Producers(Protocol):
    """The connected producers, as checks use them."""

    def is_reachable(self, group: str) -> bool:
        """Whether a producer of a group is connected."""
        ...

    def has_room(self, group: str) -> bool:
        """Whether a producer of a group keeps up with reading what it is sent."""
        ...

    def ask(self, group: str, turn: int, request: Request[Any], body: bytes) -> bool:
        """Send a request to one producer of a group, the next one in the next turn; return whether it was sent."""
        ...


class Checks:
    """The rounds of questions of one broker."""

    def __init__(
        self, journal: Journal, producers: Producers, topics: TopicBook, settings: LiveSettings, clock: Clock
    ) -> None:
        self._journal = journal
        self._producers = producers
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._unasked: set[int] = set()  # half messages whose counter was raised for a question that was not sent
        self._aside: dict[str, deque[Half]] = {}  # of groups whose producers do not read at the moment

    async def round(self) -> None:
        """Look at every pending half message once."""
        config, now_ms = self._settings.value.transactions, self._clock.now_ms()
        reserved_ms = max(self._settings.value.retention.file_reserved_time * HOUR_MS, LEAST_AGE_MS)
        ledger = self._journal.ledger
        far_behind = ledger.half_next - max(FAR_BEHIND, 2 * len(ledger.pending))
        self._unasked = {offset for offset in self._unasked if offset >= ledger.half_next or offset in ledger.pending}
        self._aside.clear()

        def judged(half: Half) -> Check:
            is_far_behind = half.queue_offset < far_behind
            is_reachable = self._producers.is_reachable(half.group)
            check = judge(half, now_ms, config, reserved_ms, is_reachable=is_reachable, is_far_behind=is_far_behind)
            if check is Check.ASK and not self._has_room(half.group):
                self._aside.setdefault(half.group, deque()).append(half)
                return Check.RENEW if is_far_behind else Check.WAIT
            return check

        await self._look(judged)
        await self._ask_aside(config.transaction_check_interval / 2000)

    async def renew_below(self, physical: int) -> None:
        """Write pending half messages below a physical offset again, and wait until they are durable."""
        await self._look(lambda half: Check.RENEW if half.physical < physical else Check.WAIT, for_retention=True)

    def drop_below(self, physical: int) -> None:
        """Give the pending half messages below a physical offset up for lost: the disk has no room for them."""
        journal = self._journal
        lost: Counter[str] = Counter()
        for half in list(journal.ledger.pending.values()):
            if half.physical < physical and journal.ledger.open_at(half.queue_offset) is half:
                lost[half.group] += 1
                journal.ledger.announce(half.queue_offset, Outcome.MOVED)
                journal.owed[half.queue_offset] = 0
        for group, count in lost.items():
            log.error(
                "%d half messages of group %s are LOST: their log file is deleted to save the disk, and the disk "
                "had no room to write them again",
                count,
                group,
                extra={"group": group, "messages": count},
            )

    async def _look(self, judged: Callable[[Half], Check], *, for_retention: bool = False) -> None:
        ledger, pace = self._journal.ledger, Pace(LOOKED_AT_ONCE)
        due: list[tuple[Half, Check]] = []
        for offset in range(ledger.half_done, ledger.half_next):  # those that this round writes are not looked at
            half = ledger.open_at(offset)
            check = Check.WAIT if half is None else judged(half)
            if half is not None and check is not Check.WAIT:
                due.append((half, check))
            if len(due) >= AT_ONCE or sum(one.size for one, _ in due) >= BYTES_AT_ONCE:
                await self._act(due, for_retention=for_retention)
                due = []
            await pace.did()
        if due:
            await self._act(due, for_retention=for_retention)

    async def _act(self, due: list[tuple[Half, Check]], *, for_retention: bool) -> None:
        records = await side_by_side(self._record, [half for half, _ in due])
        if any(check is Check.GIVE_UP for _, check in due):
            self._topics.ensure(CHECK_MAX_TIME_TOPIC, 1)
            await self._topics.kept(CHECK_MAX_TIME_TOPIC)
        work = Slice(self._journal)
        asked: list[_Asked] = []
        failure: FireArrowError | None = None
        for (half, check), record in zip(due, records, strict=True):
            # The transaction may have ended while the records were read.
            if self._journal.ledger.open_at(half.queue_offset) is half:
                try:
                    asked += self._carry_out(work, half, check, record, for_retention=for_retention)
                except FireArrowError as error:
                    failure = error
                    work.failed(error)
                    break
        self._unasked |= {place.queue_offset for _, _, place in asked}
        try:
            await work.kept(is_flushed=for_retention)
        except FireArrowError:
            # Other records will get the places of those that the log has undone.
            self._unasked -= {place.queue_offset for _, _, place in asked if place.end > self._journal.tail}
            raise
        self._ask(asked)
        if failure is not None:
            raise failure

    def _ask(self, asked: list[_Asked]) -> None:
        """Send questions. Not before their records are kept: an answer must not meet another record at that place."""
        for half, draft, place in asked:
            turn = half.born_ms + half.checks
            if self._producers.ask(half.group, turn, *question(draft, place)):
                self._unasked.discard(place.queue_offset)

    def _has_room(self, group: str) -> bool:
        """Whether a producer of a group can be sent a question now; a group that was set aside waits for its turn."""
        return group not in self._aside and self._producers.has_room(group)

    async def _ask_aside(self, most_s: float) -> None:
        """Ask the groups that were set aside, side by side: while one of them reads, and for ``most_s`` at most."""
        loop = asyncio.get_running_loop()
        begun_s = read_s = loop.time()
        while self._aside and loop.time() - read_s < READ_WAIT_S and loop.time() - begun_s < most_s:
            due = await self._readable()
            if due:
                await self._act(due, for_retention=False)
                read_s = loop.time()
            else:
                await asyncio.sleep(LOOK_S)

    async def _readable(self) -> list[tuple[Half, Check]]:
        """Take half messages of the groups that read, as many as a turn may write; the groups take turns."""
        pace, due, size = Pace(LOOKED_AT_ONCE), list[tuple[Half, Check]](), 0
        for group in list(self._aside):
            await pace.did()
            if not self._producers.has_room(group):
                continue
            halves = self._aside.pop(group)
            half = halves.popleft()
            due.append((half, Check.ASK))
            size += half.size
            if halves:
                self._aside[group] = halves  # behind the other groups
            if len(due) >= AT_ONCE or size >= BYTES_AT_ONCE:
                break
        return due

    async def _record(self, half: Half) -> HalfRecord | Outcome | None:
        """Return the record of a half message, or COMMITTED when its final message is there."""
        record = await self._journal.record_of(half)
        return Outcome.COMMITTED if record is not None and await self._journal.has_final(record) else record

    def _carry_out(
        self, work: Slice, half: Half, check: Check, record: HalfRecord | Outcome | None, *, for_retention: bool
    ) -> list[_Asked]:
        """Append what becomes of a half message; return the question to send after the write, if there is one."""
        offset = half.queue_offset
        if record is None:
            log.error(
                "the half message at %d is damaged or deleted: its transaction of group %s is dropped",
                offset,
                half.group,
                extra={"offset": offset, "group": half.group},
            )
            work.over(offset, Outcome.MOVED)
        elif isinstance(record, Outcome):
            work.over(offset, record)
        elif check is Check.GIVE_UP:
            self._give_up(work, half, record)
        else:
            return self._renew(work, half, check, record, for_retention=for_retention)
        return []

    def _renew(self, work: Slice, half: Half, check: Check, record: HalfRecord, *, for_retention: bool) -> list[_Asked]:
        offset = half.queue_offset
        draft = renewed(record, half.checks + (check is Check.ASK and offset not in self._unasked))
        try:
            place = self._journal.append(draft, even_if_full=for_retention)
        except IllegalMessage as error:
            log.warning(
                "the half message at %d of group %s cannot be written again: %s",
                offset,
                half.group,
                error,
                extra={"offset": offset, "group": half.group, "reason": str(error)},
            )
            if for_retention:
                self._give_up(work, half, record)
            return [(half, *as_stored(record))] if check is Check.ASK else []
        work.over(offset, Outcome.MOVED, place.end)
        return [(half, draft, place)] if check is Check.ASK else []

    def _give_up(self, work: Slice, half: Half, record: HalfRecord) -> None:
        end = 0
        self._topics.ensure(CHECK_MAX_TIME_TOPIC, 1)
        try:
            end = self._journal.append(given_up(record), even_if_full=True).end
            becomes = f"moved to {CHECK_MAX_TIME_TOPIC}"
        except IllegalMessage as error:
            becomes = f"LOST, because it cannot be written again: {error}"
        work.over(half.queue_offset, Outcome.GIVEN_UP, end)
        log.log(
            logging.WARNING if end else logging.ERROR,
            "a transaction of group %s is given up after %d questions; its message is %s",
            half.group,
            half.checks,
            becomes,
            extra={"group": half.group, "offset": half.queue_offset, "checks": half.checks},
        )

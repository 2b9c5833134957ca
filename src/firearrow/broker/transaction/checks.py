"""Checks: asks producers for the state of transactions that nobody has ended.

A round looks at every pending half message. One that is due is written again at the end of the half queue with its
counter raised, and a producer of its group is asked about that new record; the op message for the old one follows. So
the queue moves on, and the counter survives a restart. After ``transactionCheckMax`` questions, or when it is older
than the log is kept, the message is moved to TRANS_CHECK_MAX_TIME_TOPIC.
Java: ``TransactionalMessageServiceImpl.check``.

A pending half message is not lost to retention: before a log file is deleted, the pending half messages in it are
written again (`renew_below`), with the counter as it is. That is at most as much as the file held, and ends with the
age at which they are given up.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.topic_book import Topics
from firearrow.broker.transaction.decisions import Check, judge
from firearrow.broker.transaction.half import given_up, question, renewed
from firearrow.broker.transaction.journal import Journal, Record
from firearrow.broker.transaction.ledger import Half, Outcome
from firearrow.errors import FireArrowError
from firearrow.model.names import CHECK_MAX_TIME_TOPIC
from firearrow.protocol.conversation import Request
from firearrow.record.encode import Draft
from firearrow.runtime.clock import Clock
from firearrow.store.pacing import Pace
from firearrow.store.placement import Appended

AT_ONCE: Final = 64
"""Most half messages written again in one turn."""
LOOKED_AT_ONCE: Final = 1_000
"""Most entries of the ledger looked at in one turn."""
FAR_BEHIND: Final = 100_000
"""A half message that waits is written again when so many have been stored since, because a restart reads them all."""
LEAST_AGE_MS: Final = 3_600_000
"""No half message is given up for its age before, however short the log is kept."""
HOUR_MS: Final = 3_600_000

log = logging.getLogger(__name__)

_Asked = tuple[str, Draft, Appended]


class Producers(Protocol):
    """The connected producers, as checks use them."""

    def is_reachable(self, group: str) -> bool:
        """Whether a producer of a group is connected."""
        ...

    def ask(self, group: str, request: Request[Any], body: bytes) -> bool:
        """Send a request to one producer of a group; return whether one could be sent to."""
        ...


class Checks:
    """The rounds of questions of one broker."""

    def __init__(
        self, journal: Journal, producers: Producers, topics: Topics, settings: LiveSettings, clock: Clock
    ) -> None:
        self._journal = journal
        self._producers = producers
        self._topics = topics
        self._settings = settings
        self._clock = clock

    async def round(self) -> None:
        """Look at every pending half message once."""
        config, now_ms = self._settings.value.transactions, self._clock.now_ms()
        reserved_ms = max(self._settings.value.retention.file_reserved_time * HOUR_MS, LEAST_AGE_MS)
        ledger = self._journal.ledger
        far_behind = ledger.half_next - max(FAR_BEHIND, 2 * len(ledger.pending))

        def judged(half: Half) -> Check:
            return judge(
                half,
                now_ms,
                config,
                reserved_ms,
                is_reachable=self._producers.is_reachable(half.group),
                is_far_behind=half.queue_offset < far_behind,
            )

        await self._look(judged)

    async def renew_below(self, physical: int) -> None:
        """Write pending half messages below a physical offset again, and wait until they are durable."""
        await self._look(lambda half: Check.RENEW if half.physical < physical else Check.WAIT, for_retention=True)

    async def _look(self, judged: Callable[[Half], Check], *, for_retention: bool = False) -> None:
        ledger, pace = self._journal.ledger, Pace(LOOKED_AT_ONCE)
        due: list[tuple[Half, Check]] = []
        for offset in range(ledger.half_done, ledger.half_next):  # those that this round writes are not looked at
            half = ledger.open_at(offset)
            check = Check.WAIT if half is None else judged(half)
            if half is not None and check is not Check.WAIT:
                due.append((half, check))
            if len(due) >= AT_ONCE:
                await self._act(due, for_retention=for_retention)
                due = []
            await pace.did()
        if due:
            await self._act(due, for_retention=for_retention)

    async def _act(self, due: list[tuple[Half, Check]], *, for_retention: bool) -> None:
        records = [await self._record(half) for half, _ in due]
        if any(check is Check.GIVE_UP for _, check in due):
            self._topics.ensure(CHECK_MAX_TIME_TOPIC, 1)
            await self._topics.kept(CHECK_MAX_TIME_TOPIC)
        over: list[int] = []
        asked: list[_Asked] = []
        try:
            for (half, check), record in zip(due, records, strict=True):
                # The transaction may have ended while the records were read.
                if self._journal.ledger.open_at(half.queue_offset) is half:
                    asked += self._carry_out(half, check, record, for_retention=for_retention)
                    over.append(half.queue_offset)
        finally:
            end = self._journal.end(over)
        try:
            await self._journal.kept(end, is_flushed=for_retention)
        except FireArrowError:
            for offset in over:
                self._journal.ledger.take_back(offset)
            raise
        for group, draft, place in asked:
            # Asked only now: an answer must not meet another record at that place.
            self._producers.ask(group, *question(draft, place))

    async def _record(self, half: Half) -> Record | Outcome | None:
        """Return the record of a half message, or COMMITTED when its final message is there."""
        record = await self._journal.record_of(half)
        return Outcome.COMMITTED if record is not None and await self._journal.has_final(record) else record

    def _carry_out(
        self, half: Half, check: Check, record: Record | Outcome | None, *, for_retention: bool
    ) -> list[_Asked]:
        """Append what becomes of a half message; return the question to send after the write, if there is one."""
        ledger, offset = self._journal.ledger, half.queue_offset
        if record is None:
            log.error(
                "the half message at %d is damaged or deleted: its transaction of group %s is dropped",
                offset,
                half.group,
                extra={"offset": offset, "group": half.group},
            )
            ledger.announce(offset, Outcome.MOVED)
            return []
        if isinstance(record, Outcome):
            ledger.announce(offset, record)
            return []
        head, data = record
        if check is Check.GIVE_UP:
            self._journal.append(given_up(head, data))
            ledger.announce(offset, Outcome.MOVED)
            log.warning(
                "a transaction of group %s is given up after %d questions and moved to %s",
                half.group,
                half.checks,
                CHECK_MAX_TIME_TOPIC,
                extra={"group": half.group, "offset": offset, "checks": half.checks},
            )
            return []
        draft = renewed(head, data, half.checks + (check is Check.ASK))
        place = self._journal.append(draft, even_if_full=for_retention)
        ledger.announce(offset, Outcome.MOVED)
        return [(half.group, draft, place)] if check is Check.ASK else []

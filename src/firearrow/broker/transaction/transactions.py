"""Transactions of a broker. Wiring, and two tasks: one replays the log and ends transactions, the other asks producers.

Call `open` after the table of offsets is loaded and before the broker serves. A request to end a transaction that comes
before everything is replayed waits until it is.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from firearrow.broker.gate.gate import Gate
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.clients import ClientTable
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.transaction.checks import Checks
from firearrow.broker.transaction.ends import EndRequests
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Outcome
from firearrow.broker.transaction.producers import ConnectedProducers
from firearrow.errors import FireArrowError
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.remoting.handlers import Later
from firearrow.runtime.clock import Clock
from firearrow.runtime.turn import Pace
from firearrow.store.placement import Rows
from firearrow.store.store import Store
from firearrow.telemetry.damped import DampedEvents

RETRY_S: Final = 1.0
LOOKED_AT_ONCE: Final = 1_000
"""Half messages looked at before the loop runs."""

log = logging.getLogger(__name__)


class Transactions:
    """Half messages of one broker, from the send to the end."""

    kept = "half messages"

    def __init__(
        self,
        journal: Journal,
        *,
        settings: LiveSettings,
        clock: Clock,
        gate: Gate,
        clients: ClientTable,
        topics: TopicBook,
        store: Store,
    ) -> None:
        self._settings = settings
        self.journal = journal
        self.ends = EndRequests(self.journal, settings, clock, gate)
        self.producers: Final = ConnectedProducers(clients)
        self.checks = Checks(self.journal, self.producers, topics, settings, clock)
        self._wanted = asyncio.Event()
        self._failures = DampedEvents()
        self._caught_up = asyncio.Event()
        self._changed = asyncio.Event()
        self.journal.on_taken_back = self._wanted.set
        settings.on_change.append(self._changed.set)
        self._store = store

    def open(self) -> None:
        """Begin at the stored offsets."""
        self.journal.open()
        self._store.views.dispatch.watch(self.journal.queues, self._arrived)
        self._store.retention.keepers.all.append(self)
        self._wanted.set()

    def _arrived(self, _rows: Rows) -> None:
        if self.journal.has_news:
            self._wanted.set()

    def end(self, request: EndTransaction, outcome: Outcome, later: Later | None) -> None:
        """Take a request to end a transaction; it is answered when its effect is kept."""
        self.ends.add(request, outcome, later)
        self._wanted.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._fold_and_end())
                group.create_task(self._ask())
        finally:
            self.ends.close()

    async def _fold_and_end(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.journal.catch_up()
                self._caught_up.set()
                await self.ends.serve()
                if self.journal.owed:
                    asyncio.get_running_loop().call_later(RETRY_S, self._wanted.set)
            except FireArrowError as error:
                now, values = asyncio.get_running_loop().time(), {"reason": str(error)}
                self._failures.warn(log, now, f"transactions wait: {error}", values)
                self._wanted.set()
                await asyncio.sleep(RETRY_S)

    async def _ask(self) -> None:
        while True:
            await self._interval()
            await self._caught_up.wait()
            try:
                await self.checks.round()
            except FireArrowError as error:
                log.warning("transactions could not be checked: %s", error, extra={"reason": str(error)})

    async def _interval(self) -> None:
        """Wait for ``transactionCheckInterval``, which may change meanwhile."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (rest := began + self._settings.value.transactions.transaction_check_interval / 1000 - loop.time()) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), rest)

    async def caught_up(self) -> None:
        """Wait until everything that was there at the start is replayed."""
        await self._caught_up.wait()

    # ---- as a keeper of the store; Apache deletes pending half messages with their files

    async def pending_bytes(self, start: int, end: int) -> int:
        """Return the size of the pending half messages between two physical offsets."""
        await self._caught_up.wait()
        size, pace = 0, Pace(LOOKED_AT_ONCE)
        for half in list(self.journal.ledger.pending.values()):
            size += half.size if start <= half.physical < end else 0
            await pace.did()
        return size

    async def renew_below(self, physical: int) -> None:
        """Write the pending half messages below a physical offset again, durably."""
        await self._caught_up.wait()
        await self.checks.renew_below(physical)

    async def drop_below(self, physical: int) -> None:
        """Give the pending half messages below a physical offset up for lost."""
        self.checks.drop_below(physical)

"""Transactions of a broker. Wiring, and the two tasks: one folds and ends, the other asks.

Call `open` after the table of offsets is loaded and before the broker serves. A request to end a transaction that comes
before everything is folded waits for that.
"""

import asyncio
import logging
from typing import Final

from firearrow.broker.tables.tables import Tables
from firearrow.broker.transaction.checks import Checks
from firearrow.broker.transaction.ends import Ends
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Outcome
from firearrow.broker.transaction.producers import ConnectedProducers
from firearrow.errors import FireArrowError
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.remoting.handlers import Later
from firearrow.store.placement import Rows

RETRY_S: Final = 1.0

log = logging.getLogger(__name__)


class Transactions:
    """Half messages of one broker, from the send to the end."""

    def __init__(self, tables: Tables) -> None:
        self._settings = tables.settings
        self.journal = Journal(tables)
        self.ends = Ends(self.journal, tables.settings, tables.clock)
        self.checks = Checks(
            self.journal, ConnectedProducers(tables.clients), tables.topics, tables.settings, tables.clock
        )
        self._wanted = asyncio.Event()
        self._caught_up = asyncio.Event()
        tables.store.views.dispatch.views.append(self._arrived)
        tables.store.retention.before_delete.append(self._before_delete)

    def open(self) -> None:
        """Begin at the stored offsets."""
        self.journal.open()
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
            except FireArrowError as error:
                log.warning("transactions wait: %s", error, extra={"reason": str(error)})
                self._wanted.set()
                await asyncio.sleep(RETRY_S)

    async def _ask(self) -> None:
        while True:
            await asyncio.sleep(self._settings.value.transactions.transaction_check_interval / 1000)
            await self._caught_up.wait()
            try:
                await self.checks.round()
            except FireArrowError as error:
                log.warning("transactions could not be checked: %s", error, extra={"reason": str(error)})

    async def _before_delete(self, physical: int) -> None:
        """Keep the pending half messages of log files that are about to be deleted."""
        await self._caught_up.wait()
        await self.checks.renew_below(physical)

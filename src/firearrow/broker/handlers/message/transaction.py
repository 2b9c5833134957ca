"""Ends of transactions, and half messages that are to be asked about again. Java: ``EndTransactionProcessor``,
``AdminBrokerProcessor.resumeCheckHalfMessage``.

A request that says nothing about the outcome is only answered: the broker asks for it later. Apache's broker does not
even answer it, so a producer that waits for an answer waits until its timeout.
"""

from firearrow.broker.jobs import Jobs
from firearrow.broker.transaction.ends import OUTCOMES
from firearrow.broker.transaction.half_record import Record
from firearrow.broker.transaction.resumption import resume
from firearrow.broker.transaction.transactions import Transactions
from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import EndTransaction, ResumeCheckHalfMessage
from firearrow.remoting.handlers import Call, Handlers, Later
from firearrow.store.read.lookup import Lookups


class TransactionHandlers:
    """Takes the ends of transactions from producers."""

    def __init__(self, transactions: Transactions, lookups: Lookups, jobs: Jobs) -> None:
        self._transactions = transactions
        self.ends = transactions.ends
        """The requests that wait."""
        self._lookups = lookups
        self._jobs = jobs

    def open(self) -> None:
        """Begin at the stored offsets."""
        self._transactions.open()

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._transactions.run()

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(EndTransaction, self.end)
        handlers.on(ResumeCheckHalfMessage, self.resume, urgent=True)

    def end(self, request: EndTransaction, call: Call) -> Later | None:
        """Commit a transaction or roll it back."""
        outcome = OUTCOMES.get(request.commit_or_rollback)
        if outcome is None:
            return None
        later = None if call.asked.heading.flag & ONEWAY_FLAG else call.later()
        self._transactions.end(request, outcome, later)
        return later

    def resume(self, request: ResumeCheckHalfMessage, call: Call) -> Later:
        """Ask about a half message again, from the first question on."""
        return self._jobs.do(call, self._resume(request.msg_id or ""))

    async def _resume(self, message_id: str) -> None:
        try:
            await self._transactions.caught_up()
            record = Record.read(await self._lookups.by_message_id(message_id))
            await resume(self._transactions.journal, record)
        except FireArrowError as error:
            if isinstance(error, Refused):
                raise
            remark = f"Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC. ({error})"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error

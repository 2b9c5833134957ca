"""Ends of transactions, and half messages that are to be asked about again. Java: ``EndTransactionProcessor``,
``AdminBrokerProcessor.resumeCheckHalfMessage``.

A request that says nothing about the outcome is only answered: the broker asks for it later. Apache's broker does not
even answer it, so a producer that waits for an answer waits until its timeout.
"""

from firearrow.broker.gate.gate import NOTHING_PLACED, Gate, KeptAnswer
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.transaction.ends import OUTCOMES
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.resumption import resume
from firearrow.broker.transaction.transactions import Transactions
from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import EndTransaction, ResumeCheckHalfMessage
from firearrow.remoting.handlers import Call, Handlers
from firearrow.store.store import Store


class TransactionHandlers:
    """Takes the ends of transactions from producers."""

    def __init__(self, transactions: Transactions, *, gate: Gate, store: Store, lanes: Lanes) -> None:
        self._transactions = transactions
        self._gate = gate
        self.ends = transactions.ends
        """The requests that wait."""
        self._lookups = store.lookups
        self._lanes = lanes

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(EndTransaction, self.end)
        kept.on(ResumeCheckHalfMessage, self.resume, urgent=True)

    def end(self, request: EndTransaction, call: Call) -> KeptAnswer:
        """Commit a transaction or roll it back."""
        outcome = OUTCOMES.get(request.commit_or_rollback)
        if outcome is None:
            return NOTHING_PLACED
        later = None if call.asked.heading.flag & ONEWAY_FLAG else call.later()
        self._transactions.end(request, outcome, later)
        return NOTHING_PLACED if later is None else self._gate.owed(later)

    def resume(self, request: ResumeCheckHalfMessage, call: Call) -> KeptAnswer:
        """Ask about a half message again, from the first question on."""
        return self._gate.job(self._lanes.do, call, WaitKind.CHANGE, self._resume(request.msg_id or "", call))

    async def _resume(self, message_id: str, call: Call) -> KeptAnswer:
        try:
            await self._transactions.caught_up()
            record = HalfRecord.read(await self._lookups.by_message_id(message_id))
            self._gate.check()
            end = await resume(self._transactions.journal, record)
        except FireArrowError as error:
            if isinstance(error, Refused):
                raise
            remark = f"Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC. ({error})"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
        return self._gate.placed(call, end)

"""What a slave refuses: everything that would write its log.

Sends and messages given back get SYSTEM_BUSY, so that a producer sends elsewhere; ends of transactions get
SLAVE_NOT_AVAILABLE. Java: ``SendMessageProcessor.rejectRequest``, ``EndTransactionProcessor``.
"""

from typing import Final, NoReturn

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import (
    ConsumerSendMsgBack,
    RecallMessage,
    SendBatchMessage,
    SendMessage,
    SendMessageV2,
)
from firearrow.protocol.requests.transaction.transaction import EndTransaction, ResumeCheckHalfMessage
from firearrow.remoting.handlers import Call, Handlers

BUSY: Final = (
    "[REJECTREQUEST]system busy, start flow control for a while: this broker is a slave and takes no messages; "
    "send to its master"
)


class SlaveRefusals:
    """Refuses requests that only a master serves."""

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(SendMessage, self.busy)
        handlers.on(SendMessageV2, self.busy)
        handlers.on(SendBatchMessage, self.busy)
        handlers.on(ConsumerSendMsgBack, self.busy)
        handlers.on(RecallMessage, self.busy)
        handlers.on(EndTransaction, self.not_available)
        handlers.on(ResumeCheckHalfMessage, self.not_available)

    def busy(self, _request: object, _call: Call) -> NoReturn:
        """Refuse a message."""
        raise Refused(ResponseCode.SYSTEM_BUSY, BUSY)

    def not_available(self, _request: object, _call: Call) -> NoReturn:
        """Refuse the end of a transaction."""
        remark = "Message store is slave mode, so end transaction is forbidden. End it at the master"
        raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, remark)

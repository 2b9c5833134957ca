"""Two-phase messages. Java: ``header.EndTransactionRequestHeader``, ``CheckTransactionStateRequestHeader``."""

from typing import ClassVar

from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Int32, Request


class EndTransaction(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Commit (8) or roll back (12) a half message; usually one-way."""

    code: ClassVar[RequestCode] = RequestCode.END_TRANSACTION
    topic: str | None = None
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class CheckTransactionState(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One-way, broker to producer: return the state of the half message whose record is the body."""

    code: ClassVar[RequestCode] = RequestCode.CHECK_TRANSACTION_STATE
    request_body = bytes
    topic: str | None = None
    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessage(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Check a half message again after the broker gave up checking it."""

    code: ClassVar[RequestCode] = RequestCode.RESUME_CHECK_HALF_MESSAGE
    topic: str | None = None
    msg_id: str | None = None

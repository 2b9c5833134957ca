"""Locking queues, for ordered consumption. Java: ``header.LockBatchMqRequestHeader`` and its neighbour."""

from typing import ClassVar

from firearrow.protocol.bodies.group.lock import LockBatchBody, LockedQueues
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Request


class LockBatchMq(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Lock queues for one client of a group."""

    code: ClassVar[RequestCode] = RequestCode.LOCK_BATCH_MQ
    request_body = LockBatchBody
    answer_body = LockedQueues


class UnlockBatchMq(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Release the locks on queues."""

    code: ClassVar[RequestCode] = RequestCode.UNLOCK_BATCH_MQ
    request_body = LockBatchBody

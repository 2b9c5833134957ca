"""Locking queues for ordered consumption. Java: ``remoting.protocol.body.LockBatchRequestBody`` and neighbours."""

import msgspec

from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import Body, always, empty_list


class LockBatchBody(Body, frozen=True, kw_only=True):
    """The queues that a client wants to lock or unlock; both requests have the same body."""

    client_id: str | None = None
    consumer_group: str | None = None
    mq_set: list[MessageQueue] = empty_list()
    only_this_broker: bool = always(False)


class LockedQueues(Body, frozen=True, kw_only=True):
    """The queues that the client holds now. Java: ``LockBatchResponseBody``."""

    locked: list[MessageQueue] = msgspec.field(name="lockOKMQSet", default_factory=lambda: [])  # noqa: PIE807

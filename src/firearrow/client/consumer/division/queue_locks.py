"""Queue locks for ordered consumption: at most one member of a group reads a queue.

A broker's lock is a lease of 60 s from its last renewal; the client renews it every 20 s and trusts it for 30 s. Only
masters grant locks. Java: ``RebalanceImpl.lock``, ``lockAll``, ``unlock``.
"""

import logging
from collections.abc import Iterable
from typing import Final

from firearrow import fastjson
from firearrow.client.instance import Instance
from firearrow.errors import FireArrowError
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.lock import LockBatchBody, LockedQueues
from firearrow.protocol.requests.group.lock import LockBatchMq, UnlockBatchMq

log: Final = logging.getLogger(__name__)

RENEW_S: Final = 20.0
TRUST_S: Final = 30.0
LOCK_TIMEOUT_MS: Final = 1000


class LockClient:
    """Locks and unlocks queues for one client."""

    def __init__(self, instance: Instance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues or renew their locks; return the queues that this client holds now."""
        ours: set[MessageQueue] = set()
        for broker, some in _by_broker(queues).items():
            address = self._instance.routes.master(broker)
            if address is None:
                continue
            try:
                reply = await self._instance.caller.call(
                    address, LockBatchMq(), self._body(some), timeout_ms=LOCK_TIMEOUT_MS
                )
                ours.update(fastjson.decode(reply.body, LockedQueues).locked)
            except FireArrowError as error:
                extra = {"broker": broker, "reason": str(error)}
                log.warning("%d queues of %s could not be locked: %s", len(some), broker, error, extra=extra)
        return ours

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release the locks of queues."""
        for broker, some in _by_broker(queues).items():
            address = self._instance.routes.master(broker)
            if address is None:
                continue
            try:
                await self._instance.caller.call(address, UnlockBatchMq(), self._body(some), timeout_ms=LOCK_TIMEOUT_MS)
            except FireArrowError as error:
                extra = {"broker": broker, "reason": str(error)}
                log.warning("%d queues of %s could not be unlocked: %s", len(some), broker, error, extra=extra)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        body = LockBatchBody(client_id=self._instance.id, consumer_group=self._group, mq_set=queues)
        return encode_body(body)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    brokers: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        brokers.setdefault(queue.broker_name, []).append(queue)
    return brokers

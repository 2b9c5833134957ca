"""One slave at a master without a coordinator: its log is compared with the master's before it is served.

A slave of ours says what it has by `ha_stream`, and who it is: a connection that it left half open gives way to its
new one. Slaves of Apache's report a length and nothing else, so only lengths are compared, and connections from one
machine count as one replica.
"""

import asyncio
import logging

from firearrow.broker.replication.decisions import refusal_of
from firearrow.broker.replication.feed import Feed, FeedOwner, SentLog
from firearrow.broker.replication.log_digest import verdict_on
from firearrow.errors import FireArrowError
from firearrow.protocol.ha_stream import ASKS, Claim, ClaimVerdict, decode_opening, heartbeat

log = logging.getLogger(__name__)


class ComparedFeed(Feed):
    """The stream to one slave, whose log is compared first."""

    def __init__(self, sent: SentLog, batch_bytes: int, feeds: FeedOwner) -> None:
        super().__init__(sent, batch_bytes, feeds)
        self._opening = b""
        self._has_asked = False
        self._is_open = False
        self._claimed: asyncio.Future[Claim | None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Take the opening, then reports."""
        if self._is_open:
            super().data_received(data)
            return
        self.read_s = asyncio.get_running_loop().time()
        self._opening += data
        found = decode_opening(self._opening)
        if found.asks and not self._has_asked:
            self._has_asked = True
            self._write([heartbeat(ASKS), heartbeat(self._sent.bounds.start)])
        if found.skips:
            said = "slave %s went on without a comparison of the logs and is not served; it tries again"
            log.warning(said, self.address, extra={"slave": self.address})
            self.abort()
        elif found.is_plain:
            self._open(None)
        elif found.claim is not None and not self._claimed.done():
            self._claimed.set_result(found.claim)

    def _open(self, claim: Claim | None) -> None:
        """Take reports from now on."""
        self._is_open = True
        if claim is None:
            self._claimed.set_result(None)
            super().data_received(self._opening)
        self._opening = b""

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        if not self._claimed.done():
            self._claimed.cancel()
        super().connection_lost(error)

    async def run(self) -> None:
        """Compare the logs, then send this one until cancelled or until it cannot serve the slave."""
        claim = await self._claimed
        if claim is None or await self._agrees(claim):
            await super().run()

    async def _agrees(self, claim: Claim) -> bool:
        try:
            verdict = await verdict_on(self._sent, claim)
        except FireArrowError as error:
            log.warning("the log of slave %s is not compared: %s", self.address, error, extra={"slave": self.address})
            self.abort()
            return False
        if verdict is not ClaimVerdict.AGREES:
            refusal = refusal_of(verdict, claim.end, self._sent.bounds)
            log.warning("slave %s is not served: %s", self.address, refusal, extra={"slave": self.address})
            self._write([heartbeat(verdict)])
            self.hang_up()
            return False
        self.identity = claim.identity
        self._feeds.identified(self)
        self._open(claim)
        self._write([heartbeat(verdict)])
        return True

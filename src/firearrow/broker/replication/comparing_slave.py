"""A slave without a coordinator: its log is compared with the master's before it copies on.

A master that does not answer the first report within `FIRST_BYTE_S` is Apache's, and only the two lengths are compared
there, by that master.
"""

import asyncio
import logging
import random
from hashlib import blake2b

from firearrow.broker.replication.decisions import LogBounds, refusal_of
from firearrow.broker.replication.log_digest import claim_of
from firearrow.broker.replication.master import SentStore
from firearrow.broker.replication.slave import FIRST_BYTE_S, MasterLink, Slave
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import BadFrame, ConnectionLost, OffsetNotStored
from firearrow.protocol.ha_stream import ASKS, FROM_FIRST_BYTE, ClaimVerdict, LogSpan, Spans, encode_claim
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.network import Address, Network
from firearrow.store.epochs.directory_number import directory_number
from firearrow.store.store import Store

log = logging.getLogger(__name__)


class ComparingSlave(Slave):
    """Copies the log of a master that the settings or name servers tell."""

    def __init__(
        self, network: Network, *, store: Store, settings: LiveSettings, clock: Clock, disk: Disk, chance: random.Random
    ) -> None:
        super().__init__(store, settings, network, clock)
        self._disk = disk
        self._chance = chance
        self._sent = SentStore(store, settings)
        self._is_older = False
        """Whether the master, when it was last connected, sent its log without a comparison."""

    def found(self, address: Address) -> None:
        """Follow the master at this address; the one in ``haMasterAddress`` always counts."""
        before = self.address
        super().found(address)
        if self.is_connected and self.address != before:
            said = "the master is at %s now: its log and tables are copied when the connection to %s has ended"
            log.warning(said, self.address, before, extra={"master": str(self.address)})

    async def _receive(self, link: MasterLink) -> None:
        if self._is_older:
            self._is_older = False
            log.info("the master at %s compares no logs; only their lengths are compared", self.address)
            self.agreement.reached(is_compared=False)
        elif not await self._compare(link):
            return
        await super()._receive(link)

    async def _compare(self, link: MasterLink) -> bool:
        """Let the master compare the logs; return False where the connection must begin anew without that."""
        await self._kept_end()
        self._report(link, FROM_FIRST_BYTE)
        arriving = _Heartbeats(link)
        try:
            async with asyncio.timeout(FIRST_BYTE_S):
                asked = await arriving.next()
        except TimeoutError:
            self.agreement.reached(is_compared=False)
            return True
        if asked.offset != ASKS or asked.data:
            self._is_older = True
            return False
        master_start = (await self._in_time(arriving)).offset
        claim = await claim_of(self._sent, await self._identity(), master_start)
        link.send(encode_claim(claim))
        verdict = (await self._in_time(arriving)).offset
        if verdict != ClaimVerdict.AGREES:
            bounds = LogBounds(master_start, -1, self._sent.bounds.segment_bytes)
            raise OffsetNotStored(refusal_of(_known(verdict), claim.end, bounds))
        self.agreement.reached(is_compared=True)
        return True

    async def _in_time(self, arriving: "_Heartbeats") -> LogSpan:
        silence_s = self._settings.value.replication.ha_housekeeping_interval / 1000
        try:
            async with asyncio.timeout(silence_s):
                return await arriving.next()
        except TimeoutError:
            raise ConnectionLost(f"the master was silent for {silence_s:g} s") from None

    async def _identity(self) -> int:
        """Return a number of this slave: of its directory and, because directories are copied, of its ``brokerId``."""
        directory = await directory_number(self._disk, self._chance)
        text = f"{directory} {self._settings.broker.broker_id}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


class _Heartbeats:
    """The first spans of a connection, one at a time."""

    def __init__(self, link: MasterLink) -> None:
        self._link = link
        self._spans = Spans()
        self._found: list[LogSpan] = []

    async def next(self) -> LogSpan:
        while not self._found:
            await self._link.arrived()
            for piece in self._link.take():
                self._found += self._spans.feed(piece)
        return self._found.pop(0)


def _known(verdict: int) -> ClaimVerdict:
    try:
        return ClaimVerdict(verdict)
    except ValueError:
        raise BadFrame(f"the master answered {verdict} to the comparison of the logs; check haMasterAddress") from None

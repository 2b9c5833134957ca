"""The slave's side of replication: fetches the master's log and appends it to its own, and reports how far it is.

A report is an acknowledgement: it leaves when the bytes are written or, under SYNC_FLUSH, synced. After a lost
connection the slave connects again and goes on behind its last whole record. Java: ``DefaultHAClient``, which reports
what it has received.
"""

import asyncio
import logging
from typing import Final, cast

from firearrow.broker.replication.agreement import Agreement
from firearrow.broker.replication.rate import Rate
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import ConnectionLost, FireArrowError
from firearrow.protocol.ha_stream import FROM_FIRST_BYTE, Spans, joined, report
from firearrow.runtime.clock import Clock
from firearrow.runtime.network import Address, Network
from firearrow.store.store import Store
from firearrow.telemetry.damped import DampedEvents

RECONNECT_S: Final = 1.0
FIRST_BYTE_S: Final = 1.0
"""The time that an empty slave waits for a master that sends from its first byte; Apache's ignores that wish."""
BUFFERED_BYTES: Final = 4 << 20
"""Received bytes that may wait before the connection is paused."""

log = logging.getLogger(__name__)


class Slave:
    """Keeps a copy of its master's log."""

    def __init__(self, store: Store, settings: LiveSettings, network: Network, clock: Clock) -> None:
        self._log = store.log
        self._copy = store.copy
        self._settings = settings
        self._network = network
        self._found = asyncio.Event()
        self._failures = DampedEvents()
        self._pause_s = RECONNECT_S
        self.address: Address | None = None
        """The address at which the master sends its log; None while unknown."""
        self.read_ms = self.wrote_ms = 0
        """The times of the last data from the master and of the last report to it, in ms since 1970; 0 for never."""
        self.rate = Rate()
        """The bytes that were received."""
        self.master_flushed = 0
        """The offset up to which the master's log is on disk, as an operator said; 0 when none did."""
        self.is_connected = False
        self.agreement: Final = Agreement(lambda: self._copy.end)
        self._now_ms = clock.now_ms
        self._reported_s = 0.0
        given = settings.value.replication.ha_master_address
        if given:
            self.found(Address.parse(given))

    def found(self, address: Address) -> None:
        """Follow the master at this address; the one in ``haMasterAddress`` always counts."""
        given = self._settings.value.replication.ha_master_address
        self.address = self.agreement.followed = Address.parse(given) if given else address
        self._found.set()

    def rest(self) -> None:
        """Begin no other connection until a master is found again."""
        self._found.clear()

    async def run(self) -> None:
        """Copy the log until cancelled."""
        while True:
            await self._found.wait()
            assert self.address is not None
            try:
                await self._follow(self.address)
            except FireArrowError as error:
                self._failed(error)
            self.is_connected = False
            self.agreement.over()
            await asyncio.sleep(self._pause_s)

    def _failed(self, error: FireArrowError) -> None:
        repeated = self._failures.count(asyncio.get_running_loop().time())
        if repeated:
            extra = {"master": str(self.address), "reason": str(error), "end": self._copy.end}
            log.warning("the log of master %s is not copied for now: %s", self.address, error, extra=extra)

    async def _follow(self, address: Address) -> None:
        link = MasterLink()
        transport = await self._network.connect(lambda: link, address)
        try:
            self._copy.interrupted()
            self.is_connected = True
            self.agreement.begun(address)
            log.info("copies the log of %s from %d on", address, self._copy.end, extra={"master": str(address)})
            await self._receive(link)
        finally:
            transport.abort()

    async def _receive(self, link: "MasterLink") -> None:
        config = self._settings.value.replication
        silence_s = config.ha_housekeeping_interval / 1000
        pause_s = min(self._heartbeat_s, silence_s)
        loop, spans = asyncio.get_running_loop(), Spans()
        is_new = self._copy.end == 0
        self._report(link, FROM_FIRST_BYTE if is_new else await self._kept_end())
        heard = loop.time()
        while True:
            try:
                # A timeout costs more than what it guards here, so none is set for what has come already.
                if not link.has_pieces:
                    async with asyncio.timeout_at(self._reported_s + (FIRST_BYTE_S if is_new else pause_s)):
                        await link.arrived()
                pieces = link.take()
            except TimeoutError:
                if loop.time() - heard > silence_s:
                    raise ConnectionLost(f"the master was silent for {silence_s:g} s") from None
                self._report(link, self._kept)
                is_new = False
                continue
            is_new = False
            heard = loop.time()
            self.agreement.heard()
            self.read_ms = self._now_ms()
            before = self._copy.end
            for offset, span in joined(span for piece in pieces for span in spans.feed(piece)):
                self.rate.add(len(span), heard)
                await self._copy.take(offset, span)
            if self._copy.end > before:
                self._report_when_kept(link, self._copy.end)

    async def _kept_end(self) -> int:
        """Return the end of the log once all of it is kept: the first report acknowledges, too."""
        end = self._copy.end
        await self._log.reached(end, self._log.kept_at)
        return end

    @property
    def _kept(self) -> int:
        return self._log.kept

    def _report_when_kept(self, link: "MasterLink", end: int) -> None:
        def reached(error: FireArrowError | None) -> None:
            if error is None:
                self._report(link, end)

        self._log.on_reached(end, self._log.kept_at, reached)

    @property
    def _heartbeat_s(self) -> float:
        """The longest time between two reports."""
        return self._settings.value.replication.ha_send_heartbeat_interval / 1000

    def _report(self, link: "MasterLink", offset: int) -> None:
        self.wrote_ms = self._now_ms()
        self._reported_s = asyncio.get_running_loop().time()
        link.send(report(offset))


class MasterLink(asyncio.Protocol):
    """The connection to the master: received pieces wait here, and the peer is paused when they are too many."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._is_paused = False
        self._arrived = asyncio.Event()
        self._lost: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._waiting_bytes += len(data)
        self._arrived.set()
        if self._waiting_bytes > BUFFERED_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = str(error or "the master ended it")
        self._arrived.set()

    @property
    def has_pieces(self) -> bool:
        """Whether something has come."""
        return bool(self._pieces)

    async def arrived(self) -> None:
        """Wait until something has come; raise ``ConnectionLost`` when nothing comes any more."""
        while not self._pieces:
            if self._lost is not None:
                raise ConnectionLost(f"the connection to the master is lost: {self._lost}")
            self._arrived.clear()
            await self._arrived.wait()

    def take(self) -> list[bytes]:
        """Return everything that has come, piece by piece."""
        pieces, self._pieces = self._pieces, []
        self._waiting_bytes = 0
        if self._is_paused and self._transport is not None and self._lost is None:
            self._is_paused = False
            self._transport.resume_reading()
        return pieces

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

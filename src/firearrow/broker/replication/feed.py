"""One slave at its master: the master's end of the connection, which sends the log from the slave's end on.

The log is sent in spans as it lies in the files, without taking records apart, and off the turns in which sends are
served: the task of the connection wakes up after the log has reached the level at which it is sent. A slave that reads
slowly makes the task wait, not the broker. Java: ``DefaultHAConnection``.
"""

import asyncio
import logging
from math import inf
from typing import Final, Protocol, cast

from firearrow.broker.replication.decisions import NOTHING_CONFIRMED, LogBounds, first_offset
from firearrow.broker.replication.rate import Rate
from firearrow.errors import FireArrowError
from firearrow.protocol.ha_stream import Reports, heartbeat, packets
from firearrow.runtime.turn import breathe

SPAN_BYTES: Final = 256 << 10
"""Bytes that are read from the log at once; other requests are served between two spans."""
BUFFERED_BYTES: Final = 1 << 20
"""Bytes that may wait for a slave that reads slowly."""

log = logging.getLogger(__name__)


class SentLog(Protocol):
    """The log as a master sends it."""

    @property
    def bounds(self) -> LogBounds:
        """The part of the log that may be sent now."""
        ...

    async def read(self, physical: int, size: int) -> bytes:
        """Return bytes of one log file."""
        ...

    async def grown(self, offset: int) -> None:
        """Wait until bytes behind ``offset`` may be sent."""
        ...


class Feed(asyncio.Protocol):
    """The stream to one slave."""

    def __init__(self, sent: SentLog, batch_bytes: int, feeds: "FeedOwner") -> None:
        self._sent = sent
        self._batch_bytes = batch_bytes
        self._feeds = feeds
        self._reports = Reports()
        self._transport: asyncio.Transport | None = None
        self._asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self.host = ""
        self.address = ""
        """The slave's address."""
        self.is_verified = False
        """Whether the slave showed a certificate of an authority that is trusted here."""
        self.identity = 0
        """The number by which this slave is known whatever its connection; 0 where it told none."""
        self.acked = NOTHING_CONFIRMED
        """The end of the slave's log as it last reported."""
        self.next = -1
        """The offset that is sent next; -1 before the first report."""
        self.read_s = self.wrote_s = self.opened_s = asyncio.get_running_loop().time()
        self.owed_s = self.read_s
        """Since when the slave owes a report: of its end at first, then of bytes sent to it; infinite for none."""
        self.rate = Rate()
        """The bytes of the log that were sent."""

    @property
    def has_reported(self) -> bool:
        """Whether the slave has said where its log ends."""
        return self._asked.done()

    # ---- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the slave's first report."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._transport.set_write_buffer_limits(BUFFERED_BYTES)
        self.host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.address = f"{self.host}:{port}"
        self.is_verified = bool(transport.get_extra_info("peercert"))
        self._feeds.opened(self)

    def data_received(self, data: bytes) -> None:
        """Take reports: the first asks for a start, all acknowledge."""
        self.read_s = asyncio.get_running_loop().time()
        for offset in self._reports.feed(data):
            end = self.next if self._asked.done() and self.next >= 0 else self._sent.bounds.end
            if offset > end and self._asked.done():
                said = "slave %s reports %d bytes, and the log was sent to it up to %d: it is cut"
                log.warning(said, self.address, offset, end, extra={"slave": self.address})
                self.abort()
                return
            if offset <= end:
                self.acked = offset
            if not self._asked.done():
                self._asked.set_result(offset)
        self.owed_s = self.read_s if self.acked < self.next else inf
        self._feeds.acknowledged(self)

    def pause_writing(self) -> None:
        """Wait with further spans: the slave reads slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on with spans."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        if not self._asked.done():
            self._asked.cancel()
        self._feeds.closed(self, str(error or "the slave ended the connection"))

    # ---- sending

    async def run(self) -> None:
        """Send the log until cancelled or until the log cannot serve the slave."""
        try:
            bounds = self._sent.bounds
            self.next = first_offset(await self._asked, bounds)
            extra = {"slave": self.address, "from": self.next, "end": bounds.end}
            log.info("slave %s gets the log from %d on", self.address, self.next, extra=extra)
            self._write([heartbeat(self.next)])
            while True:
                await self._writable.wait()
                if not await self._send_in_turn():
                    await self._sent.grown(self.next)
        except FireArrowError as error:
            log.warning("slave %s is not served: %s", self.address, error, extra={"slave": self.address})
        finally:
            self.abort()

    async def _send_in_turn(self) -> bool:
        """Send some of the log. Slaves that are far behind share a lane: many of them take no more than one would."""
        if self._sent.bounds.end - self.next <= SPAN_BYTES:
            return await self._send_span()
        async with self._feeds.catching_up:
            return await self._send_span()

    async def _send_span(self) -> bool:
        """Send some of the log; return whether there was any to send."""
        bounds = self._sent.bounds
        if self.next >= bounds.end:
            return False
        file_end = self.next - self.next % bounds.segment_bytes + bounds.segment_bytes
        data = await self._sent.read(self.next, min(SPAN_BYTES, file_end - self.next, bounds.end - self.next))
        self._write(list(packets(self.next, data, self._batch_bytes)))
        self.next += len(data)
        self.owed_s = min(self.owed_s, self.wrote_s)
        self.rate.add(len(data), self.wrote_s)
        await breathe()
        return True

    def check(self, now: float, heartbeat_s: float, silence_s: float) -> None:
        """Send a heartbeat when one is due; end the connection of a slave that has been silent for too long."""
        is_late = not self.has_reported and now - self.opened_s > silence_s
        if is_late or now - self.read_s > silence_s:
            log.warning("slave %s is silent and its connection is closed", self.address, extra={"slave": self.address})
            self.abort()
        elif now - self.wrote_s > heartbeat_s and self.next >= 0:
            self._write([heartbeat(self.next)])

    def abort(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def hang_up(self) -> None:
        """End the connection when everything that was written has left."""
        if self._transport is not None:
            self._transport.close()

    def _write(self, buffers: list[bytes | bytearray | memoryview]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(buffers)
            self.wrote_s = asyncio.get_running_loop().time()


class FeedOwner(Protocol):
    """The owner of all feeds, as a feed sees it."""

    catching_up: asyncio.Lock
    """Held by the feed that sends a span to a slave that is far behind."""

    def opened(self, feed: Feed) -> None:
        """A slave has connected."""
        ...

    def identified(self, feed: Feed) -> None:
        """A slave has told who it is."""
        ...

    def acknowledged(self, feed: Feed) -> None:
        """A slave has reported."""
        ...

    def closed(self, feed: Feed, reason: str) -> None:
        """A connection has ended."""
        ...

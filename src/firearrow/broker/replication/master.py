"""The master's side of replication: accepts slaves, sends them the log, and knows how far each of them is.

The log is sent at the level at which a send is answered: what is written, or under SYNC_FLUSH what is synced. So under
SYNC_FLUSH no slave has records that a power loss could take from its master. Java: ``DefaultHAService``.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from firearrow.access.rules import is_within
from firearrow.broker.replication.compared_feed import ComparedFeed
from firearrow.broker.replication.decisions import LogBounds, in_sync, replicas_acked
from firearrow.broker.replication.feed import Feed
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import FireArrowError
from firearrow.runtime.process import give_back_memory
from firearrow.runtime.turn import breathe
from firearrow.store.store import Store
from firearrow.telemetry.damped import DampedEvents

CHECK_S: Final = 0.1
"""Seconds between two looks for heartbeats that are due and slaves that are silent."""
GATHER_S: Final = 0.002
"""Seconds for which an ASYNC_MASTER gathers writes before it sends them: a send waits for no slave there."""

GIVE_BACK_AFTER: Final = 16
"""Connections that ended, after which the memory of what they did not read is given back to the system."""

log = logging.getLogger(__name__)


class SentStore:
    """The log of a store as a master sends it."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._log = store.log
        self._bytes = store.bytes
        self._segment_bytes = store.opened.segments.size
        self._settings = settings

    @property
    def bounds(self) -> LogBounds:
        """The part of the log that may be sent now."""
        end = self._log.kept
        return LogBounds(self._log.min_offset, end, self._segment_bytes)

    async def read(self, physical: int, size: int) -> bytes:
        """Return bytes of one log file; off the loop when that needs the device."""
        data = self._bytes.read_hot(physical, size)
        return await self._bytes.read_cold(physical, size) if data is None else data

    async def grown(self, offset: int) -> None:
        """Wait until bytes behind ``offset`` may be sent."""
        grown = asyncio.Event()

        def reached(_error: FireArrowError | None) -> None:
            grown.set()

        self._log.on_reached(offset + 1, self._log.kept_at, reached)
        await grown.wait()
        if self._log.fenced is not None:
            raise self._log.fenced
        await (breathe() if self._settings.value.replication.slaves_waited_for else asyncio.sleep(GATHER_S))


class Master:
    """Serves the slaves of one broker."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._settings = settings
        self._sent = SentStore(store, settings)
        self._tasks: dict[Feed, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.catching_up = asyncio.Lock()
        self._left = 0
        self._refusals = DampedEvents()
        self.on_look: Callable[[], None] = lambda: None
        """Called when a slave has reported, came or left, and every `CHECK_S`."""

    @property
    def feeds(self) -> list[Feed]:
        """The connected slaves."""
        return list(self._tasks)

    @property
    def end(self) -> int:
        """The end of the log that is sent."""
        return self._sent.bounds.end

    @property
    def acked(self) -> list[int]:
        """The ends of the logs of the connected replicas, as they last reported.

        A slave that told no identity, as Apache's do, is known by its machine.
        """
        return replicas_acked((feed.identity or feed.host, feed.acked) for feed in self._tasks)

    def is_in_sync(self, feed: Feed, end: int) -> bool:
        """Whether a slave is near enough to the end of the log to count as in sync."""
        return in_sync([feed.acked], end, self._settings.value.replication.ha_max_gap_not_in_sync) > 1

    def slaves_in_sync(self, end: int) -> int:
        """Return how many replicas beside this one are in sync."""
        return in_sync(self.acked, end, self._settings.value.replication.ha_max_gap_not_in_sync) - 1

    def connection(self) -> Feed:
        """Return the protocol of a new connection."""
        return ComparedFeed(self._sent, self._settings.value.replication.ha_transfer_batch_size, self)

    async def run(self) -> None:
        """Serve slaves until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._check()
        finally:
            self._group = None
            for feed in self.feeds:
                feed.abort()

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_S)
            config = self._settings.value.replication
            self.on_look()
            for feed in self.feeds:
                feed.check(
                    loop.time(), config.ha_send_heartbeat_interval / 1000, config.ha_housekeeping_interval / 1000
                )

    # ---- what feeds tell

    def opened(self, feed: Feed) -> None:
        """Begin to serve a slave that has connected."""
        if self._group is None or not self._may_copy(feed) or not self._has_room(feed):
            feed.abort()
            return
        self._tasks[feed] = self._group.create_task(feed.run(), name=f"feed of {feed.address}")

    def _may_copy(self, feed: Feed) -> bool:
        """Whether the log is sent to this slave: whoever fetches it reads every topic."""
        settings = self._settings.value
        allowed = settings.replication.allowed_addresses
        if not allowed and (feed.is_verified or not settings.access.is_on):
            return True
        if any(is_within(feed.host, network) for network in allowed):
            return True
        number = self._refusals.count(asyncio.get_running_loop().time())
        if number:
            said = "%s may not fetch the log: if it is a slave, name its address in haAllowedAddresses, or let it show "
            said += "a certificate (client_tls.certificate_path there, tls.client_auth=require here)"
            log.warning(said, feed.address, extra={"slave": feed.address, "refused": self._refusals.total})
        return False

    def _has_room(self, feed: Feed) -> bool:
        """Whether one more connection is served; one that has not reported its log yet gives way."""
        most = self._settings.value.replication.ha_max_connections
        if len(self._tasks) < most:
            return True
        silent = min((one for one in self._tasks if not one.has_reported), key=lambda one: one.opened_s, default=None)
        given_up = feed if silent is None else silent
        number = self._refusals.count(asyncio.get_running_loop().time())
        if number:
            said = "%s may not fetch the log now: haListenPort has %d connections; name the addresses of slaves in "
            said += "haAllowedAddresses, or raise haMaxConnections"
            extra = {"slave": given_up.address, "refused": self._refusals.total}
            log.warning(said, given_up.address, most, extra=extra)
        if silent is not None:
            silent.abort()
            self.closed(silent, "another one needed its place")
        return silent is not None

    def identified(self, feed: Feed) -> None:
        """End the older connection of a slave that has come again: it is half open."""
        for other in self.feeds:
            if other is not feed and other.identity == feed.identity:
                other.abort()
                self.closed(other, "the same slave has connected again")

    def acknowledged(self, _feed: Feed) -> None:
        """Pass on that a slave has reported."""
        self.on_look()

    def closed(self, feed: Feed, reason: str) -> None:
        """Forget a slave whose connection has ended."""
        task = self._tasks.pop(feed, None)
        if task is not None:
            task.cancel()
            log.info("slave %s has left: %s", feed.address, reason, extra={"slave": feed.address, "reason": reason})
            self._left += 1
            if self._left % GIVE_BACK_AFTER == 0:
                asyncio.get_running_loop().call_later(1.0, give_back_memory)
            self.on_look()

"""Reads and changes the settings of a running broker. Java: ``AdminBrokerProcessor.updateBrokerConfig``."""

import logging

from firearrow.broker.gate.gate import NOTHING_PLACED, Gate, KeptAnswer
from firearrow.broker.settings.changes import PATH, KeptChanges, overlay, read_changes, still_allowed, values
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.requests.admin.config import GetBrokerConfig, GetBrokerConfigAnswer, UpdateBrokerConfig
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.settings import format_properties

log = logging.getLogger(__name__)


class BrokerConfigHandlers:
    """Reads and changes settings for operators."""

    def __init__(self, *, disk: Disk, clock: Clock, settings: LiveSettings, topics: TopicBook, gate: Gate) -> None:
        self._kept = KeptChanges()
        self.file = StateFile(disk, PATH, self._kept)
        self._clock = clock
        self._settings = settings
        self._topics = topics
        self._gate = gate
        self._version = DataVersion()

    async def load(self) -> None:
        """Load the stored changes and apply them."""
        await self.file.load()
        changes = still_allowed(self._kept.value, self._settings.value)
        if changes:
            log.info("changed settings are in force", extra={"keys": sorted(changes)})
            self._settings.replace(overlay(self._settings.value, changes))

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        self._gate.before(handlers).on(UpdateBrokerConfig, self.update, urgent=True)
        handlers.on(GetBrokerConfig, self.listing, urgent=True)

    def update(self, _request: UpdateBrokerConfig, call: Call) -> KeptAnswer:
        """Change settings."""
        wanted = read_changes(call.body, self._settings.value)
        if not wanted:
            return NOTHING_PLACED
        log.info("settings change asked for", extra={"keys": sorted(wanted), "by": str(call.peer.address)})
        self._kept.add(wanted)
        answer, saved = self._gate.when_saved(call, failure="in force, but lost at the next start: {}")
        self.file.changed(saved)
        self._version = DataVersion(counter=self._version.counter + 1, timestamp=self._clock.now_ms())
        if "brokerPermission" in wanted:
            self._topics.renew_version()
        self._settings.replace(overlay(self._settings.value, wanted))
        return answer

    def listing(self, _request: GetBrokerConfig, _call: Call) -> Answer:
        """Return all settings."""
        body = format_properties(dict(sorted(values(self._settings.value).items()))).encode()
        return Answer(GetBrokerConfigAnswer(version=encode_body(self._version).decode()), body)

"""The state of replication, and the tables that only slaves ask for. Java: ``AdminBrokerProcessor``."""

import asyncio
from functools import partial

from firearrow.broker.delivery.delay_offsets import DelayOffsets
from firearrow.broker.identity import Identity
from firearrow.broker.replication.held_questions import HeldQuestions
from firearrow.broker.replication.master import Master
from firearrow.broker.replication.replication import Replication
from firearrow.broker.replication.slave import Slave
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.pop.pop import MessageRequestModeTable
from firearrow.protocol.bodies.replication.replication import (
    EpochEntry,
    EpochEntryCache,
    HaClientInfo,
    HaConnectionInfo,
    HaRuntimeInfo,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import INT64_MAX
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.pop.pop import GetAllMessageRequestMode
from firearrow.protocol.requests.replication.replication import (
    GetAllDelayOffset,
    GetBrokerEpochCache,
    GetBrokerEpochCacheAnswer,
    GetBrokerHaStatus,
    ResetMasterFlushOffset,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.store.store import Store


class ReplicationHandlers:
    """Answers slaves and operators of a replicated group."""

    def __init__(
        self,
        replication: Replication,
        delays: DelayOffsets,
        *,
        store: Store,
        identity: Identity,
        settings: LiveSettings,
        changes: TableChanges,
    ) -> None:
        self._store = store
        self._log = store.log
        self._identity = identity
        self._settings = settings
        self._replication = replication
        self._delays = delays
        self._changes = changes
        self._held = HeldQuestions()
        changes.on_change = self._held.changed

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(GetAllDelayOffset, self.delay_offsets, urgent=True)
        handlers.on(GetAllMessageRequestMode, self.request_modes, urgent=True)
        handlers.on(GetBrokerHaStatus, self.status, urgent=True)
        handlers.on(GetBrokerEpochCache, self.epochs, urgent=True)
        handlers.on(ResetMasterFlushOffset, self.reset_master_flush_offset, urgent=True)

    def delay_offsets(self, _request: GetAllDelayOffset, _call: Call) -> Answer:
        """Return how far each delay level is."""
        return Answer(body=encode_body(self._delays.table()))

    def request_modes(self, _request: GetAllMessageRequestMode, _call: Call) -> Answer:
        """Return how groups fetch: no group has a mode of its own, because pop is not offered."""
        return Answer(body=encode_body(MessageRequestModeTable()))

    def status(self, _request: GetBrokerHaStatus, _call: Call) -> Answer:
        """Return what this broker knows of its slaves, or of its master."""
        master, slave = self._replication.master, self._replication.slave
        info = HaRuntimeInfo() if slave is None else self._of_slave(slave)
        return Answer(body=encode_body(info if master is None else self._of_master(master)))

    def _of_master(self, master: Master) -> HaRuntimeInfo:
        end, now = self._log.tail, asyncio.get_running_loop().time()
        slaves = [
            HaConnectionInfo(
                addr=feed.address,
                diff=end - feed.acked,
                in_sync=master.is_in_sync(feed, end),
                slave_ack_offset=feed.acked,
                transfer_from_where=feed.next,
                transferred_byte_in_second=feed.rate.a_second(now),
            )
            for feed in master.feeds
        ]
        return HaRuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            ha_connection_info=slaves,
            in_sync_slave_nums=master.slaves_in_sync(end),
        )

    def _of_slave(self, slave: Slave) -> HaRuntimeInfo:
        client = HaClientInfo(
            master_addr=None if slave.address is None else str(slave.address),
            max_offset=self._log.tail,
            last_read_timestamp=slave.read_ms,
            last_write_timestamp=slave.wrote_ms,
            transferred_byte_in_second=slave.rate.a_second(asyncio.get_running_loop().time()),
            master_flush_offset=slave.master_flushed,
        )
        return HaRuntimeInfo(master=False, ha_client_runtime_info=client)

    def epochs(self, request: GetBrokerEpochCache, call: Call) -> Answer | Later:
        """Return which master wrote which part of the log; to a replica that asks so, at the next change of the tables.

        Without automatic failover there are no epochs, and the refusal is Apache's outside controller mode.
        """
        taken = self._changes.number if request.taken is None else request.taken
        answer = self._epochs(taken)
        replica = self._noted(request)
        if replica is None or request.known != self._changes.number:
            return answer
        return self._held.hold(replica, call.hold(), partial(self._epochs, taken))

    def _noted(self, request: GetBrokerEpochCache) -> int | None:
        """Note what a replica of this epoch tells of itself; return its number, None for everybody else."""
        reports, replica = self._replication.reports, request.replica
        if reports is None or replica is None or request.epoch is None or request.directory is None:
            return None
        if not reports.knows(replica, request.epoch, request.directory):
            return None
        if request.taken is not None:
            reports.reported(replica, request.taken)
        return replica

    def _epochs(self, taken: int) -> Answer:
        """Return the epochs, and what was deleted after the changes that the asker has taken."""
        entries = self._store.replica.history.epochs.entries
        if not entries:
            raise Refused(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
        ends = [*(entry.start_offset for entry in entries[1:]), INT64_MAX]
        identity = self._identity
        cache = EpochEntryCache(
            broker_id=self._settings.broker.broker_id,
            broker_name=identity.name,
            cluster_name=identity.cluster,
            epoch_list=[
                EpochEntry(epoch=entry.epoch, start_offset=entry.start_offset, end_offset=end)
                for entry, end in zip(entries, ends, strict=True)
            ],
            max_offset=self._log.tail,
            min_offset=self._log.min_offset,
            passed_on_offset=self._store.views.dispatch.position,
            deleted_topics=self._changes.deleted_since(taken) or None,
        )
        return Answer(GetBrokerEpochCacheAnswer(tables=self._changes.number), encode_body(cache))

    def reset_master_flush_offset(self, request: ResetMasterFlushOffset, _call: Call) -> None:
        """Note how far the master's log is on disk; a master ignores it, as Apache's does."""
        slave = self._replication.slave
        if slave is not None:
            slave.master_flushed = request.master_flush_offset

"""Replication between brokers, and the controller that elects masters (5.x).

Java: ``remoting.protocol.body.HARuntimeInfo``, ``SyncStateSet``, ``EpochEntryCache``, ``BrokerReplicasInfo``,
``ElectMasterResponseBody``; ``remoting.protocol.EpochEntry``, ``BrokerSyncInfo``.
"""

from firearrow.protocol.bodies.body import Body, always, empty_list, empty_map, fresh
from firearrow.protocol.bodies.naming.route import BrokerMemberGroup
from firearrow.protocol.conversation import INT64_MAX, Int32, Int64


class HaConnectionInfo(Body, frozen=True, kw_only=True, gc=False):
    """A master's view of one slave."""

    addr: str | None = None
    diff: Int64 = always(0)
    in_sync: bool = always(False)
    slave_ack_offset: Int64 = always(0)
    transfer_from_where: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class HaClientInfo(Body, frozen=True, kw_only=True, gc=False):
    """A slave's view of its master. ``activated`` is written by some versions only."""

    activated: bool | None = None
    last_read_timestamp: Int64 = always(0)
    last_write_timestamp: Int64 = always(0)
    master_addr: str | None = None
    master_flush_offset: Int64 = always(0)
    max_offset: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class HaRuntimeInfo(Body, frozen=True, kw_only=True):
    """The state of replication, seen by one broker."""

    ha_client_runtime_info: HaClientInfo = fresh(HaClientInfo)
    ha_connection_info: list[HaConnectionInfo] = empty_list()
    in_sync_slave_nums: Int32 = always(0)
    master: bool = always(False)
    master_commit_log_max_offset: Int64 = always(0)


class BrokerSyncInfo(Body, frozen=True, kw_only=True, gc=False):
    """The addresses of a slave's master."""

    master_address: str | None = None
    master_flush_offset: Int64 = always(0)
    master_ha_address: str | None = None


class SyncStateSet(Body, frozen=True, kw_only=True):
    """The broker ids of the in-sync replicas, and the edition of that set."""

    sync_state_set: list[Int64] | None = None
    sync_state_set_epoch: Int32 = always(0)


class EpochEntry(Body, frozen=True, kw_only=True, gc=False):
    """The log offsets that one master wrote."""

    end_offset: Int64 = always(INT64_MAX)
    epoch: Int32 = always(0)
    start_offset: Int64 = always(0)


class EpochEntryCache(Body, frozen=True, kw_only=True):
    """The epochs of a broker's log: the parts that one master each wrote."""

    broker_id: Int64 = always(0)
    broker_name: str | None = None
    cluster_name: str | None = None
    deleted_topics: dict[str, Int64] | None = None
    """Topics that were deleted since the changes that the asker has, with the end of the log then; ours alone."""
    epoch_list: list[EpochEntry] | None = None
    max_offset: Int64 = always(0)
    min_offset: Int64 | None = None
    """The begin of the log; ours alone."""
    passed_on_offset: Int64 | None = None
    """The offset up to which the broker's tables have the log; ours alone."""


class ReplicaIdentity(Body, frozen=True, kw_only=True, gc=False):
    """One replica as the controller knows it."""

    alive: bool | None = None
    broker_address: str | None = None
    broker_id: Int64 | None = None
    broker_name: str | None = None


class ReplicasInfo(Body, frozen=True, kw_only=True):
    """The replicas of one broker name."""

    in_sync_replicas: list[ReplicaIdentity] | None = None
    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    not_in_sync_replicas: list[ReplicaIdentity] | None = None
    sync_state_set_epoch: Int32 | None = None


class BrokerReplicasInfo(Body, frozen=True, kw_only=True):
    """The replicas of several broker names."""

    replicas_info_table: dict[str, ReplicasInfo] = empty_map()


class ElectMasterBody(Body, frozen=True, kw_only=True):
    """Answer to CONTROLLER_ELECT_MASTER."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] = empty_list()

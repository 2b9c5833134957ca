"""Controllers: who is master (5.x). Java: ``header.controller``."""

from typing import ClassVar

from firearrow.protocol.bodies.replication.replication import BrokerReplicasInfo, ElectMasterBody, SyncStateSet
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class AlterSyncStateSetAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The new edition of the set, which is the body."""

    new_sync_state_set_epoch: Int32 = 0


class ControllerAlterSyncStateSet(Request[AlterSyncStateSetAnswer], frozen=True, kw_only=True, gc=False):
    """A master changes the set of in-sync replicas."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
    request_body = SyncStateSet
    answer_body = SyncStateSet
    broker_name: str | None = None
    master_broker_id: int | None = None
    master_epoch: Int32 | None = None
    invoke_time: int = 0


class ElectMasterAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The master now."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ControllerElectMaster(Request[ElectMasterAnswer], frozen=True, kw_only=True, gc=False):
    """Elect a master, or make this broker the master."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_ELECT_MASTER
    answer_body = ElectMasterBody
    cluster_name: str
    broker_name: str
    broker_id: int
    designate_elect: bool
    invoke_time: int | None = None


class ControllerRegisterBrokerAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The master now."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ControllerRegisterBroker(Request[ControllerRegisterBrokerAnswer], frozen=True, kw_only=True, gc=False):
    """A broker with an id joins."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_REGISTER_BROKER
    answer_body = SyncStateSet
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: int | None = None
    broker_address: str | None = None
    invoke_time: int = 0


class GetReplicaInfoAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The master now."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class ControllerGetReplicaInfo(Request[GetReplicaInfoAnswer], frozen=True, kw_only=True, gc=False):
    """The master and the in-sync replicas of a broker name."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_GET_REPLICA_INFO
    answer_body = SyncStateSet
    broker_name: str | None = None


class GetMetadataInfoAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The controllers."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class ControllerGetMetadataInfo(Request[GetMetadataInfoAnswer], frozen=True, kw_only=True, gc=False):
    """The controllers and their leader."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_GET_METADATA_INFO


class ControllerGetSyncStateData(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The replicas of the broker names in the body."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
    request_body = list[str]
    answer_body = BrokerReplicasInfo


class CleanBrokerData(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Forget brokers."""

    code: ClassVar[RequestCode] = RequestCode.CLEAN_BROKER_DATA
    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: int = 0


class GetNextBrokerIdAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The next free broker id."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: int | None = None


class ControllerGetNextBrokerId(Request[GetNextBrokerIdAnswer], frozen=True, kw_only=True, gc=False):
    """Ask for the next free broker id."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
    cluster_name: str | None = None
    broker_name: str | None = None


class ApplyBrokerIdAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The cluster and broker name that the id belongs to."""

    cluster_name: str | None = None
    broker_name: str | None = None


class ControllerApplyBrokerId(Request[ApplyBrokerIdAnswer], frozen=True, kw_only=True, gc=False):
    """Take a free broker id."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_APPLY_BROKER_ID
    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: int | None = None
    register_check_code: str | None = None

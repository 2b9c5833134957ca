"""The settings of a broker, under Apache's key names.

Java: ``common.BrokerConfig``, and the keys of ``store.config.MessageStoreConfig`` and
``remoting.netty.NettyServerConfig`` that have an effect here. Settings of the log, the queues and the index are defined
beside their owners in the store; `BrokerSettings` composes all of them. Every other key of Apache's is in
``apache_keys``: without effect, or refused.

``CHANGEABLE`` is the allow-list of UPDATE_BROKER_CONFIG: other keys, such as paths and addresses, are fixed at start.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from firearrow.access.settings import AccessConfig, check_access
from firearrow.broker.settings.apache_keys import REFUSED, WITHOUT_EFFECT
from firearrow.broker.settings.bound_settings import BoundsConfig
from firearrow.broker.settings.consumer_settings import ConsumingConfig
from firearrow.broker.settings.dedup_settings import DedupConfig
from firearrow.broker.settings.failover_settings import FailoverConfig, check_member, check_replica
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.settings.replication_settings import ReplicationConfig, check_role
from firearrow.broker.settings.transaction_settings import TransactionConfig
from firearrow.errors import SettingsError
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.quotas.settings import QuotaConfig, check_quotas
from firearrow.remoting.limits import Limits
from firearrow.remoting.operation_port import OperationConfig
from firearrow.runtime.tls_settings import ClientTls, ServerTls
from firearrow.settings import Source, load
from firearrow.store.config import LogConfig
from firearrow.store.deletion import RetentionConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.queue.table import QueueConfig
from firearrow.store.recovery.scrub import ScrubConfig
from firearrow.store.timer.config import TimerConfig, check_precision

DEFAULT_PORT: Final = 10911
FAST_PORT_BELOW: Final = 2
"""The distance from the listening port down to the port for clients with a VIP channel."""

Port = Annotated[int, Meta(ge=0, le=65535)]
Queues = Annotated[int, Meta(ge=1, le=65_536)]


class BrokerConfig(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The identity of a broker and the permissions of its clients."""

    broker_name: Annotated[
        str, Meta(description="Name shared by a master and its slaves; empty takes the machine's name.")
    ] = ""
    broker_cluster_name: Annotated[str, Meta(min_length=1, description="Cluster that the broker belongs to.")] = (
        "DefaultCluster"
    )
    broker_id: Annotated[int, Meta(ge=0, description="0 is the master of its name; slaves have other ids.")] = 0
    broker_ip1: Annotated[
        str, Meta(description="Address that clients are told to use; empty takes the machine's own.")
    ] = field(name="brokerIP1", default="")
    broker_ip2: Annotated[
        str, Meta(description="Address that slaves are told to use for haListenPort; empty takes brokerIP1.")
    ] = field(name="brokerIP2", default="")
    listen_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Port to listen on; the port two below answers too. 0 lets the operating system choose one.",
        ),
    ] = DEFAULT_PORT
    bind_address: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 is every IPv4 interface.")] = "0.0.0.0"  # noqa: S104
    namesrv_addr: Annotated[
        str, Meta(description="Name servers, host:port divided by semicolons. Without any, nobody finds the broker.")
    ] = ""
    store_path_root_dir: Annotated[str, Meta(description="Directory of everything stored; empty is ~/store.")] = ""
    store_path_consume_queue: Annotated[
        str,
        Meta(
            description="Directory of the consume queues, such as on another disk, to which a link in the store leads; "
            "empty keeps them in the store."
        ),
    ] = ""
    open_with_pending_state: Annotated[
        bool,
        Meta(
            description="Open a store of Apache's also when it holds timed messages or pop check-points "
            "that are not finished; nobody is given them."
        ),
    ] = False
    broker_permission: Annotated[
        int, Meta(ge=0, le=7, description="2 write, 4 read, 6 both: what the broker allows at all.")
    ] = PERM_READ | PERM_WRITE
    default_topic_queue_nums: Annotated[
        Queues, Meta(description="Queues of TBW102, and so the most that a topic made by its first send gets.")
    ] = 8
    auto_create_topic_enable: Annotated[bool, Meta(description="Make a topic when the first message for it comes.")] = (
        True
    )
    auto_create_subscription_group: Annotated[
        bool, Meta(description="Make a consumer group when its first consumer comes.")
    ] = True
    cluster_topic_enable: Annotated[bool, Meta(description="Let clients use the topic named like the cluster.")] = True
    broker_topic_enable: Annotated[bool, Meta(description="Let clients use the topic named like the broker.")] = True
    trace_topic_enable: Annotated[bool, Meta(description="Make the topic of message traces.")] = False
    msg_trace_topic_name: Annotated[str, Meta(min_length=1, description="Name of that topic.")] = "RMQ_SYS_TRACE_TOPIC"
    trace_on: Annotated[bool, Meta(description="Tell clients that they may trace.")] = True
    region_id: Annotated[str, Meta(min_length=1, description="Region stored with messages and told to clients.")] = (
        "DefaultRegion"
    )
    revive_queue_num: Annotated[
        Queues, Meta(description="Queues of the topic that pop consumption keeps its marks in.")
    ] = 8
    validate_system_topic_when_update_topic: Annotated[
        bool, Meta(description="Refuse to make or change a topic with the name of a system topic.")
    ] = True
    register_name_server_period: Annotated[
        int, Meta(ge=1_000, description="Milliseconds between two registrations; kept between 10 s and 60 s.")
    ] = 30_000
    register_broker_timeout_mills: Annotated[
        int, Meta(ge=100, le=600_000, description="Milliseconds that a name server has to answer a registration.")
    ] = 24_000
    compressed_register: Annotated[bool, Meta(description="Compress registrations (order and units get lost).")] = False
    start_accept_send_request_time_stamp: Annotated[
        int, Meta(ge=0, description="Refuse sends before this time, in milliseconds since 1970.")
    ] = 0
    sync_flush_timeout: Annotated[
        int,
        Meta(
            ge=10,
            le=600_000,
            description="Milliseconds after which a send that waits for its sync is answered with 10.",
        ),
    ] = 5_000
    server_channel_max_idle_time_seconds: Annotated[
        int, Meta(ge=1, description="Seconds without a byte in either direction after which a connection is closed.")
    ] = 120
    config_black_list: Annotated[
        str,
        Meta(description="Keys, divided by semicolons, that may not be changed over the wire besides the fixed ones."),
    ] = "configBlackList;brokerConfigPath"
    message_delay_level: Annotated[str, Meta(description="Waits of the delay levels, the first is level 1.")] = (
        DEFAULT_DELAY_LEVELS
    )
    broker_fast_failure_enable: Annotated[
        bool, Meta(description="Refuse sends that could not be answered in time (SYSTEM_BUSY).")
    ] = True
    wait_time_mills_in_send_queue: Annotated[
        int, Meta(ge=1, le=600_000, description="Milliseconds that a send may be late before it is refused so.")
    ] = 200
    recall_message_enable: Annotated[
        bool, Meta(description="Let producers take back timed messages that are not due yet.")
    ] = False
    allow_recall_when_broker_not_writeable: Annotated[
        bool, Meta(description="Let them do so also while the broker takes no messages.")
    ] = True
    drain_wait_seconds: Annotated[
        int,
        Meta(
            ge=0,
            le=3600,
            description="Seconds between giving up the write permission and stopping, so that clients hear of it.",
        ),
    ] = 40

    @property
    def delays_ms(self) -> tuple[int, ...]:
        """The delay of every delay level."""
        return parse_delay_levels(self.message_delay_level)

    @property
    def is_writable(self) -> bool:
        """Whether the broker takes messages at all."""
        return bool(self.broker_permission & PERM_WRITE)

    @property
    def is_readable(self) -> bool:
        """Whether the broker hands messages out at all."""
        return bool(self.broker_permission & PERM_READ)


class BrokerSettings(Struct, frozen=True):
    """Everything a settings file for the broker may say."""

    broker: BrokerConfig = field(default_factory=BrokerConfig)
    consuming: ConsumingConfig = field(default_factory=ConsumingConfig)
    pull: PullConfig = field(default_factory=PullConfig)
    bounds: BoundsConfig = field(default_factory=BoundsConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    failover: FailoverConfig = field(default_factory=FailoverConfig)
    log: LogConfig = field(default_factory=LogConfig)
    queues: QueueConfig = field(default_factory=QueueConfig)
    index: IndexConfig = field(default_factory=IndexConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    scrub: ScrubConfig = field(default_factory=ScrubConfig)
    timers: TimerConfig = field(default_factory=TimerConfig)
    operation: OperationConfig = field(default_factory=OperationConfig)
    access: AccessConfig = field(default_factory=AccessConfig)
    quotas: QuotaConfig = field(default_factory=QuotaConfig)
    limits: Limits = field(default_factory=Limits)
    tls: ServerTls = field(default_factory=ServerTls)
    client_tls: ClientTls = field(default_factory=ClientTls)


CHANGEABLE: Final = frozenset(
    {
        "accessMessageInMemoryMaxRatio",
        "autoCreateTopicEnable",
        "autoCreateSubscriptionGroup",
        "brokerFastFailureEnable",
        "brokerPermission",
        "cleanFileForciblyEnable",
        "cleanResourceInterval",
        "compressedRegister",
        "defaultTopicQueueNums",
        "deleteFileBatchMax",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "diskSpaceWarningLevelRatio",
        "fileReservedTime",
        "flushDiskType",
        "haMaxConnections",
        "haMaxGapNotInSync",
        "inSyncReplicas",
        "litePullMessageEnable",
        "longPollingEnable",
        "maxAutoCreatedGroups",
        "maxAutoCreatedTopics",
        "maxConsumerOffsets",
        "maxFilterBodyBytes",
        "maxFilterMicrosOfPull",
        "maxFilterSteps",
        "maxGroupsOfConnection",
        "maxNewNames",
        "maxNewNamesOfConnection",
        "maxQueueLocks",
        "maxSubscriptionBytes",
        "maxSubscriptionBytesOfConnection",
        "minInSyncReplicas",
        "quotaClientBytes",
        "quotaClientRequests",
        "quotaConnectionsPerAddress",
        "quotaGroupBytes",
        "quotaGroupRequests",
        "quotaOverrides",
        "quotaTopicBytes",
        "quotaTopicRequests",
        "quotaUserBytes",
        "quotaUserRequests",
        "recallMessageEnable",
        "maxTransferBytesBesideSends",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInDisk",
        "maxTransferCountOnMessageInMemory",
        "registerBrokerTimeoutMills",
        "registerNameServerPeriod",
        "rejectTransactionMessage",
        "shortPollingTimeMills",
        "startAcceptSendRequestTimeStamp",
        "syncFlushTimeout",
        "timerCongestNumEachSlot",
        "timerMaxDelaySec",
        "timerStopDequeue",
        "timerStopEnqueue",
        "traceOn",
        "transactionCheckInterval",
        "transactionCheckMax",
        "transactionOpMsgMaxSize",
        "transactionOpPerMessage",
        "transactionTimeOut",
        "validateSystemTopicWhenUpdateTopic",
        "waitTimeMillsInSendQueue",
    }
)
"""Keys that UPDATE_BROKER_CONFIG may change."""


class LoadedSettings(Struct, frozen=True):
    """Settings, and the warnings about them for the operator."""

    value: BrokerSettings
    warnings: tuple[str, ...]


def load_settings(sources: list[Source]) -> LoadedSettings:
    """Load the settings of a broker that starts; raise ``SettingsError`` for a value that is not usable or refused."""
    loaded = load_changed(sources)
    if loaded.value.failover.coordinator_address:
        check_replica(loaded.value.failover, loaded.value.broker.broker_id)
    return loaded


def load_changed(sources: list[Source]) -> LoadedSettings:
    """Load the settings of a broker that runs, as `load_settings`; an elected master has brokerId 0 while it leads."""
    for source in sources:
        for key, given in source.values.items():
            refuse_promises(key, given, source.name)
    loaded = load(BrokerSettings, sources, ignored={**WITHOUT_EFFECT, **dict.fromkeys(REFUSED, "it is the default")})
    value = loaded.value
    parse_delay_levels(value.broker.message_delay_level)
    if value.failover.coordinator_address:
        check_member(value.failover, value.replication)
    else:
        check_role(value.replication, value.broker.broker_id)
    check_precision(value.timers.timer_precision_ms)
    check_access(value.access)
    check_quotas(value.quotas)
    limits = msgspec.structs.replace(value.limits, idle_s=value.broker.server_channel_max_idle_time_seconds)
    warnings = tuple(w for w in loaded.warnings if not w.endswith("has no effect: it is the default"))
    return LoadedSettings(msgspec.structs.replace(value, limits=limits), warnings)


def refuse_promises(key: str, given: object, where: str) -> None:
    """Raise ``SettingsError`` when a setting asks for a feature that is not offered yet."""
    promise = REFUSED.get(key)
    if promise is not None and not promise.keeps(str(given).strip()):
        raise SettingsError(
            f"{key}={given} in {where} cannot be honoured: {promise.reason}. Remove it, or use Apache's"
        )

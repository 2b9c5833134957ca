"""The settings of a name server, under Apache's key names.

Java: ``common.namesrv.NamesrvConfig`` and the part of ``remoting.netty.NettyServerConfig`` that means something here.
Keys of Apache's that tune its thread pools, Netty and its embedded controller are accepted in a file with a warning
(``WITHOUT_EFFECT``).

``CHANGEABLE`` is the allow-list of UPDATE_NAMESRV_CONFIG: everything else is fixed when the process starts, paths and
the black list above all (CVE-2023-37582 was a path that could be changed over the wire).
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

DEFAULT_PORT: Final = 9876


class NameServerConfig(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of a name server. Paths are relative to its directory."""

    bind_address: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 is every IPv4 interface.")] = "0.0.0.0"  # noqa: S104
    listen_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port to listen on; 0 lets the operating system choose one.")
    ] = DEFAULT_PORT
    server_channel_max_idle_time_seconds: Annotated[
        int, Meta(ge=1, description="Seconds without a byte in either direction after which a connection is closed.")
    ] = 120
    kv_config_path: Annotated[
        str, Meta(min_length=1, description="File of the key-value configuration, relative to the server's directory.")
    ] = "kvConfig.json"
    config_store_path: Annotated[
        str,
        Meta(min_length=1, description="File of settings changed over the wire, relative to the server's directory."),
    ] = "namesrv.properties"
    config_black_list: Annotated[
        str,
        Meta(description="Further keys that may not be changed over the wire, separated by semicolons."),
    ] = "configBlackList;configStorePath;kvConfigPath"
    order_message_enable: Annotated[
        bool, Meta(description="Put orderTopicConf of the namespace ORDER_TOPIC_CONFIG into routes.")
    ] = False
    return_order_topic_config_to_broker: Annotated[
        bool, Meta(description="Answer registrations with the whole namespace ORDER_TOPIC_CONFIG.")
    ] = True
    scan_not_active_broker_interval: Annotated[
        int, Meta(ge=100, le=3_600_000, description="Milliseconds between two checks for silent brokers.")
    ] = 5000
    support_acting_master: Annotated[
        bool, Meta(description="Show the slave with the lowest id as master 0 while a broker name has no master.")
    ] = False
    notify_min_broker_id_changed: Annotated[
        bool, Meta(description="Tell the brokers of a name when the lowest id among them changes.")
    ] = False
    enable_all_topic_list: Annotated[bool, Meta(description="Answer GET_ALL_TOPIC_LIST_FROM_NAMESERVER.")] = True
    enable_topic_list: Annotated[bool, Meta(description="Answer the lists of topics by cluster and by unit.")] = True
    need_wait_for_service: Annotated[
        bool, Meta(description="Refuse route requests for a while after the start, until brokers have registered.")
    ] = False
    wait_seconds_for_service: Annotated[
        int, Meta(ge=0, le=86_400, description="How long route requests are refused after the start, in seconds.")
    ] = 45
    delete_topic_with_broker_registration: Annotated[
        bool,
        Meta(
            description=(
                "Treat a registration as the broker's whole table and drop its other topics. Brokers must then "
                "register single topics with enableSingleTopicRegister."
            )
        ),
    ] = False


CHANGEABLE: Final = frozenset(
    {
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
        "scanNotActiveBrokerInterval",
        "supportActingMaster",
        "notifyMinBrokerIdChanged",
        "enableAllTopicList",
        "enableTopicList",
        "needWaitForService",
        "waitSecondsForService",
        "deleteTopicWithBrokerRegistration",
    }
)
"""Keys that UPDATE_NAMESRV_CONFIG may change."""

_NO_POOLS: Final = "there are no thread pools to size: one loop serves every request"
_NO_NETTY: Final = "it tunes Netty, which is not used here"

WITHOUT_EFFECT: Final = {
    "rocketmqHome": "nothing is looked up there",
    "productEnvName": "forwarding to another environment is not offered",
    "clusterTest": "forwarding to another environment is not offered",
    "enableControllerInNamesrv": "no controller runs inside the name server",
    "clientRequestThreadPoolNums": _NO_POOLS,
    "defaultThreadPoolNums": _NO_POOLS,
    "clientRequestThreadPoolQueueCapacity": _NO_POOLS,
    "defaultThreadPoolQueueCapacity": _NO_POOLS,
    "unRegisterBrokerQueueCapacity": "a broker that leaves is removed at once, not queued",
    "serverWorkerThreads": _NO_POOLS,
    "serverCallbackExecutorThreads": _NO_POOLS,
    "serverSelectorThreads": _NO_POOLS,
    "serverOnewaySemaphoreValue": "requests are limited by their bytes",
    "serverAsyncSemaphoreValue": "requests are limited by their bytes",
    "serverSocketSndBufSize": "the operating system sizes the buffers",
    "serverSocketRcvBufSize": "the operating system sizes the buffers",
    "serverSocketBacklog": "the backlog is 1024, Apache's default",
    "writeBufferHighWaterMark": _NO_NETTY,
    "writeBufferLowWaterMark": _NO_NETTY,
    "serverNettyWorkerGroupEnable": _NO_NETTY,
    "serverPooledByteBufAllocatorEnable": _NO_NETTY,
    "useEpollNativeSelector": _NO_NETTY,
    "enableShutdownGracefully": "connections are always closed in order",
    "shutdownWaitTimeSeconds": "connections are always closed in order",
}
"""Apache's keys that have no effect here, and why."""

"""Commands of Apache's tool for what does not exist here: each ends with the reason and with what to use instead."""

from typing import Final

from firearrow.cli.mqadmin.verb import Verb

CONTROLLER: Final = (
    "Apache's controller is not part of FireArrow; groups fail over on etcd: use firearrow failover, and mqadmin "
    "haStatus and getBrokerEpoch for the state of replicas"
)
CONTAINER: Final = (
    "there is no broker container; run several brokers on a host with firearrow broker --workers N, or one mqbroker "
    "each"
)
STATIC: Final = "static (logical) topics are not supported; make an ordinary topic with mqadmin updateTopic"
LITE: Final = "lite topics are not supported; use an ordinary topic, and mqadmin consumerProgress for its groups"
ROCKSDB: Final = (
    "there is no RocksDB here: consume queues and settings are files of Apache's default formats; use mqadmin "
    "exportMetadata for topics and groups as JSON"
)
COMPACTION: Final = "compaction topics are not supported; firearrow store reads the files of ordinary topics"
TIMERS: Final = "there is one engine of timers, the wheel in files; nothing needs to be switched"
MONITOR: Final = (
    "Apache's writes to its own log until it is stopped; scrape /metrics and use the alert rules instead, or "
    "mqadmin consumerProgress for one look"
)

_REASONS: Final = {
    "addBroker": ("Add a broker to specified container.", CONTAINER),
    "removeBroker": ("Remove a broker from specified container.", CONTAINER),
    "startMonitoring": ("Start Monitoring.", MONITOR),
    "updateStaticTopic": ("Update or create static topic, which has fixed number of queues.", STATIC),
    "remappingStaticTopic": ("Remapping static topic.", STATIC),
    "exportMetadataInRocksDB": ("export RocksDB kv config (topics/subscriptionGroups).", ROCKSDB),
    "getSyncStateSet": ("Fetch syncStateSet for target brokers.", CONTROLLER),
    "getControllerMetaData": ("Get controller cluster's metadata.", CONTROLLER),
    "getControllerConfig": ("Get controller config.", CONTROLLER),
    "updateControllerConfig": ("Update controller config.", CONTROLLER),
    "electMaster": ("Re-elect the specified broker as master.", CONTROLLER),
    "cleanBrokerMetadata": ("Clean metadata of broker on controller.", CONTROLLER),
    "dumpCompactionLog": ("Parse compaction log to message.", COMPACTION),
    "rocksDBConfigToJson": ("Convert RocksDB kv config to json.", ROCKSDB),
    "checkRocksdbCqWriteProgress": ("check if rocksdb cq is same as file cq", ROCKSDB),
    "switchTimerEngine": ("switch the engine of timer message in broker", TIMERS),
    "getBrokerLiteInfo": ("Get broker lite info.", LITE),
    "getParentTopicInfo": ("Get parent topic info.", LITE),
    "getLiteTopicInfo": ("Get lite topic info.", LITE),
    "getLiteClientInfo": ("Get lite client info.", LITE),
    "getLiteGroupInfo": ("Get lite group info.", LITE),
    "triggerLiteDispatch": ("Trigger Lite Dispatch.", LITE),
}
VERBS: Final = tuple(Verb(name, told, why_not=why) for name, (told, why) in _REASONS.items())

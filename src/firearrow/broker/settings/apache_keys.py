"""Every key of Apache's ``broker.conf`` that is not a setting of this broker: without effect, or refused.

The keys are the fields of ``BrokerConfig``, ``MessageStoreConfig``, ``NettyServerConfig``, ``NettyClientConfig`` and
``AuthConfig`` of 5.5.0, and additional fields of 4.9. A test compares them with Apache's classes, so a key is either
a setting of ``config.BrokerSettings``, in `WITHOUT_EFFECT` or in `REFUSED`. The loader reports any other key as a
spelling mistake.

A key is refused if it would weaken a guarantee or promise one that is not kept; a key that only tunes how Apache does
its work has no effect.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct


class FixedSetting(Struct, frozen=True):
    """A setting whose ``kept`` values describe this broker anyway; any other value asks for a missing feature."""

    kept: frozenset[str]
    reason: str

    def keeps(self, value: str) -> bool:
        """Whether a value asks for no missing feature."""
        return value.lower() in self.kept


def _off(reason: str) -> FixedSetting:
    return FixedSetting(frozenset({"false", ""}), reason)


def _unset(reason: str) -> FixedSetting:
    return FixedSetting(frozenset({""}), reason)


_CONTROLLER: Final = "there is no controller here: brokers of a group choose their master by etcd (coordinatorAddress)"
_ROCKSDB: Final = "there is no RocksDB here: queues, timers and settings are kept in Apache's plain files"
_AUTH: Final = "there is one way to know users and one to ask rules here, and both keep them in memory"
_PATHS: Final = "everything lies below storePathRootDir; link the directory there instead"
_LOOKUP: Final = "name servers are listed in namesrvAddr; looking them up elsewhere is not offered yet"

REFUSED: Final = {
    "duplicationEnable": _off("a log is copied from offset 0 or from where its copy ends, never twice"),
    "allAckInSyncStateSet": _off(_CONTROLLER),
    "enableSlaveActingMaster": _off("a slave never acts for its master: start it as a master instead"),
    "totalReplicas": FixedSetting(frozenset({"1", ""}), "it belongs to slaves that act for their master"),
    "enableAutoInSyncReplicas": _off("it belongs to slaves that act for their master"),
    "enableControllerMode": _off(_CONTROLLER),
    "controllerAddr": _unset(_CONTROLLER),
    "fetchControllerAddrByDnsLookup": _off(_CONTROLLER),
    "enableDLegerCommitLog": _off("DLedger is not offered; a replicated log comes later"),
    "dLegerGroup": _unset("DLedger is not offered; a replicated log comes later"),
    "dLegerPeers": _unset("DLedger is not offered; a replicated log comes later"),
    "dLegerSelfId": _unset("DLedger is not offered; a replicated log comes later"),
    "preferredLeaderId": _unset("DLedger is not offered; a replicated log comes later"),
    "storePathDLedgerCommitLog": _unset("DLedger is not offered; a replicated log comes later"),
    "storeType": FixedSetting(frozenset({"default", ""}), _ROCKSDB),
    "configManagerVersion": FixedSetting(frozenset({"v1", ""}), _ROCKSDB),
    "rocksdbCQDoubleWriteEnable": _off(_ROCKSDB),
    "timerRocksDBEnable": _off(_ROCKSDB),
    "transRocksDBEnable": _off(_ROCKSDB),
    "indexRocksDBEnable": _off(_ROCKSDB),
    "useSingleRocksDBForAllConfigs": _off(_ROCKSDB),
    "popConsumerKVServiceEnable": _off(_ROCKSDB),
    "popConsumerKVServiceInit": _off(_ROCKSDB),
    "timerInterceptDelayLevel": _off("delay levels have their own queues here"),
    "enableLmq": _off("light queues are not offered yet"),
    "enableMultiDispatch": _off("light queues are not offered yet"),
    "enableConsumeQueueExt": _off("extended queue entries are not written; Apache reads the plain ones"),
    "defaultMessageRequestMode": FixedSetting(frozenset({"pull", ""}), "pop consumption is not offered yet"),
    "useStaticSubscription": _off("subscriptions kept by the broker are not offered yet"),
    "enableMixedMessageType": _off("topics of mixed message types are not offered"),
    "coldDataFlowControlEnable": _off("the control of cold reads is not offered; cold reads never hold up others here"),
    "enableNetWorkFlowControl": _off("it belongs to light topics, which are not offered yet"),
    "rejectPullConsumerEnable": _off("consumers that pull by themselves are always served"),
    "storePathCommitLog": _unset(_PATHS),
    "readOnlyCommitLogStorePaths": _unset(_PATHS),
    "storePathEpochFile": _unset(_PATHS),
    "storePathBrokerIdentity": _unset(_PATHS),
    "fetchNamesrvAddrByAddressServer": _off(_LOOKUP),
    "fetchNameSrvAddrByDnsLookup": _off(_LOOKUP),
    "messageStorePlugIn": _unset("Java classes cannot be loaded here"),
    "enableBatchPush": _off("it belongs to a store of Apache's own that is not offered"),
    "isInBrokerContainer": _off("several brokers in one process are not offered"),
    "isBrokerContainer": _off("several brokers in one process are not offered"),
    "useTLS": _off("calls to name servers are plaintext; TLS for them is not offered yet"),
}
"""Keys that are refused unless they have a kept value, and why."""

_GROUPS: Final = {
    "there are no thread pools to size: one loop serves every request": """
        ackMessageThreadPoolNums ackThreadPoolQueueCapacity adminBrokerThreadPoolNums
        adminBrokerThreadPoolQueueCapacity asyncSendEnable clientManageThreadPoolNums
        clientManagerThreadPoolQueueCapacity consumerManageThreadPoolNums consumerManagerThreadPoolQueueCapacity
        endTransactionPoolQueueCapacity endTransactionThreadPoolNums heartbeatThreadPoolNums
        heartbeatThreadPoolQueueCapacity litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity
        loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity processReplyMessageThreadPoolNums
        pullMessageThreadPoolNums pullThreadPoolQueueCapacity putMessageFutureThreadPoolNums
        putThreadPoolQueueCapacity queryMessageThreadPoolNums queryThreadPoolQueueCapacity
        replyThreadPoolQueueCapacity sendMessageThreadPoolNums sendThreadPoolQueueCapacity recoverConcurrently
        recoverThreadPoolNums batchDispatchRequestThreadPoolNums dispatchCqThreads dispatchCqCacheNum
        topicQueueLockNum serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads clientWorkerThreads
        clientCallbackExecutorThreads disableCallbackExecutor useReentrantLockWhenPutMessage useABSLock
        debugLockEnable spinLockCollisionRetreatOptimalDegree maxAsyncPutMessageRequests sharedByteBufferNum
        dispatchFromSenderThread enableBuildConsumeQueueConcurrently enableAsyncReput highSpeedMode
        enableFastChannelEventProcess waitTimeMillsInAckQueue waitTimeMillsInAdminBrokerQueue
        waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue
        waitTimeMillsInTransactionQueue putMessageTimeout enableAcceleratedRecovery""",
    "the broker always moves groups by itself, so that every client obeys": "useServerSideResetOffset",
    "it tunes Netty, which is not used here": """
        serverNettyWorkerGroupEnable serverPooledByteBufAllocatorEnable useEpollNativeSelector
        writeBufferHighWaterMark writeBufferLowWaterMark disableNettyWorkerGroup clientPooledByteBufAllocatorEnable
        transferMsgByHeap clientCloseSocketIfTimeout channelNotActiveInterval isScanAvailableNameSrv
        maxReconnectIntervalTimeSeconds socksProxyConfig enableReconnectForGoAway clientChannelMaxIdleTimeSeconds
        connectTimeoutMillis""",
    "requests are limited by their bytes: see the limits": """
        serverOnewaySemaphoreValue serverAsyncSemaphoreValue clientOnewaySemaphoreValue clientAsyncSemaphoreValue""",
    "the operating system sizes the buffers": """
        serverSocketSndBufSize serverSocketRcvBufSize clientSocketSndBufSize clientSocketRcvBufSize""",
    "the backlog is 1024, Apache's default": "serverSocketBacklog",
    "connections are always closed in order": "enableShutdownGracefully shutdownWaitTimeSeconds",
    "the log is written and read with plain calls, nothing is mapped": """
        cleanSwapedMapInterval commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
        logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum mappedFileSwapEnable
        destroyMapedFileIntervalForcibly redeleteHangedFileInterval flushLeastPagesWhenWarmMapedFile
        warmMapedFileEnable writeWithoutMmap putConsumeQueueDataByFileChannel osPageCacheBusyTimeOutMills
        dataReadAheadEnable""",
    "there is no pool of buffers before the log: it would lose acknowledged messages with the process": """
        transientStorePoolEnable transientStorePoolSize fastFailIfNoBufferInStorePool commitCommitLogLeastPages
        commitCommitLogThoroughInterval commitIntervalCommitLog wakeCommitWhenPutMessage wakeFlushWhenPutMessage
        flushCommitLogTimed readUnCommitted""",
    "queues, index and checkpoint are flushed together: see dispatchFlushInterval": """
        flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval flushIntervalConsumeQueue""",
    "every record is checked and stamped, always": """
        checkCRCOnRecover enabledAppendPropCRC forceVerifyPropCRC checkCommitLogOffsetOnRecover maxChecksumRange""",
    "recovery begins where the last durable state is known to end": """
        commitLogRecoverMaxNum maxRecoveryCommitlogFiles messageIndexSafe recheckReputOffsetFromCq
        enableLogConsumeQueueRepeatedlyBuildWhenRecover enableRunningFlagsInFlush correctLogicMinOffsetForceInterval
        correctLogicMinOffsetSleepInterval""",
    "the index is written and read whenever messageIndexEnable says so": """
        indexFileReadEnable indexFileWriteEnable putMsgIndexHightWater maxRocksDBIndexQueryDays""",
    "reads are planned by the limits of a pull alone": """
        accessMessageInMemoryHotRatio travelCqFileNumWhenGetMessage maxConsumeQueueScan
        maxFilterMessageSize pullBatchMaxMessageCount sampleCountThreshold sampleSteps searchBcqByCacheEnable
        maxMsgsNumBatch defaultQueryMaxNum estimateAccumulation""",
    "the log is sent to slaves as fast as they take it": "haFlowControlEnable maxHaTransferByteInSecond",
    "5.x calls it haMaxGapNotInSync: set that": "haSlaveFallbehindMax",
    "a send waits for slaves as long as for the disk: set syncFlushTimeout": "slaveTimeout",
    "a copy begins where its master's log begins, or where the copy ends": """
        syncFromLastFile maxSlaveResendLength syncMasterFlushOffsetWhenStartup""",
    "a slave never acts for its master": """
        skipPreOnline brokerNotActiveTimeoutMillis brokerHeartbeatInterval sendHeartbeatTimeoutMillis
        syncBrokerMemberGroupPeriod enableRemoteEscape lockInStrictMode forwardTimeout compatibleWithOldNameSrv""",
    "slaves ask for the tables of their master every 3 s to 60 s, Apache's default": "syncBrokerMetadataPeriod",
    "offsets are answered as the slave has them": "offsetCheckInSlave",
    "disks are not shared by replicas": "replicasPerDiskPartition",
    _CONTROLLER: """
        asyncLearner controllerHeartBeatTimeoutMills syncControllerMetadataPeriod
        checkSyncStateSetPeriod brokerElectionPriority
        cleanOfflineBrokerInterval""",
    _ROCKSDB: """
        bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin combineAssignOffsetCQType
        combineCQEnableCheckSelf combineCQLoadingCQTypes combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType
        combineCQUseRocksdbForLmq enableRocksDBLog iteratorWhenUseRocksdbConsumeQueue memTableFlushIntervalMs
        realTimePersistRocksDBConfig rocksdbCompressionType rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold
        statRocksDBCQIntervalSec timerRocksDBPrecisionMs timerRocksDBRollIntervalHours timerRocksDBRollMaxTps
        timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps useSeparateStorePathForRocksdbCQ
        transactionCheckRocksdbCoreThreads transactionCheckRocksdbMaxThreads transactionCheckRocksdbQueueCapacity
        popConsumerKVServiceLog popConsumerFSServiceInit timerRecallToTimelineEnable transWriteOriginTransHalfEnable""",
    _AUTH: """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath authenticationMetadataProvider
        authenticationProvider authorizationMetadataProvider
        authorizationProvider authorizationStrategy statefulAuthenticationCacheExpiredSecond
        statefulAuthenticationCacheMaxNum statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum
        userCacheExpiredSecond userCacheMaxNum userCacheRefreshSecond clusterName configName""",
    "op messages are written at once, with the final messages of the same turn": "transactionOpBatchInterval",
    "pending half messages are counted from the log, not from a file": "transactionMetricFlushInterval",
    "timed messages are moved by two loops, tried until they are stored, and counted as they come and go": """
        timerCheckMetricsWhen timerColdDataCheckIntervalMs timerEnableCheckMetrics timerEnableDisruptor
        timerEnableRetryUntilSuccess timerGetMessageThreadNum timerMetricSmallThreshold timerProgressLogIntervalMs
        timerPutMessageThreadNum timerRecallToTimeWheelEnable timerReputServiceCorePoolSize
        timerReputServiceMaxPoolSize timerReputServiceQueueCapacity timerSkipUnknownError timerWarmEnable
        timerWheelSnapshotFlush timerWheelSnapshotIntervalMs maxDelayTime""",
    "pop consumption is refused until it is offered": """
        appendAckAsync appendCkAsync defaultPopShareQueueNum enableNotifyAfterPopOrderLockRelease
        enableNotifyBeforePopCalculateLag enablePopBatchAck enablePopBufferMerge enablePopLog
        enablePopMessageThreshold enablePopMetrics enableRetryTopicV2 enableSkipLongAwaitingAck
        initPopOffsetByCheckMsgInMem maxMessageFilterNumForNotification maxPopPollingSize popCkMaxBufferSize
        popCkOffsetMaxQueueSize popCkStayBufferTime popCkStayBufferTimeOut popFromRetryProbability
        popFromRetryProbabilityForPriority popInflightMessageThreshold popLongPollingForceNotifyInterval
        popPollingMapExpireTimeSeconds popPollingMapSize popPollingSize popResponseReturnActualRetryTopic
        popReviveConcurrency popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead popReviveSkipIfGroupAbsent
        retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval reviveMaxSlow reviveScanTime
        serverLoadBalancerEnable loadBalancePollNameServerInterval skipWhenCKRePutReachMaxTimes
        useMessageFilterForNotification useSeparateRetryQueue clearRetryTopicWhenDeleteTopic priorityOrderAsc""",
    "light topics are refused until they are offered": """
        enableLiteEventMode enableLitePopLog enableLmqQuota enableLmqStats liteEventCheckInterval
        liteEventFullDispatchDelayTime liteEventFullDispatchDelayTimeForWildcardGroup liteLagCountMetricsEnable
        liteLagLatencyCollectEnable liteLagLatencyMetricsEnable liteLagLatencyTopK liteSubscriptionCheckInterval
        liteSubscriptionCheckTimeoutMills liteTtlCheckInterval maxClientEventCount maxLiteSubscriptionCount
        maxLmqConsumeQueueNum minLiteTTl""",
    "filters by SQL92 read the records, without bit maps": """
        enableCalcFilterBitMap expectConsumerNumUseFilter filterDataCleanTimeSpan maxErrorRateOfBloomFilter
        bitMapLengthConsumeQueueExt mappedFileSizeConsumeQueueExt""",
    "filter servers are gone": "filterServerNums",
    "batch queues and compacted topics are refused until they are offered": """
        compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal compactionThreadNum
        enableCompaction mapperFileSizeBatchConsumeQueue maxOffsetMapSize isEnableBatchPush""",
    "delayed messages are delivered one after the other, each as soon as it is due": """
        enableScheduleAsyncDeliver enableScheduleMessageStats scheduleAsyncDeliverMaxPendingLimit
        scheduleAsyncDeliverMaxResendNum2Blocked delayOffsetUpdateVersionStep""",
    "it belongs to the proxy, which is not part of the broker": """
        broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond enableBroadcastOffsetStore
        consumerOffsetUpdateVersionStep""",
    "accounts and billing are not kept": """
        accountStatsEnable accountStatsPrintZeroValues commercialBaseCount commercialSizePerMsg commercialBigCount
        commercialEnable commercialTimerCount commercialTransCount""",
    "metrics and statistics are always kept": """
        autoDeleteUnusedStats enableConnectionMetrics enableDetailStat enableLagAndDlqMetrics
        enableMessageStoreMetrics enableRemotingMetrics enableRequestMetrics enableStatsMetrics
        enableTransactionMetrics maxStatsIdleTimeInMinutes printChannelGroups printChannelGroupsMinNum
        isolateLogEnable""",
    "metrics are served for Prometheus to fetch, never sent: see metricsExporterType": """
        metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
        metricsExportBatchMaxDataPoints metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta""",
    "cold reads never hold up others here": """
        cgColdReadThreshold coldCtrStrategyEnable coldDataScanEnable globalColdReadThreshold usePIDColdCtrStrategy""",
    "a changed topic is registered at once, and a table of more than 2,000 topics in parts of as many": """
        enableSingleTopicRegister enableSplitRegistration splitRegistrationSize forceRegister enableSplitMetadata
        splitMetadataSize updateNameServerAddrPeriod fetchNamesrvAddrInterval""",
    "nothing is looked up there": "rocketmqHome brokerConfigPath",
    "system groups are always there": "enableCreateSysGroup",
    "producers are always known": "enableRegisterProducer",
    "topics over 127 bytes always take the record version that holds them": """
        autoMessageVersionOnTopicLen maxTopicLength""",
    "a start offers its messages at once": "disappearTimeAfterStart",
    "a group that falls behind goes on consuming": """
        consumerFallbehindThreshold diskFallRecorded disableConsumeIfConsumerReadSlowly""",
    "offsets of deleted topics go with them": "enableCleanExpiredOffset persistConsumerOffsetIncrementally",
    "files are deleted a few at a time": """
        deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval logicalDiskSpaceCleanForciblyThreshold
        maxBatchDeleteFilesNum""",
    "the members of a group are told at once, unless the group's own settings say no": """
        notifyConsumerIdsChangedEnable realTimeNotifyConsumerChange""",
    "clients are taken for gone after 120 s of silence, Apache's default": """
        channelExpiredTimeout subscriptionExpiredTimeout""",
    "offsets of delay levels are written every 10 s, Apache's default": "flushDelayOffsetInterval",
    "the history of offsets is not kept": "flushConsumerOffsetHistoryInterval",
    "replies are refused until they are offered": "storeReplyMessageEnable",
}


def _each() -> Iterator[tuple[str, str]]:
    for reason, keys in _GROUPS.items():
        for key in keys.split():
            yield key, reason


WITHOUT_EFFECT: Final = dict(_each())
"""Keys that only tune how Apache works, or tune a feature that is missing here, and why they have no effect."""

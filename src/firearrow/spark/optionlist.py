"""Every option of the sources: its name, its default in words, what it does. The reference page is made from it."""

from typing import Final, NamedTuple


class Option(NamedTuple):
    """One option: its name, its default in words, and what it does."""

    name: str
    default: str
    says: str
    kafka: str = "-"
    """What Spark's Kafka connector calls it."""


CONNECTION: Final = (
    Option("nameServer", "required", "Name servers, `host:port`, several with `;`.", "kafka.bootstrap.servers"),
    Option("accessKey", "none", "Account of ACL; refused where a broker is known to check none.", "kafka.sasl.*"),
    Option("secretKey", "none", "Its secret.", "kafka.sasl.*"),
    Option("securityToken", "none", "Its token, where one is used.", "kafka.sasl.*"),
    Option("tls", "false", "Speak TLS to name servers and brokers.", "kafka.security.protocol"),
    Option("tlsVerify", "false", "Check their certificates and names.", "kafka.ssl.*"),
    Option("tlsCaFile", "the system's", "PEM file of the authorities to trust.", "kafka.ssl.truststore.*"),
    Option("tlsCertFile", "none", "PEM file of our certificate.", "kafka.ssl.keystore.*"),
    Option("tlsKeyFile", "none", "PEM file of its key.", "kafka.ssl.keystore.*"),
    Option("tlsKeyPassword", "none", "Password of the key.", "kafka.ssl.key.password"),
)

SOURCE: Final = (
    Option("subscribe", "one of three", "Topics, separated by commas.", "subscribe"),
    Option("subscribePattern", "one of three", "Regular expression that whole topic names match.", "subscribePattern"),
    Option("assign", "one of three", 'Queues: `{"topic": {"broker": [0, 1]}}`, or `{"topic": [0, 1]}`.', "assign"),
    Option(
        "startingOffsets",
        "earliest (batch), latest (stream)",
        "`earliest`, `latest` or JSON; for a stream only where its checkpoint is new.",
        "startingOffsets",
    ),
    Option("startingTimestamp", "none", "From this store time on, to the millisecond.", "startingTimestamp"),
    Option(
        "startingOffsetsByTimestamp", "none", "JSON of times by topic, broker and queue.", "startingOffsetsByTimestamp"
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "latest",
        "Where nothing was stored since: `latest` begins at the end, `error` refuses.",
        "startingOffsetsByTimestampStrategy",
    ),
    Option("endingOffsets", "latest", "Batch: `latest` or JSON.", "endingOffsets"),
    Option("endingTimestamp", "none", "Batch: up to this store time, exclusive.", "endingTimestamp"),
    Option("endingOffsetsByTimestamp", "none", "Batch: JSON of times.", "endingOffsetsByTimestamp"),
    Option("maxOffsetsPerTrigger", "none", "Rows of one micro-batch at most.", "maxOffsetsPerTrigger"),
    Option(
        "maxBytesPerTrigger",
        "none",
        "Bytes of one micro-batch at most, as stored (compressed), by samples.",
        "-",
    ),
    Option("minOffsetsPerTrigger", "none", "Wait for so many rows before a micro-batch.", "minOffsetsPerTrigger"),
    Option("maxTriggerDelayMs", "900000", "But no longer than this.", "maxTriggerDelay"),
    Option("minPartitions", "1", "Tasks at least, while there are rows.", "minPartitions"),
    Option("maxPartitions", "cores of the driver's machine", "Tasks at most: set it to the cores of the cluster.", "-"),
    Option("rowsPerPartition", "50000", "A further task is used from this many rows a task on.", "-"),
    Option(
        "maxRecordsPerPartition",
        "10000000",
        "Rows of one task at most, whatever maxPartitions says.",
        "maxRecordsPerPartition",
    ),
    Option("failOnDataLoss", "true", "Fail when messages to be read are gone, with the exact gap.", "failOnDataLoss"),
    Option("groupId", "none", "Consumer group under which progress is reported to the brokers.", "kafka.group.id"),
    Option("tags", "*", "Tags to read, `A || B`; the broker filters.", "-"),
    Option("sql", "none", "SQL92 expression over properties; the broker filters.", "-"),
    Option("pushFilters", "false", "Batch: take WHERE on topic, queue, offset, time, tags into the source.", "-"),
    Option("readFrom", "master", "`master`, or `replica` to spare the masters.", "kafka.client.rack"),
    Option(
        "connectTimeoutMs",
        "15000",
        "How long a process tries to reach a cluster that has never answered it, retries and all.",
        "kafka.default.api.timeout.ms",
    ),
    Option("fetchRetries", "10", "Attempts after the first, of every request.", "fetchOffset.numRetries"),
    Option("fetchRetryIntervalMs", "200", "Pause before the first, doubled up to 5 s.", "fetchOffset.retryIntervalMs"),
    Option("fetchTimeoutMs", "30000", "How long an answer is awaited.", "kafkaConsumer.pollTimeoutMs"),
    Option("fetchMaxMessages", "65536", "Messages asked for at once; brokers limit it too.", "kafka.max.poll.records"),
    Option("fetchMaxBytes", "1048576", "Bytes asked for at once; brokers limit it too.", "kafka.fetch.max.bytes"),
    Option("fetchesInFlight", "16", "Requests of one task that are under way at once.", "-"),
    Option("batchRows", "16384", "Rows of one Arrow batch, about.", "-"),
    Option("batchBytes", "33554432", "Bytes of records, and of inflated bodies, of one Arrow batch.", "-"),
    Option("checkCrc", "false", "Compare every body with its CRC.", "kafka.check.crcs"),
    Option("maxBodyBytes", "4194304", "A compressed body may not become larger.", "-"),
    Option(
        "badBodies",
        "fail",
        "A body that does not inflate: `fail`, or `keep` it as stored (`sys_flag` bit 0).",
        "-",
    ),
)

STORE: Final = (
    Option("path", "required", "Directory of the store, as `load(path)` or by name."),
    Option("brokerName", "broker-a", "Name that the column `broker` and `row_id` get; files do not tell it."),
    Option("subscribe", "all topics", "Topics, separated by commas."),
    Option("subscribePattern", "all topics", "Regular expression that whole topic names match."),
    Option("startingTimestamp", "none", "From this store time on, to the millisecond."),
    Option("endingTimestamp", "none", "Up to this store time, exclusive."),
    Option("startingOffsets", "earliest", "`earliest` or JSON as of the topics source."),
    Option("endingOffsets", "latest", "`latest` or JSON as of the topics source."),
    Option("minPartitions", "1", "Tasks at least, while there are rows."),
    Option("maxPartitions", "cores of the driver's machine", "Tasks at most: set it to the cores of the cluster."),
    Option("rowsPerPartition", "50000", "A further task is used from this many rows a task on."),
    Option("maxRecordsPerPartition", "10000000", "Rows of one task at most."),
    Option("failOnDataLoss", "true", "Fail when files vanish while they are read, or records are damaged."),
    Option("pushFilters", "false", "Take WHERE on topic, queue, offset, time and tags into the source."),
    Option("batchRows", "16384", "Rows of one Arrow batch, about."),
    Option("batchBytes", "33554432", "Bytes of inflated bodies of one Arrow batch, about."),
    Option("checkCrc", "false", "Compare every body with its CRC."),
    Option("maxBodyBytes", "4194304", "A compressed body may not become larger."),
    Option("badBodies", "fail", "A body that does not inflate: `fail`, or `keep` it as stored (`sys_flag` bit 0)."),
)

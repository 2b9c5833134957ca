"""Every option of the sources: its name, its default in words, what it does. The reference page is made from it."""

from typing import Final, NamedTuple


class Option(NamedTuple):
    """One option: its name, its default in words, and what it does."""

    name: str
    default: str
    says: str
    kafka: str = "-"
    """The name of the option in Spark's Kafka connector."""


CONNECTION: Final = (
    Option("nameServer", "required", "Name servers, `host:port`, several with `;`.", "kafka.bootstrap.servers"),
    Option(
        "accessKey",
        "none",
        "Access key of an account; refused if a broker is known not to check accounts.",
        "kafka.sasl.*",
    ),
    Option("secretKey", "none", "Its secret.", "kafka.sasl.*"),
    Option("securityToken", "none", "Security token of temporary keys.", "kafka.sasl.*"),
    Option(
        "signatureMethod",
        "HmacSHA1",
        "How requests are signed: `HmacSHA1`, or `HmacSHA256`, which only FireArrow's servers know.",
        "kafka.sasl.*",
    ),
    Option("tls", "false", "Speak TLS to name servers and brokers.", "kafka.security.protocol"),
    Option("tlsVerify", "false", "Check the certificates and names of servers.", "kafka.ssl.*"),
    Option("tlsCaFile", "the system's", "PEM file of the certificate authorities to trust.", "kafka.ssl.truststore.*"),
    Option("tlsCertFile", "none", "PEM file of the client's certificate.", "kafka.ssl.keystore.*"),
    Option("tlsKeyFile", "none", "PEM file of the client's private key.", "kafka.ssl.keystore.*"),
    Option("tlsKeyPassword", "none", "Password of that key.", "kafka.ssl.key.password"),
)

SOURCE: Final = (
    Option("subscribe", "one of three", "Topics, separated by commas.", "subscribe"),
    Option("subscribePattern", "one of three", "Regular expression that whole topic names match.", "subscribePattern"),
    Option("assign", "one of three", 'Queues: `{"topic": {"broker": [0, 1]}}`, or `{"topic": [0, 1]}`.', "assign"),
    Option(
        "startingOffsets",
        "earliest (batch), latest (stream)",
        "`earliest`, `latest` or JSON; for a stream only with a new checkpoint.",
        "startingOffsets",
    ),
    Option("startingTimestamp", "none", "From this store time on, to the millisecond.", "startingTimestamp"),
    Option(
        "startingOffsetsByTimestamp", "none", "JSON of times by topic, broker and queue.", "startingOffsetsByTimestamp"
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "latest",
        "If nothing was stored since that time: `latest` begins at the end, `error` fails.",
        "startingOffsetsByTimestampStrategy",
    ),
    Option("endingOffsets", "latest", "`latest` or JSON. Streams make no batch beyond the JSON.", "endingOffsets"),
    Option("endingTimestamp", "none", "Batch: up to this store time, exclusive.", "endingTimestamp"),
    Option("endingOffsetsByTimestamp", "none", "Batch: JSON of times.", "endingOffsetsByTimestamp"),
    Option("maxOffsetsPerTrigger", "none", "Most rows of a micro-batch.", "maxOffsetsPerTrigger"),
    Option(
        "maxBytesPerTrigger",
        "none",
        "Most bytes of a micro-batch, as stored (compressed), estimated from samples.",
        "-",
    ),
    Option("minOffsetsPerTrigger", "none", "Fewest rows of a micro-batch.", "minOffsetsPerTrigger"),
    Option("maxTriggerDelayMs", "900000", "Longest wait for minOffsetsPerTrigger rows.", "maxTriggerDelay"),
    Option("minPartitions", "1", "Fewest tasks, while there are rows.", "minPartitions"),
    Option("maxPartitions", "cores of the driver's machine", "Most tasks: set it to the cores of the cluster.", "-"),
    Option("rowsPerPartition", "50000", "Rows of a task before another task is used.", "-"),
    Option(
        "maxRecordsPerPartition",
        "10000000",
        "Most rows of a task, even if that needs more tasks than maxPartitions.",
        "maxRecordsPerPartition",
    ),
    Option(
        "failOnDataLoss", "true", "Fail if messages to be read are missing, and name the exact gap.", "failOnDataLoss"
    ),
    Option("groupId", "none", "Consumer group under which progress is reported to the brokers.", "kafka.group.id"),
    Option("tags", "*", "Tags to read, `A || B`; the broker filters.", "-"),
    Option("sql", "none", "SQL92 expression over properties; the broker filters.", "-"),
    Option(
        "cel", "none", "CEL expression over properties and JSON body; FireArrow's brokers filter, Apache's do not.", "-"
    ),
    Option(
        "pushFilters", "false", "Batch: push WHERE on topic, queue, offset, time and tags down into the source.", "-"
    ),
    Option(
        "readFrom",
        "master",
        "`master`, or `replica` to spare the masters (not in groups that elect their master).",
        "kafka.client.rack",
    ),
    Option(
        "connectTimeoutMs",
        "15000",
        "How long a process tries to reach a cluster that has never answered, retries included.",
        "kafka.default.api.timeout.ms",
    ),
    Option("fetchRetries", "10", "Retries of every request.", "fetchOffset.numRetries"),
    Option(
        "fetchRetryIntervalMs",
        "200",
        "Back-off before the first retry, doubled up to 5 s.",
        "fetchOffset.retryIntervalMs",
    ),
    Option("fetchTimeoutMs", "30000", "Timeout of a request.", "kafkaConsumer.pollTimeoutMs"),
    Option("fetchMaxMessages", "65536", "Messages in a pull; brokers limit it too.", "kafka.max.poll.records"),
    Option("fetchMaxBytes", "1048576", "Bytes in a pull; brokers limit it too.", "kafka.fetch.max.bytes"),
    Option("fetchesInFlight", "16", "Requests of a task in flight at once.", "-"),
    Option("batchRows", "16384", "Approximate rows of an Arrow batch.", "-"),
    Option("batchBytes", "33554432", "Bytes of records, and of inflated bodies, of one Arrow batch.", "-"),
    Option("checkCrc", "false", "Compare every body with its CRC.", "kafka.check.crcs"),
    Option("maxBodyBytes", "4194304", "Largest inflated body in bytes.", "-"),
    Option(
        "badBodies",
        "fail",
        "A body that does not inflate: `fail`, or `keep` it as stored (`sys_flag` bit 0).",
        "-",
    ),
)

STORE: Final = (
    Option("path", "required", "Directory of the store, as `load(path)` or by name."),
    Option(
        "brokerName", "broker-a", "Broker name for the columns `broker` and `row_id`; store files do not contain it."
    ),
    Option("subscribe", "all topics", "Topics, separated by commas."),
    Option("subscribePattern", "all topics", "Regular expression that whole topic names match."),
    Option("startingTimestamp", "none", "From this store time on, to the millisecond."),
    Option("endingTimestamp", "none", "Up to this store time, exclusive."),
    Option("startingOffsets", "earliest", "`earliest` or JSON as of the topics source."),
    Option("endingOffsets", "latest", "`latest` or JSON as of the topics source."),
    Option("minPartitions", "1", "Fewest tasks, while there are rows."),
    Option("maxPartitions", "cores of the driver's machine", "Most tasks: set it to the cores of the cluster."),
    Option("rowsPerPartition", "50000", "Rows of a task before another task is used."),
    Option("maxRecordsPerPartition", "10000000", "Most rows of a task."),
    Option("failOnDataLoss", "true", "Fail when files vanish while they are read, or records are damaged."),
    Option("pushFilters", "false", "Push WHERE on topic, queue, offset, time and tags down into the source."),
    Option("batchRows", "16384", "Approximate rows of an Arrow batch."),
    Option("batchBytes", "33554432", "Approximate bytes of inflated bodies in an Arrow batch."),
    Option("checkCrc", "false", "Compare every body with its CRC."),
    Option("maxBodyBytes", "4194304", "Largest inflated body in bytes."),
    Option("badBodies", "fail", "A body that does not inflate: `fail`, or `keep` it as stored (`sys_flag` bit 0)."),
)

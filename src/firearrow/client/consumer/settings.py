"""What a consumer can be told, with RocketMQ's defaults. Java: ``DefaultMQPushConsumer``, ``ClientConfig``.

``ConsumerOptions`` is the same for keyword arguments. A test keeps the two equal.
"""

from typing import Annotated, Any, Final, TypedDict

import msgspec
from msgspec import Meta, Struct

from firearrow.client.access import Access, check_ip, check_names, unusable, without_secrets
from firearrow.client.consumer.window import MIB, WindowLimits
from firearrow.errors import SettingsError
from firearrow.model.names import DEFAULT_CONSUMER_GROUP, group_fault
from firearrow.record.decode import MAX_BODY_BYTES
from firearrow.runtime.tlssettings import ClientTls

FIRST: Final = "first"
LAST: Final = "last"
TIMESTAMP: Final = "timestamp"
DEFAULT_RECONSUME_TIMES: Final = 16
DEFAULT_TIMESTAMP_AGO_MS: Final = 30 * 60 * 1000

Start = str | int
"""``"first"``, ``"last"``, ``"timestamp"`` for half an hour ago, or a time in milliseconds since 1970."""


class ConsumerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The knobs of a consumer."""

    group: Annotated[str, Meta(description="Consumer group.")]
    instance_name: Annotated[str, Meta(description="Last part of the client id; empty: unique.")] = ""
    client_ip: Annotated[str, Meta(description="Address in client ids and unique keys; empty: this machine's.")] = ""
    unit_name: Annotated[str, Meta(description="Added to the client id.")] = ""
    ordered: Annotated[bool, Meta(description="One message of a queue at a time, in order, on one member.")] = False
    broadcasting: Annotated[bool, Meta(description="Every member gets every message.")] = False
    start: Annotated[Start, Meta(description="Where a new group starts: first, last, timestamp, or a time.")] = LAST
    workers: Annotated[int, Meta(ge=1, le=10_000, description="Handlers that run at once.")] = 20
    pull_batch: Annotated[int, Meta(ge=1, le=1024, description="Messages asked for at once.")] = 32
    pull_batch_bytes: Annotated[int, Meta(ge=1, description="Bytes asked for at once (5.x).")] = 256 * 1024
    max_body_bytes: Annotated[
        int, Meta(ge=1, description="Largest body after decompression; a larger one is a fault of its message.")
    ] = MAX_BODY_BYTES
    pull_interval_ms: Annotated[int, Meta(ge=0, le=65_535, description="Pause between two pulls of a queue.")] = 0
    pull_threshold: Annotated[int, Meta(ge=1, le=65_535, description="Unfinished messages held of a queue.")] = 1000
    pull_threshold_bytes: Annotated[int, Meta(ge=1, description="Unfinished bytes held of a queue.")] = 100 * MIB
    consume_span: Annotated[int, Meta(ge=1, le=65_535, description="Offsets from first to last unfinished.")] = 2000
    pull_threshold_topic: Annotated[
        int,
        Meta(ge=-1, le=6_553_500, description="Unfinished messages held of a topic, shared by its queues; -1: off."),
    ] = -1
    pull_threshold_topic_bytes: Annotated[
        int, Meta(ge=-1, description="Unfinished bytes held of a topic, shared by its queues; -1: off.")
    ] = -1
    pull_error_pause_ms: Annotated[int, Meta(ge=1, description="Before the next pull after a refused one.")] = 3000
    max_reconsume_times: Annotated[
        int, Meta(ge=-1, description="Deliveries again before giving up; -1 is 16, or for ever when ordered.")
    ] = -1
    suspend_ms: Annotated[
        int, Meta(ge=10, le=30_000, description="Pause of an ordered queue whose handler failed.")
    ] = 1000
    consume_timeout_ms: Annotated[int, Meta(ge=1, description="A handler that takes longer loses its message.")] = (
        900_000
    )
    drain_ms: Annotated[int, Meta(ge=0, description="How long closing waits for handlers to finish.")] = 0
    auto_commit: Annotated[bool, Meta(description="Commit offsets regularly; otherwise only when told to.")] = True
    persist_ms: Annotated[int, Meta(ge=10, description="How often offsets are committed.")] = 5000
    rebalance_ms: Annotated[int, Meta(ge=10, description="How often queues are divided anew.")] = 20_000
    rebalance_timeout_ms: Annotated[
        int,
        Meta(ge=1, description="For a rebalance listener, and for handlers that it has to wait for."),
    ] = 30_000
    poll_name_server_ms: Annotated[int, Meta(ge=10, description="How often routes are asked for.")] = 30_000
    fetch_name_server_ms: Annotated[
        int, Meta(ge=10, description="How often name servers are looked up, where an http:// address is given.")
    ] = 120_000
    heartbeat_ms: Annotated[int, Meta(ge=10, description="How often brokers hear of this client.")] = 30_000
    suspend_pull_ms: Annotated[int, Meta(ge=0, description="How long a broker holds a pull.")] = 15_000
    pull_timeout_ms: Annotated[int, Meta(ge=1, description="How long a pull's answer is awaited.")] = 30_000
    stall_ms: Annotated[int, Meta(ge=10, description="A queue that does not move for longer is reported.")] = 60_000
    request_timeout_ms: Annotated[int, Meta(ge=1, description="For questions about routes, offsets and members.")] = (
        3000
    )
    wait_ready_ms: Annotated[
        int,
        Meta(
            ge=0,
            description="How long opening waits for the queues of all topics, or without topics for a name server to "
            "answer, then fails; 0: not.",
        ),
    ] = 0
    tls: Annotated[ClientTls, Meta(description="TLS towards name servers and brokers.")] = ClientTls()
    access_key: Annotated[str, Meta(description="Account under which requests are signed; empty: not signed.")] = ""
    secret_key: Annotated[str, Meta(description="The account's secret.")] = ""
    security_token: Annotated[str, Meta(description="A token that goes with temporary keys.")] = ""

    def __repr__(self) -> str:
        return without_secrets(self)

    @property
    def access(self) -> Access:
        """What servers are shown."""
        return Access(self.tls, self.access_key, self.secret_key, self.security_token)

    @property
    def window(self) -> WindowLimits:
        """How much of a queue may be held."""
        return WindowLimits(self.pull_threshold, self.pull_threshold_bytes, self.consume_span)

    def window_among(self, queues: int) -> WindowLimits:
        """How much of a queue may be held when the member has so many of its topic."""
        messages, size = self.pull_threshold, self.pull_threshold_bytes
        if self.pull_threshold_topic >= 0:
            messages = max(1, self.pull_threshold_topic // queues)
        if self.pull_threshold_topic_bytes >= 0:
            size = max(1, self.pull_threshold_topic_bytes // queues)
        return WindowLimits(messages, size, self.consume_span)

    @property
    def reconsume_limit(self) -> int:
        """How often a broker delivers a message again before it gives up."""
        return DEFAULT_RECONSUME_TIMES if self.max_reconsume_times < 0 else self.max_reconsume_times


class ConsumerOptions(TypedDict, total=False):
    """The knobs of a consumer as keyword arguments, other than its group."""

    instance_name: str
    client_ip: str
    unit_name: str
    ordered: bool
    broadcasting: bool
    start: Start
    workers: int
    pull_batch: int
    pull_batch_bytes: int
    max_body_bytes: int
    pull_interval_ms: int
    pull_threshold: int
    pull_threshold_bytes: int
    consume_span: int
    pull_threshold_topic: int
    pull_threshold_topic_bytes: int
    pull_error_pause_ms: int
    max_reconsume_times: int
    suspend_ms: int
    consume_timeout_ms: int
    drain_ms: int
    auto_commit: bool
    persist_ms: int
    rebalance_ms: int
    rebalance_timeout_ms: int
    poll_name_server_ms: int
    fetch_name_server_ms: int
    heartbeat_ms: int
    suspend_pull_ms: int
    pull_timeout_ms: int
    stall_ms: int
    request_timeout_ms: int
    wait_ready_ms: int
    tls: ClientTls
    access_key: str
    secret_key: str
    security_token: str


def consumer_settings(group: str, options: ConsumerOptions) -> ConsumerSettings:
    """Check and collect what was given."""
    fault = group_fault(group)
    if fault:
        raise SettingsError(fault)
    if group == DEFAULT_CONSUMER_GROUP:
        raise SettingsError(f"{group} is nobody's group; give this consumer's group a name of its own")
    given: dict[str, Any] = {"group": group, **options}
    check_names(given, ConsumerSettings)
    try:
        settings = msgspec.convert(given, ConsumerSettings)
    except msgspec.ValidationError as wrong:
        raise unusable(given, wrong) from wrong
    settings.access.check()
    check_ip(settings.client_ip)
    if isinstance(settings.start, str) and settings.start not in (FIRST, LAST, TIMESTAMP):
        raise SettingsError(f"start={settings.start!r}: write first, last, timestamp, or milliseconds since 1970")
    return settings

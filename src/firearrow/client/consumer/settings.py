"""The settings of a consumer, with RocketMQ's defaults. Java: ``DefaultMQPushConsumer``, ``ClientConfig``.

``ConsumerOptions`` is the same for keyword arguments. A test keeps the two equal.
"""

from typing import Annotated, Final

from msgspec import Meta

from firearrow.client.consumer.window import MIB, WindowLimits
from firearrow.client.settings import ClientOptions, ClientSettings, checked
from firearrow.errors import SettingsError
from firearrow.model.names import DEFAULT_CONSUMER_GROUP
from firearrow.record.decode import MAX_BODY_BYTES

FIRST: Final = "first"
LAST: Final = "last"
TIMESTAMP: Final = "timestamp"
DEFAULT_RECONSUME_TIMES: Final = 16
DEFAULT_TIMESTAMP_AGO_MS: Final = 30 * 60 * 1000

Start = str | int
"""``"first"``, ``"last"``, ``"timestamp"`` for half an hour ago, or a time in milliseconds since 1970."""


class ConsumerSettings(ClientSettings, frozen=True):
    """The settings of a consumer."""

    group: Annotated[str, Meta(description="Consumer group.")]
    ordered: Annotated[
        bool, Meta(description="Ordered consumption: one message of a queue at a time, on one member.")
    ] = False
    broadcasting: Annotated[bool, Meta(description="Broadcasting: every member gets every message.")] = False
    start: Annotated[Start, Meta(description="Where a new group starts: first, last, timestamp, or a time.")] = LAST
    workers: Annotated[int, Meta(ge=1, le=10_000, description="Handlers that run at once.")] = 20
    pull_batch: Annotated[int, Meta(ge=1, le=1024, description="Messages in a pull.")] = 32
    pull_batch_bytes: Annotated[int, Meta(ge=1, description="Bytes in a pull (5.x).")] = 256 * 1024
    max_body_bytes: Annotated[
        int, Meta(ge=1, description="Largest body after decompression; a message with a larger one has a body_fault.")
    ] = MAX_BODY_BYTES
    pull_interval_ms: Annotated[int, Meta(ge=0, le=65_535, description="Pause between two pulls of a queue.")] = 0
    pull_threshold: Annotated[int, Meta(ge=1, le=65_535, description="Most unfinished messages of a queue.")] = 1000
    pull_threshold_bytes: Annotated[int, Meta(ge=1, description="Most unfinished bytes of a queue.")] = 100 * MIB
    consume_span: Annotated[
        int, Meta(ge=1, le=65_535, description="Most offsets between the first and last unfinished message of a queue.")
    ] = 2000
    pull_threshold_topic: Annotated[
        int,
        Meta(
            ge=-1, le=6_553_500, description="Most unfinished messages of a topic, shared by its queues; -1: no limit."
        ),
    ] = -1
    pull_threshold_topic_bytes: Annotated[
        int, Meta(ge=-1, description="Most unfinished bytes of a topic, shared by its queues; -1: no limit.")
    ] = -1
    pull_error_pause_ms: Annotated[int, Meta(ge=1, description="Back-off after a refused pull.")] = 3000
    max_reconsume_times: Annotated[
        int,
        Meta(
            ge=-1,
            description="Retries of a message before it goes to the dead letters; -1: 16, or no limit if ordered.",
        ),
    ] = -1
    suspend_ms: Annotated[
        int, Meta(ge=10, le=30_000, description="Pause of an ordered queue whose handler failed.")
    ] = 1000
    consume_timeout_ms: Annotated[
        int, Meta(ge=1, description="Limit of a handler; after it the message is sent back.")
    ] = 900_000
    drain_ms: Annotated[int, Meta(ge=0, description="How long closing waits for handlers to finish.")] = 0
    auto_commit: Annotated[bool, Meta(description="Commit offsets regularly; if not, only commit() does.")] = True
    persist_ms: Annotated[int, Meta(ge=10, description="How often offsets are committed.")] = 5000
    rebalance_ms: Annotated[int, Meta(ge=10, description="How often queues are divided again.")] = 20_000
    rebalance_timeout_ms: Annotated[
        int,
        Meta(ge=1, description="Limit of a rebalance listener, and of the handlers that it waits for."),
    ] = 30_000
    suspend_pull_ms: Annotated[int, Meta(ge=0, description="How long a broker may hold a pull (long poll).")] = 15_000
    pull_timeout_ms: Annotated[int, Meta(ge=1, description="Timeout of a pull.")] = 30_000
    stall_ms: Annotated[int, Meta(ge=10, description="A queue without progress for longer is reported as stalled.")] = (
        60_000
    )
    wait_ready_ms: Annotated[
        int,
        Meta(
            ge=0,
            description="How long opening waits for the queues of all topics, or without topics for a name server to "
            "answer, then fails; 0: not.",
        ),
    ] = 0

    @property
    def window(self) -> WindowLimits:
        """The limits of a queue's window."""
        return WindowLimits(self.pull_threshold, self.pull_threshold_bytes, self.consume_span)

    def window_among(self, queues: int) -> WindowLimits:
        """The limits of a queue's window if the member owns ``queues`` queues of its topic."""
        messages, size = self.pull_threshold, self.pull_threshold_bytes
        if self.pull_threshold_topic >= 0:
            messages = max(1, self.pull_threshold_topic // queues)
        if self.pull_threshold_topic_bytes >= 0:
            size = max(1, self.pull_threshold_topic_bytes // queues)
        return WindowLimits(messages, size, self.consume_span)

    @property
    def reconsume_limit(self) -> int:
        """The number of times that a broker delivers a message again before it goes to the dead letters."""
        return DEFAULT_RECONSUME_TIMES if self.max_reconsume_times < 0 else self.max_reconsume_times


class ConsumerOptions(ClientOptions, total=False):
    """The settings of a consumer as keyword arguments, without its group."""

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
    suspend_pull_ms: int
    pull_timeout_ms: int
    stall_ms: int
    wait_ready_ms: int


def consumer_settings(group: str, options: ConsumerOptions) -> ConsumerSettings:
    """Check the given options and return the settings."""
    if group == DEFAULT_CONSUMER_GROUP:
        raise SettingsError(f"group {group} is reserved; give this consumer a group name of its own")
    settings = checked(ConsumerSettings, group, options)
    if isinstance(settings.start, str) and settings.start not in (FIRST, LAST, TIMESTAMP):
        raise SettingsError(f"start={settings.start!r}: write first, last, timestamp, or milliseconds since 1970")
    return settings
